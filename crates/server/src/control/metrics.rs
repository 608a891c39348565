//! A device's counters as Prometheus text, exposition format 0.0.4.

use std::fmt::Write;

use elevator::Op;

use super::Snapshot;
use crate::statistics::Times;

/// Every kind of operation.
pub(super) const OPERATIONS: [Op; 4] = [Op::Read, Op::Write, Op::Discard, Op::Flush];

/// The counters of the device `name`, which is a label of each.
pub(super) fn text(snapshot: &Snapshot, name: &str) -> String {
    let device =
        format!("device=\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
    let mut out = String::new();
    let statistics = &snapshot.statistics;
    let mut single = |name: &str, kind: &str, help: &str, value: u64| {
        header(&mut out, name, kind, help);
        let _ = writeln!(out, "dwell_{name}{{{device}}} {value}");
    };
    single("queued_requests", "gauge", "Requests in the scheduler.", u64::from(snapshot.queued));
    single("in_flight_requests", "gauge", "Requests in the device.", u64::from(snapshot.in_flight));
    single("dispatched_requests_total", "counter", "Requests dispatched.", statistics.dispatched);
    single("holds_total", "counter", "Deliberate waits begun.", statistics.holds);
    single("switches_total", "counter", "Switches of schedulers.", statistics.switches.0);
    single(
        "scheduler_faults_total",
        "counter",
        "Faults of schedulers, each of which made noop the scheduler.",
        statistics.faults,
    );
    single(
        "timed_out_requests_total",
        "counter",
        "Requests that the back end did not return in time.",
        statistics.timed_out,
    );
    single("clients", "gauge", "Clients connected.", snapshot.clients.len() as u64);
    by_operation(&mut out, (snapshot, &device), "operations_total", "Operations done.", |account| {
        account.done
    });
    by_operation(&mut out, (snapshot, &device), "failed_operations_total", "Operations failed.", |account| {
        account.failed
    });
    by_operation(&mut out, (snapshot, &device), "bytes_total", "Bytes moved.", |account| account.bytes);
    header(&mut out, "latency_seconds", "histogram", "From submission to completion.");
    for op in OPERATIONS {
        histogram(
            &mut out,
            "latency_seconds",
            &format!("{device},operation=\"{op}\""),
            &statistics.account(op).latency,
        );
    }
    header(&mut out, "lateness_seconds", "histogram", "How late an emulated drive answered.");
    histogram(&mut out, "lateness_seconds", &device, &statistics.lateness);
    out
}

fn header(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP dwell_{name} {help}\n# TYPE dwell_{name} {kind}");
}

fn by_operation(
    out: &mut String,
    (snapshot, device): (&Snapshot, &str),
    name: &str,
    help: &str,
    value: impl Fn(&crate::statistics::Account) -> u64,
) {
    header(out, name, "counter", help);
    for op in OPERATIONS {
        let value = value(snapshot.statistics.account(op));
        let _ = writeln!(out, "dwell_{name}{{{device},operation=\"{op}\"}} {value}");
    }
}

fn histogram(out: &mut String, name: &str, labels: &str, times: &Times) {
    for (bound, count) in times.cumulative() {
        let _ = writeln!(out, "dwell_{name}_bucket{{{labels},le=\"{}\"}} {count}", bound as f64 / 1e9);
    }
    let summary = times.summary();
    let _ = writeln!(out, "dwell_{name}_bucket{{{labels},le=\"+Inf\"}} {}", summary.count);
    let sum = times.sum_ns() as f64 / 1e9;
    let _ =
        writeln!(out, "dwell_{name}_sum{{{labels}}} {sum}\ndwell_{name}_count{{{labels}}} {}", summary.count);
}
