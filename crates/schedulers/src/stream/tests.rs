//! The framework step by step. Whole workloads are in `tests/stream.rs`.

use alloc::boxed::Box;

use super::*;
use crate::noop::Noop;
use crate::testing::{Table, at_ms};
use elevator::service_time::MeasuredPoint;

/// 1 ms up to 1,000 sectors away, 10 ms from 100,000 on; and no time for the transfer.
fn curve() -> ServiceCurve {
    let points = [(0, 1), (1_000, 1), (100_000, 10)];
    let points = points.map(|(distance, ms)| MeasuredPoint { distance, time: Span::from_millis(ms) });
    ServiceCurve::fit(&points, Span::ZERO)
}

fn table(settings: &[(&str, Value)]) -> Table {
    let mut t = Table::new(StreamScheduling::new(Box::new(Noop::default()), curve()));
    for (name, value) in settings {
        t.scheduler.tune(name, *value).unwrap();
    }
    t
}

const FAR: u64 = 1_000_000;
const FARTHER: u64 = 2_000_000;

/// Four requests of one reader, each after the last one's completion, with another reader far away: the policy is first
/// come, first served, so they alternate until the stream is established. Returns the other reader's queued request.
fn establish(t: &mut Table) -> RequestId {
    let mut other = t.read(FAR);
    t.serves(other, Reason::FirstCome);
    let mut own = t.read(0);
    other = t.read_by(2, FARTHER);
    for n in 1..4 {
        t.serves(own, Reason::FirstCome);
        own = t.read_by(1, n * 8);
        t.serves(other, Reason::FirstCome);
        // The other one reads at random, so that no stream begins there.
        other = t.read_by(2, FARTHER + n * 100_000_000);
    }
    t.serves(own, Reason::FirstCome); // the fourth
    other
}

#[test]
fn the_disk_waits_for_the_child_of_an_established_stream() {
    let mut t = table(&[]);
    let other = establish(&mut t);
    t.holds(HoldReason::AwaitChild, Some(at_ms(10)));
    t.at(3);
    let child = t.read(32);
    t.serves(child, Reason::Child);
    t.holds(HoldReason::AwaitChild, Some(at_ms(13)));
    t.at(13).serves(other, Reason::StreamBroken);
    t.idles();
}
