//! Why a scheduler has its result, in words: head movement and deliberate waits.

use elevator::text::counted;

use super::ranking::{Ranking, tie_percent};
use evaluation::report::format::time;
use evaluation::runs::Run;

/// What a scheduler did with the requests.
pub(crate) fn why(run: &Run) -> String {
    let measured = &run.measured;
    let head = if run.has_head {
        format!(
            "; its head made {} over {} of disk",
            counted(measured.seeks, "seek"),
            run.travel(measured.head_travel_sectors)
        )
    } else {
        String::new()
    };
    format!("{} went to the device{head}. {}", counted(measured.dispatched, "request"), waits(run))
}

fn waits(run: &Run) -> String {
    let waits = &run.measured.waits;
    if waits.count == 0 {
        return "It never kept the device idle on purpose.".to_owned();
    }
    let alone = waits.by_reason.len() == 1;
    let reasons = waits.by_reason.iter().map(|(reason, ns)| {
        if alone { format!("it {reason}") } else { format!("it {reason} ({})", time(*ns)) }
    });
    let reasons: Vec<String> = reasons.collect();
    let total = time(waits.total_ns);
    let times = counted(waits.count, "time");
    format!("It kept the device idle {times}, {total} in all: {}.", reasons.join("; "))
}

/// An explanation of the first and of the last run, one line each; one line if their results are equal.
pub(crate) fn contrast(ranking: &Ranking<'_>) -> Vec<String> {
    let done = || ranking.rows.iter().filter(|row| row.run.failure.is_none());
    let Some(first) = done().next() else { return Vec::new() };
    if first.rank.is_none() && done().count() > 1 {
        return Vec::new();
    }
    let tied: Vec<&str> = done()
        .filter(|row| row.rank.is_some() && row.rank == first.rank)
        .map(|row| row.run.scheduler.as_str())
        .collect();
    let mut lines = Vec::new();
    let last = done().next_back().filter(|last| last.rank != first.rank && last.rank.is_some());
    let last = last.filter(|last| !std::ptr::eq(last.run, first.run));
    match (tied.len(), last) {
        (0 | 1, None) => lines.push(format!("{}: {}", first.run.scheduler, why(first.run))),
        (0 | 1, Some(_)) => lines.push(format!("{} is first: {}", first.run.scheduler, why(first.run))),
        (_, _) => {
            let what = if last.is_some() { "are first" } else { "are equal" };
            lines.push(format!("{} {what}, within {}.", tied.join(", "), tie_percent()));
            lines.push(format!("{}: {}", first.run.scheduler, why(first.run)));
        }
    }
    lines.extend(last.map(|last| format!("{} is last: {}", last.run.scheduler, why(last.run))));
    lines
}

#[cfg(test)]
pub(super) mod tests {
    use machine::{Measured, Timeline};

    use super::super::ranking::SortKey;
    use super::*;
    use evaluation::spool::Spool;

    pub(crate) fn run(scheduler: &str, elapsed_ns: u64, bytes: u64) -> Run {
        Run {
            scheduler: scheduler.to_owned(),
            measured: Measured { elapsed_ns, bytes, ..Measured::default() },
            fairness: None,
            cut: false,
            failure: None,
            outcome: None,
            work_bytes: None,
            limit: None,
            has_head: true,
            distributions: [Vec::new(), Vec::new()],
            timeline: Timeline::default(),
            names: Default::default(),
            explanation: Spool::default(),
        }
    }

    #[test]
    fn the_first_and_last_of_the_ranking_are_explained() {
        let lines = |runs: &[Run], key| contrast(&Ranking::new(runs, key));
        let both = lines(&[run("slow", 20, 30), run("quick", 10, 10)], SortKey::Time);
        assert!(both[0].starts_with("quick is first: ") && both[1].starts_with("slow is last: "), "{both:?}");
        let alone = lines(&[run("quick", 10, 10)], SortKey::Rate);
        assert!(alone.len() == 1 && alone[0].starts_with("quick: 0 requests went"), "{alone:?}");
        let failed = Run { failure: Some("full".to_owned()), ..run("failed", 1, 1) };
        assert!(lines(&[failed], SortKey::Rate).is_empty());
    }

    #[test]
    fn ties_for_the_first_place_are_named() {
        let runs = [run("a", 1000, 100), run("b", 1001, 100), run("slow", 2000, 100)];
        let lines = contrast(&Ranking::new(&runs, SortKey::Rate));
        assert!(lines[0].starts_with("a, b are first, within 1%."), "{lines:?}");
        assert!(lines[2].starts_with("slow is last: "), "{lines:?}");
        let lines = contrast(&Ranking::new(&runs[..2], SortKey::Rate));
        assert!(lines[0].starts_with("a, b are equal, within 1%.") && lines.len() == 2, "{lines:?}");
    }
}
