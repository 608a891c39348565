//! The requests of IOAnalyzer's benchmarks.

use std::collections::BTreeSet;

use elevator::{Op, Time};
use machine::{Io, Next, Program};
use workloads::Workload;
use workloads::builtin::{Builtin, TpcH};

fn build(name: &str, settings: &[(&str, &str)]) -> Box<dyn Workload> {
    let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Builtin::named(name).expect("it is there").build(&settings).expect("good settings")
}

/// The requests of a program if each completes at once.
fn asks(program: &mut dyn Program) -> Vec<Io> {
    let mut asked = Vec::new();
    loop {
        match program.next(Time::ZERO) {
            Next::Submit(io) => asked.push(io),
            Next::Exit => return asked,
            _ => {}
        }
    }
}

#[test]
fn strides_are_from_start_to_start() {
    let workload =
        build("strided", &[("file_bytes", "65536"), ("stride_bytes", "16384"), ("processes", "2")]);
    let starts: Vec<Vec<u64>> = workload
        .processes()
        .iter_mut()
        .map(|(_, program)| asks(&mut **program).iter().map(|io| io.start.0).collect())
        .collect();
    let apart = 8 * 2_097_152;
    assert_eq!(starts, [[0, 32, 64, 96].to_vec(), [0, 32, 64, 96].map(|s| s + apart).to_vec()]);
    assert!(starts[1].iter().all(|&start| start + 8 <= workload.end().0));
}

#[test]
fn runs_dump_different_files() {
    let of = |run: &str| {
        let workload = build("kernel-read", &[("files", "100"), ("dump_bytes", "1048576"), ("run", run)]);
        let mut processes = workload.processes();
        let asked: Vec<Vec<Io>> = processes.iter_mut().map(|(_, program)| asks(&mut **program)).collect();
        assert!(asked.iter().flatten().all(|io| io.start.0 + u64::from(io.sectors.0) <= workload.end().0));
        asked
    };
    let (one, two) = (of("1"), of("2"));
    assert_eq!(one[..2], two[..2]);
    assert!(one[2..] != two[2..]);
    let dumped: u64 = one[2].iter().map(|io| io.sectors.bytes()).sum();
    assert_eq!(dumped, 4 << 20, "four files of a mebibyte");
    assert!(one[0].iter().any(|io| io.flags.meta), "inodes are read, too");
}

#[test]
fn queries_receive_all_bytes_with_any_cache() {
    let of = |cache: &str| {
        let settings = [("database_bytes", "67108864"), ("cache", cache)];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let (mut processes, user) = TpcH::new(&settings).unwrap().counted();
        let asked: Vec<Io> = processes.iter_mut().flat_map(|(_, program)| asks(&mut **program)).collect();
        (asked.iter().map(|io| io.sectors.bytes()).sum::<u64>(), user.get())
    };
    let ((little, user), (much, same)) = (of("1%"), of("100%"));
    assert_eq!(user, same);
    assert!(much <= 67_108_864 * 9 / 8, "a cache of everything reads a page about once: {much}");
    assert!(little > 2 * much && little <= user, "{little} of {user}, {much}");
}

#[test]
fn a_checkpoint_writes_the_pages_that_transactions_changed() {
    let workload = build("tpc-e", &[("transactions", "400"), ("log_transactions", "20"), ("clients", "2")]);
    let mut processes = workload.processes();
    let first = asks(&mut *processes[0].1);
    let commits = first.iter().filter(|io| io.op == Op::Write).count();
    assert!((60..130).contains(&commits), "about 23% of 400: {commits}");
    assert!(first.iter().filter(|io| io.op == Op::Write).all(|io| io.flags.sync && io.flags.fua));
    assert!(asks(&mut *processes[1].1).is_empty(), "the first client took them all");
    let again = asks(&mut *workload.processes()[0].1);
    assert_eq!(first, again, "the transactions do not depend on the number of processes");
    let places: BTreeSet<u64> = first.iter().map(|io| io.start.0).collect();
    assert!(places.len() > 400, "scattered");
}

#[test]
fn the_checkpointer_waits_for_a_full_log() {
    let workload = build("tpc-e", &[("transactions", "400"), ("log_transactions", "20"), ("clients", "2")]);
    let mut processes = workload.processes();
    let checkpointer = &mut processes[2].1;
    assert!(matches!(checkpointer.next(Time::ZERO), Next::Think(_)), "nothing is logged yet");
    let _ = asks(&mut *processes[0].1);
    let mut written = Vec::new();
    while let Next::Submit(io) = processes[2].1.next(Time::ZERO) {
        assert!(io.op == Op::Write && !io.flags.sync);
        written.push(io.start.0);
    }
    assert!(written.len() > 200 && written.is_sorted(), "{}", written.len());
}

#[test]
fn copy_on_write_reads_tables_and_copies_clusters() {
    let of = |format: &str| {
        let settings = [("reports", "200"), ("copy_on_write", format), ("image_bytes", "1073741824")];
        let workload = build("tariffs", &settings);
        let mut processes = workload.processes();
        let asked: Vec<Io> = processes.iter_mut().flat_map(|(_, program)| asks(&mut **program)).collect();
        assert!(asked.iter().all(|io| io.start.0 + u64::from(io.sectors.0) <= workload.end().0));
        let read = asked.iter().filter(|io| io.op == Op::Read).count();
        let written: u64 = asked.iter().filter(|io| io.op == Op::Write).map(|io| io.sectors.bytes()).sum();
        (read, written)
    };
    let (raw, copied) = (of("off"), of("on"));
    assert_eq!(raw, (200 * 4, 200 * 4096), "256 KB of calls by 64 KB, and a page of results");
    assert!(copied.0 > 950 && copied.1 > 190 * 65_536, "tables and what is copied: {copied:?}");
}
