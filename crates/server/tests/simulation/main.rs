//! The whole server under simulated faults: NBD connections, queue, scheduler, device and control orders run in virtual time over a
//! simulated disk and simulated clients. The disk fails, hangs, fills up and loses power; the server is killed and started again;
//! clients leave at any byte; schedulers are switched, tuned, and some of them are faulty. An oracle checks every reply, every flush
//! and, after each power loss, every sector.
//!
//! One seed determines one life of a disk. `DWELL_SEED` sets the first seed, `DWELL_OPERATIONS` the number of requests. A failure prints its
//! seed, which reproduces it.

mod causes;
mod client;
mod disk;
#[allow(dead_code, reason = "each test file uses its part")]
#[path = "../../../elevator/tests/common/faulty.rs"]
mod faulty;
mod life;
mod oracle;
mod policies;

extern crate elevator as dwell_elevator;

use std::time::Instant;

use disk::Mutation;
use faulty::silence_panics;
use life::{Totals, live};

/// Requests in one life of a disk.
const LIFE: u64 = 100_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn no_promise_is_broken() {
    silence_panics();
    let (first, requests) = (number("DWELL_SEED", 1), number("DWELL_OPERATIONS", 400_000));
    let (begun, mut totals, mut seed) = (Instant::now(), Totals::default(), first);
    while totals.sent < requests {
        totals.add(&live(seed, LIFE, None).unwrap_or_else(|violation| panic!("{violation}")));
        seed += 1;
        if totals.lives.is_multiple_of(100) {
            println!("seeds {first} to {}: {totals:?}", seed - 1);
        }
    }
    let rate = totals.sent as f64 / begun.elapsed().as_secs_f64();
    println!("seeds {first} to {}: {totals:?}, {rate:.0} requests a second", seed - 1);
    if totals.lives >= 4 {
        assert!(totals.power_losses > 0 && totals.kills > 0 && totals.stops > 0, "{totals:?}");
        assert!(totals.scheduler_faults > 0 && totals.disconnects > 0 && totals.failed > 0, "{totals:?}");
        assert!(totals.refused > 0 && totals.hoarders_disconnected > 0, "{totals:?}");
        assert!(totals.lost_jobs > 0 && totals.bounded > 0, "{totals:?}");
    }
}

#[test]
fn equal_seeds_give_equal_lives() {
    silence_panics();
    let [first, second] = [(); 2].map(|()| format!("{:?}", live(7, 20_000, None).expect("no violation")));
    assert_eq!(first, second);
}

#[test]
fn the_oracle_finds_every_mutation() {
    silence_panics();
    for mutation in [
        Mutation::LosesWrite,
        Mutation::FlushesNothing,
        Mutation::IgnoresFua,
        Mutation::AnswersTwice,
        Mutation::NeverAnswers,
        Mutation::WritesShort,
        Mutation::ReadsStale,
        Mutation::LandsLate,
        Mutation::HidesError,
        Mutation::HidesFull,
        Mutation::LosesAtKill,
        Mutation::LosesAtSwitch,
        Mutation::RunsCutOff,
        Mutation::AcknowledgesRefused,
        Mutation::ForgetsOverdue,
        Mutation::FailsHealthy,
        Mutation::BreaksBound,
    ] {
        let found = (1..=40).find_map(|seed| live(seed, LIFE, Some(mutation)).err());
        let found = found.unwrap_or_else(|| panic!("{mutation:?} was not found"));
        println!("{mutation:?}: {found}");
    }
}
