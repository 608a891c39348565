//! Why a scheduler has its result, in words: head movement and deliberate waits.

use elevator::text::counted;

use super::ranking::Ranking;
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

/// What each scheduler did, best first, one line for those that did the same.
pub(crate) fn explanations(ranking: &Ranking<'_>) -> Vec<String> {
    let mut lines: Vec<(Vec<&str>, String)> = Vec::new();
    for run in ranking.runs().into_iter().filter(|run| run.failure.is_none()) {
        let text = brief(run);
        match lines.iter_mut().find(|(_, known)| *known == text) {
            Some((names, _)) => names.push(&run.scheduler),
            None => lines.push((vec![&run.scheduler], text)),
        }
    }
    lines.into_iter().map(|(names, text)| format!("{}: {text}", names.join(", "))).collect()
}

/// The same as [`why`] in a few words.
fn brief(run: &Run) -> String {
    let measured = &run.measured;
    let requests = counted(measured.dispatched, "request");
    let moved = match measured.seeks {
        _ if !run.has_head => requests,
        0 => format!("no seek in {requests}"),
        seeks => {
            let each = run.travel(measured.head_travel_sectors / seeks);
            let mean = if seeks == 1 { "" } else { " on average" };
            format!("{} of {each}{mean} in {requests}", counted(seeks, "seek"))
        }
    };
    let waits = &measured.waits;
    if waits.count == 0 {
        return format!("{moved}; no deliberate wait");
    }
    let mut reasons: Vec<(&str, u64)> = waits.by_reason.iter().map(|(reason, ns)| (*reason, *ns)).collect();
    reasons.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let alone = reasons.len() == 1;
    let reasons = reasons.into_iter().map(|(reason, ns)| match alone {
        true => reason.to_owned(),
        false => format!("{reason} ({})", time(ns)),
    });
    let reasons: Vec<String> = reasons.collect();
    let (total, pauses) = (time(waits.total_ns), counted(waits.count, "pause"));
    format!("{moved}; waited {total} in {pauses}: {}", reasons.join(", "))
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
    fn every_scheduler_is_explained_and_equal_ones_once() {
        let lines = |runs: &[Run]| explanations(&Ranking::new(runs, SortKey::Rate));
        let mut runs = [run("slow", 20, 10), run("quick", 10, 10), run("late", 30, 10)];
        (runs[1].measured.seeks, runs[1].measured.head_travel_sectors) = (4, 8000);
        runs[1].measured.dispatched = 9;
        let waits = &mut runs[1].measured.waits;
        (waits.count, waits.total_ns) = (2, 3_000_000);
        waits.by_reason.extend([("idles", 1_000_000), ("anticipates", 2_000_000)]);
        let expected = [
            "quick: 4 seeks of 1.02 MB on average in 9 requests; waited 3.00 ms in 2 pauses: anticipates (2.00 ms), idles (1.00 ms)",
            "slow, late: no seek in 0 requests; no deliberate wait",
        ];
        assert_eq!(lines(&runs), expected);
        let failed = Run { failure: Some("full".to_owned()), ..run("failed", 1, 1) };
        assert!(lines(&[failed]).is_empty());
        let solid = Run { has_head: false, ..run("none", 1, 1) };
        assert_eq!(lines(&[solid]), ["none: 0 requests; no deliberate wait"]);
    }
}
