//! Why a scheduler came out as it did, in words: where it sent the head, and what it let the device wait for.

use wording::counted;

use super::run::Run;
use crate::format::time;

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

/// The first and the last of these, the best one first, and why: a line each. One line if none is better than another.
pub(crate) fn contrast(ranked: &[&Run]) -> Vec<String> {
    let mut done = ranked.iter().filter(|run| run.failure.is_none());
    let Some(first) = done.next() else { return Vec::new() };
    let speed = |run: &Run| run.measured.megabytes_per_second();
    match done.next_back().filter(|last| speed(last) < speed(first)) {
        Some(last) => vec![
            format!("{} is first: {}", first.scheduler, why(first)),
            format!("{} is last: {}", last.scheduler, why(last)),
        ],
        None => vec![format!("{}: {}", first.scheduler, why(first))],
    }
}
