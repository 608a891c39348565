//! A faulty scheduler of a running server: clients receive every reply, and the server continues with `noop` and reports the fault.

mod common;
#[allow(dead_code, reason = "each test file uses its part")]
#[path = "../../elevator/tests/common/faulty.rs"]
mod faulty;

extern crate elevator as dwell_elevator;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::Directory;
use common::client::{FUA, Nbd, READ};
use elevator::queue::Supervision;
use elevator::{Scheduler, Span};
use faulty::{Faulty, Shared, Wrong};
use schedulers::{Environment, Spec};
use server::backend::{Backend, Memory};
use server::control::Client;
use server::nbd::Address;
use server::{Configuration, NbdOptions, Server};

/// Creates faulty schedulers by the name of their fault, and all other schedulers.
fn make(name: &str, wrong: Wrong, after: u64, shared: &Shared) -> Result<Box<dyn Scheduler>, String> {
    if name == "mine" {
        return Ok(Faulty::new(wrong, after, shared));
    }
    let spec = Spec::parse(name).map_err(|error| error.to_string())?;
    spec.build(&Environment::default()).map(|made| made as _).map_err(|error| error.to_string())
}

/// A server in memory with a scheduler that is faulty after `after` requests.
fn serve(directory: &Directory, wrong: Wrong, after: u64) -> Server {
    let limit = Some(Span::from_millis(200));
    supervised(directory, wrong, after, Supervision { longest_hold: limit, oldest: limit, overtaken: 50 })
}

/// The same with these limits.
fn supervised(directory: &Directory, wrong: Wrong, after: u64, supervision: Supervision) -> Server {
    let backend = || Ok(Box::new(Memory::new(1 << 20, 4)) as Box<dyn Backend>);
    let shared = Shared::default();
    let schedulers = Arc::new(move |name: &str| make(name, wrong, after, &shared));
    let mut configuration = Configuration::new(backend, "mine", schedulers);
    let addresses = vec![Address::Unix(directory.join("nbd"))];
    configuration.nbd = Some(NbdOptions { addresses, ..NbdOptions::default() });
    configuration.control = Some(directory.join("control"));
    configuration.options.supervision = supervision;
    server::start(configuration).expect("it serves")
}

/// Writes and reads 64 distant blocks, all in flight at the same time.
fn exercise(path: &Path, fill: u8) {
    let mut client = Nbd::connect(path);
    for block in 0..64u64 {
        let flags = if block % 16 == 0 { FUA } else { 0 };
        client.send_write(flags, block, block * 8192, &[fill ^ block as u8; 4096]).unwrap();
    }
    let mut answered: Vec<u64> = (0..64)
        .map(|_| client.reply().unwrap())
        .map(|(cookie, error)| {
            assert_eq!(error, 0);
            cookie
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..64).collect::<Vec<_>>(), "each request has one reply");
    for block in 0..64u64 {
        client.send(0, READ, block, block * 8192, 4096).unwrap();
    }
    for _ in 0..64 {
        let (block, error) = client.reply().unwrap();
        let mut data = [0; 4096];
        std::io::Read::read_exact(&mut client.stream, &mut data).unwrap();
        assert_eq!((error, data), (0, [fill ^ block as u8; 4096]), "block {block}");
    }
}

#[test]
fn clients_of_a_faulty_scheduler_receive_every_reply() {
    let table = [
        (Wrong::Forgets, "returned idle with"),
        (Wrong::Idle, "returned idle with"),
        (Wrong::HoldsWithoutEnd, "hold without end"),
        (Wrong::AwaitsNoCompletion, "awaits a completion with nothing in flight"),
        (Wrong::HoldsInThePast, "a time that has passed"),
        (Wrong::HoldsAgainAndAgain, "held back every request of an idle device for"),
        (Wrong::HoldsForAYear, "held back every request of an idle device for"),
        (Wrong::AwaitsAWordFromOutside, "held back every request of an idle device for"),
        (Wrong::UnknownId, "names no queued request"),
        (Wrong::DispatchedId, "names no queued request"),
        (Wrong::Panics("insert"), "panicked in insert()"),
        (Wrong::Panics("next"), "panicked in next()"),
        (Wrong::Panics("completed"), "panicked in completed()"),
    ];
    for (wrong, words) in table {
        for after in [0, 100, 10_000] {
            let directory = Directory::in_memory();
            let server = serve(&directory, wrong, after);
            let begun = Instant::now();
            for round in 0..after / 128 + 3 {
                exercise(&directory.join("nbd"), round as u8);
            }
            let state = server.state().unwrap();
            assert_eq!(state.scheduler, "noop", "{wrong:?} after {after}");
            assert_eq!(state.scheduler_faults, 1, "{wrong:?} after {after}");
            let fault = state.last_scheduler_fault.unwrap();
            assert!(fault.starts_with("scheduler 'mine' ") && fault.contains(words), "{wrong:?}: {fault}");
            assert!(begun.elapsed() < Duration::from_secs(60), "{wrong:?} after {after}");
            let mut control = Client::connect(&directory.join("control")).unwrap();
            assert!(
                control.metrics().unwrap().contains("\ndwell_scheduler_faults_total{device=\"control\"} 1\n")
            );
            control.switch("deadline", false).unwrap();
            exercise(&directory.join("nbd"), 99);
            assert_eq!(server.state().unwrap().scheduler, "deadline");
            server.stop().expect("an orderly end");
        }
    }
}

/// Both limits of a request's age: many others were dispatched meanwhile, or the request is ten times as old.
#[test]
fn a_request_that_is_never_dispatched_is_answered_by_another_scheduler() {
    for (overtaken, oldest) in [(1_000, Span::from_millis(200)), (u64::MAX, Span::from_millis(500))] {
        let directory = Directory::in_memory();
        let supervision = Supervision { longest_hold: None, oldest: Some(oldest), overtaken };
        let server = supervised(&directory, Wrong::PassesOver, 0, supervision);
        let [mut kept, mut others] = [(); 2].map(|()| Nbd::connect(&directory.join("nbd")));
        for _ in 0..99 {
            others.read(0, 4096).unwrap();
        }
        // The hundredth.
        kept.send(0, READ, 7, 8192, 4096).unwrap();
        kept.stream.set_nonblocking(true).unwrap();
        let begun = Instant::now();
        while server.state().unwrap().queued == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is not queued");
        }
        while std::io::Read::read(&mut kept.stream, &mut [0; 16]).is_err() {
            others.read(0, 4096).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(60), "it has no answer");
        }
        let state = server.state().unwrap();
        assert_eq!((state.scheduler.as_str(), state.scheduler_faults), ("noop", 1));
        let fault = state.last_scheduler_fault.unwrap();
        assert!(fault.contains("did not dispatch request"), "{fault}");
        exercise(&directory.join("nbd"), 9);
        server.stop().expect("an orderly end");
    }
}

#[test]
fn panics_in_control_calls_do_not_end_the_server() {
    for (method, after) in [("inspect", 0), ("tunables", 0), ("tune", 0), ("drop", 0)] {
        let directory = Directory::in_memory();
        let server = serve(&directory, Wrong::Panics(method), after);
        exercise(&directory.join("nbd"), 1);
        let mut control = Client::connect(&directory.join("control")).unwrap();
        let tuned = control.tune("nothing", "1");
        assert!(tuned.is_err(), "{method}");
        let _ = server.state().unwrap();
        control.switch("noop", false).unwrap();
        exercise(&directory.join("nbd"), 2);
        let faults = server.state().unwrap().scheduler_faults;
        assert!(faults <= 1, "{method}: {faults}");
        server.stop().expect("an orderly end");
    }
}
