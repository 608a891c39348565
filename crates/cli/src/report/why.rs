//! Why a scheduler has its result, in words: head movement and deliberate waits.

use elevator::text::counted;

use evaluation::report::format::time;
use evaluation::runs::Run;

/// What a scheduler did with the requests.
pub(crate) fn why(run: &Run) -> String {
    let measured = &run.measured;
    let head = if run.has_head {
        format!(
            "; its head went {} to a place away from the last one, over {} of disk",
            counted(measured.seeks, "time"),
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
        return "It never let the device wait on purpose.".to_owned();
    }
    let alone = waits.by_reason.len() == 1;
    let reasons = waits.by_reason.iter().map(|(reason, ns)| {
        if alone { format!("it {reason}") } else { format!("it {reason} ({})", time(*ns)) }
    });
    let reasons: Vec<String> = reasons.collect();
    let total = time(waits.total_ns);
    let times = counted(waits.count, "time");
    format!("It let the device wait {times}, {total} in all: {}.", reasons.join("; "))
}

/// An explanation of the first and of the last run, one line each; one line if their results are equal.
pub(crate) fn contrast(ranked: &[&Run]) -> Vec<String> {
    let mut done = ranked.iter().filter(|run| run.failure.is_none());
    let Some(first) = done.next() else { return Vec::new() };
    let came_to = |run: &Run| (run.measured.elapsed_ns, run.measured.bytes);
    match done.next_back().filter(|last| came_to(last) != came_to(first)) {
        Some(last) => vec![
            format!("{} is first: {}", first.scheduler, why(first)),
            format!("{} is last: {}", last.scheduler, why(last)),
        ],
        None => vec![format!("{}: {}", first.scheduler, why(first))],
    }
}

#[cfg(test)]
mod tests {
    use machine::{Measured, Timeline};

    use super::*;
    use evaluation::spool::Spool;

    fn run(scheduler: &str, elapsed_ns: u64, bytes: u64) -> Run {
        Run {
            scheduler: scheduler.to_owned(),
            measured: Measured { elapsed_ns, bytes, ..Measured::default() },
            fairness: None,
            cut: false,
            failure: None,
            outcome: None,
            limit: None,
            has_head: true,
            distributions: [Vec::new(), Vec::new()],
            timeline: Timeline::default(),
            names: Default::default(),
            explanation: Spool::default(),
        }
    }

    /// On a machine the shortest time is first, even if the last run has a higher throughput.
    #[test]
    fn the_first_and_last_of_the_given_order_are_explained() {
        let (quick, slow, same) = (run("quick", 10, 10), run("slow", 20, 30), run("same", 10, 10));
        let lines = contrast(&[&quick, &same, &slow]);
        assert!(
            lines[0].starts_with("quick is first: ") && lines[1].starts_with("slow is last: "),
            "{lines:?}"
        );
        let lines = contrast(&[&quick, &same]);
        assert!(lines.len() == 1 && lines[0].starts_with("quick: 0 requests went"), "{lines:?}");
        let failed = Run { failure: Some("full".to_owned()), ..run("failed", 1, 1) };
        assert!(contrast(&[&failed]).is_empty());
    }
}
