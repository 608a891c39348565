//! Tests of the snapshot, without a terminal.

use serde_json::{Value, json};
use server::control::protocol::State;

use super::*;

fn state(time_ns: u64, reads: u64, head: u64) -> State {
    let times = json!({"count": 1, "mean_ns": 5, "p50_ns": 2_000_000, "p90_ns": 5, "p99_ns": 9_000_000, "p999_ns": 5, "max_ns": 40_000_000});
    let operation =
        json!({"done": reads, "failed": 0, "bytes": reads * 4096, "latency": times, "wait": times});
    let item = json!({"kind": "stream", "number": 3, "facts": {"role": "served", "position_sector": 77}});
    let state: Value = json!({
        "time_ns": time_ns, "speed": 1, "scheduler": "stream(deadline)", "tunables": [], "items": [item],
        "backend": "an emulated drive", "capacity_sectors": 1_000_000, "depth": 31, "queued": 5, "in_flight": 2,
        "unfinished": 7, "head_sector": head, "dispatched": reads, "holds": reads / 2, "salvaged": 0, "timed_out": 0,
        "operations": {"read": operation}, "processes": {"42": {"operations": reads, "read_bytes": reads * 4096, "written_bytes": 0}},
        "clients": [], "lateness": times, "switches": 0, "last_switch": null, "draining_ns": null, "log_lost": null,
        "scheduler_faults": 0, "last_scheduler_fault": null
    });
    serde_json::from_value(state).expect("a state as the server sends it")
}

/// A failed operation transfers nothing, so that it does not count for throughput.
#[test]
fn failed_operations_have_a_column_and_do_not_count_as_done() {
    let mut failing = state(500_000_000, 100, 0);
    failing.operations.get_mut("read").unwrap().failed = 300;
    let mut history = History::new(state(0, 0, 0));
    history.update(failing);
    history.begin_snapshot();
    let snapshot = text(&history, 80).unwrap();
    let line = snapshot.lines().find(|line| line.contains("│read")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(&cells[..4], ["│read", "200", "0.82", "300"], "{snapshot}");
}

fn drawn(heads: &[u64]) -> String {
    let mut history = History::new(state(0, 0, heads[0]));
    for &head in heads {
        history.update(state(500_000_000, 100, head));
    }
    history.begin_snapshot();
    text(&history, 80).unwrap()
}

#[test]
fn rates_are_of_the_time_between_two_snapshots() {
    let snapshot = drawn(&[0]);
    // 100 reads in half a second.
    for part in [
        "stream(deadline)",
        "5 queued, 2 of 31 in the device",
        "200 dispatched/s",
        "0.82",
        "9.00 ms",
        "40.0 ms",
    ] {
        assert!(snapshot.contains(part), "{part} is not in\n{snapshot}");
    }
}

#[test]
fn a_draining_switch_is_shown() {
    let waiting = State { draining_ns: Some(7_000_000), ..state(0, 0, 0) };
    assert_eq!(crate::commands::ctl::scheduler(&state(0, 0, 0)), "stream(deadline)");
    let snapshot = text(&History::new(waiting), 80).unwrap();
    assert!(snapshot.starts_with("stream(deadline) takes over when the queue is empty"), "{snapshot}");
    assert!(snapshot.contains("draining for 7.00 ms"), "{snapshot}");
}

/// At ten times real time, a displayed second is a tenth of a second.
#[test]
fn the_speed_of_the_devices_clock_is_shown() {
    let fast = text(&History::new(State { speed: 10, ..state(0, 0, 0) }), 80).unwrap();
    assert!(fast.contains("10 times real time") && !drawn(&[0]).contains("real time"), "{fast}");
}

#[test]
fn only_an_emulated_drive_has_lateness() {
    let punctual = text(&History::new(State { lateness: Default::default(), ..state(0, 0, 0) }), 80).unwrap();
    assert!(
        drawn(&[0]).contains("completions late by 2.00 ms") && !punctual.contains("completions late"),
        "{punctual}"
    );
}

#[test]
fn processes_and_streams_have_their_lines() {
    let snapshot = drawn(&[0]);
    assert!(snapshot.lines().any(|line| line.contains("42") && line.contains("200")), "{snapshot}");
    assert!(snapshot.lines().any(|line| line.contains("served") && line.contains("77")), "{snapshot}");
}

#[test]
fn the_newest_head_position_is_the_full_mark_below_the_others() {
    let snapshot = drawn(&[0, 999_999]);
    let row = |mark: char| snapshot.lines().position(|line| line.contains(mark)).expect("it is drawn");
    let column = |mark: char| snapshot.lines().find_map(|line| line.chars().position(|c| c == mark)).unwrap();
    assert!(row('▒') < row('█'), "{snapshot}");
    assert_eq!(column('▒'), 1, "sector 0 is at the left");
    assert_eq!(column('█'), 80 - 2, "the last sector is at the right");
}

#[test]
fn a_tiny_terminal_does_not_panic() {
    let history = History::new(state(0, 0, 5));
    for (width, height) in [(1, 1), (3, 9), (200, 3), (0, 0)] {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen::draw(&history, frame)).unwrap();
    }
}

#[test]
fn accounts_have_rates_and_the_calls_in_which_they_wait() {
    let with = |time_ns, data: u64, held_ns: u64| {
        let account = json!({"name": "backup", "terms": {}, "agents": 1, "calls": 3, "held": 2, "held_ns": held_ns, "dirty": 8192,
            "caused": data, "data": data, "waits": {"write": {"held": 2, "calls": 3, "held_ns": held_ns}}});
        State { accounts: vec![serde_json::from_value(account).unwrap()], ..state(time_ns, 0, 0) }
    };
    let mut history = History::new(with(0, 0, 0));
    history.update(with(500_000_000, 4_000_000, 250_000_000));
    history.begin_snapshot();
    let snapshot = text(&history, 80).unwrap();
    for part in ["backup", "write 2", "0.50", "8.00 MB/s", "8.19 kB"] {
        assert!(snapshot.contains(part), "{part} is not in\n{snapshot}");
    }
}
