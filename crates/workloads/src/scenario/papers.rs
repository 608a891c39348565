//! The papers' experiments as scripts.

macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../experiments/", $name, ".toml")))),*]
    };
}

/// (paper/experiment, text), in the order of the papers.
pub const SCRIPTS: &[(&str, &str)] = scripts![
    "benchmarks-2003/parallel-streaming-reads",
    "benchmarks-2003/parallel-streaming-reads-8k-readahead",
    "benchmarks-2003/streaming-write-vs-interactive",
    "benchmarks-2003/streaming-read-vs-interactive",
    "benchmarks-2003/copy-many-small-files",
    "benchmarks-2003/concurrent-small-file-reads",
    "benchmarks-2003/concurrent-small-file-reads-old-layout",
    "benchmarks-2003/streaming-write-vs-streaming-read",
    "benchmarks-2003/streaming-write-vs-small-file-reads",
    "benchmarks-2003/streaming-read-vs-write-fsync",
    "benchmarks-2003/streaming-read-vs-small-file-reads",
    "benchmarks-2003/copy-large-file",
    "benchmarks-2003/small-file-reads-alone",
    "benchmarks-2003/small-file-reads-alone-old-layout",
    "benchmarks-2003/copy-vs-read",
    "benchmarks-2003/worst-read",
    "benchmarks-2003/regression-database",
    "benchmarks-2003/regression-swap-storm",
    "benchmarks-2003/regression-write-bandwidth",
    "cooperative/stream-write+stream-read",
    "cooperative/stream-read+chunk-read",
    "cooperative/stream-read+chunk-read-near",
    "cooperative/chunk-read-1",
    "cooperative/chunk-read-2",
    "cooperative/chunk-read-1-xfs",
    "cooperative/chunk-read-2-xfs",
    "cooperative/ffsb-web",
    "cooperative/ffsb-mail",
    "cooperative/ffsb-mail-2000-files",
    "cooperative/ffsb-file",
    "cooperative/ffsb-meta",
    "cooperative/ffsb-meta-10000-files",
    "stream/par-read-blind",
    "stream/grep-2",
    "stream/postmark-4",
    "stream/postmark-4-in-memory",
    "stream/tpch-3",
    "stream/informed",
    "stream/think-time-50us",
    "stream/think-time-100us",
    "stream/think-time-200us",
    "stream/multi-threads",
    "stream/multi-threads-direct",
    "stream/mpi-io-test",
    "stream/xen-ftp-1",
    "stream/xen-ftp-2",
    "stream/xen-tpch-1",
    "stream/xen-tpch-2",
    "stream/time-slice",
    "stream/array-par-read",
    "stream/array-tpch",
    "stream/array-postmark",
    "split/afq-priorities",
    "split/afq-reads",
    "split/afq-fsyncs",
    "split/afq-memory",
    "split/fsync-deadline",
    "split/beyond-readers",
    "split/beyond-writers",
    "split/isolation-sequential-read",
    "split/isolation-random-read",
    "split/isolation-cached-read",
    "split/isolation-overwrite",
    "split/isolation-overwrite-file",
    "split/isolation-append",
    "split/isolation-create",
    "split/hdfs-8-64m",
    "split/hdfs-32-64m",
    "split/hdfs-8-16m",
    "split/hdfs-32-16m",
    "split/vm-priorities",
    "split/vm-sequential-read",
    "split/vm-random-read",
    "split/vm-append",
    "split/afq-priorities-ext4",
    "split/fsync-deadline-ext4",
    "split/isolation-append-ext4",
    "split/isolation-create-ext4",
    "split/afq-priorities-xfs",
    "split/fsync-deadline-xfs",
    "split/isolation-append-xfs",
    "split/isolation-create-xfs",
    "split/sqlite-100",
    "split/sqlite-300",
    "split/sqlite-1000",
    "split/tpc-b-hard-disk",
    "split/tpc-b-solid-state",
    "split/overhead-hard-disk-read",
    "split/overhead-hard-disk-write",
    "split/overhead-hard-disk-fsync",
    "split/overhead-solid-state-read",
    "split/overhead-solid-state-write",
    "split/overhead-solid-state-fsync",
    "split/tag-memory",
    // Last, because the position of a script decides whether `dwell regret` holds it out.
    "benchmarks-2003/streaming-write-vs-interactive-waits",
    "benchmarks-2003/streaming-read-vs-interactive-waits",
];

/// Scripts for the reproduction of IOAnalyzer, which have no figures of their own.
pub const IOANALYZER: &[(&str, &str)] = scripts![
    "ioanalyzer/tpc-h",
    "ioanalyzer/8s-4",
    "ioanalyzer/8s-8",
    "ioanalyzer/512s-4",
    "ioanalyzer/512s-8",
];

#[cfg(test)]
mod tests {
    use super::{IOANALYZER, SCRIPTS};
    use crate::scenario::Scenario;

    #[test]
    fn every_script_is_valid_and_names_its_experiment() {
        for (name, text) in SCRIPTS {
            let scenario = Scenario::parse(name, text, 0.01).unwrap_or_else(|e| panic!("{e}"));
            let paper = scenario.script.paper.as_ref().unwrap_or_else(|| panic!("{name} has no [paper]"));
            assert_eq!(*name, format!("{}/{}", paper.name, paper.experiment));
            assert!(!paper.schedulers.is_empty() && !paper.figures.is_empty(), "{name}");
        }
        for (name, text) in IOANALYZER {
            Scenario::parse(name, text, 0.01).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}
