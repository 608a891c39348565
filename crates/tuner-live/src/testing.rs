//! A tree like `/sys/block` for tests.

use std::fs;
use std::path::PathBuf;

use crate::queue::QueueSettings;

/// A temporary directory, removed when it is dropped.
pub(crate) struct Tree(PathBuf);

impl Tree {
    pub(crate) fn new(test: &str) -> Self {
        let root = std::env::temp_dir().join(format!("dwell-tuner-live-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("state")).unwrap();
        Self(root)
    }

    pub(crate) fn block(&self) -> PathBuf {
        self.0.join("block")
    }

    /// Writes `PID/cgroup` below a substitute of `/proc`.
    pub(crate) fn cgroup(&self, process: u32, text: &str) -> PathBuf {
        let proc = self.0.join("proc");
        fs::create_dir_all(proc.join(process.to_string())).unwrap();
        fs::write(proc.join(process.to_string()).join("cgroup"), text).unwrap();
        proc
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.0.join("state")
    }

    /// Where settings backups are stored; it does not exist at first.
    pub(crate) fn backups(&self) -> PathBuf {
        self.0.join("backups")
    }

    /// A device under mq-deadline. Its plain files keep what is written; a scheduler without brackets reads as the active one.
    pub(crate) fn queue(&self, name: &str) -> QueueSettings {
        let queue = self.block().join(name).join("queue");
        fs::create_dir_all(&queue).unwrap();
        fs::write(queue.join("scheduler"), "none [mq-deadline] bfq\n").unwrap();
        fs::write(queue.join("nr_requests"), "64\n").unwrap();
        fs::write(queue.join("read_ahead_kb"), "128\n").unwrap();
        QueueSettings::within(&self.block(), name)
    }

    /// Writes a device's counters: requests, merged, sectors, ms; for reads, then for writes.
    pub(crate) fn count(&self, name: &str, counters: [u64; 8]) {
        fs::write(self.block().join(name).join("queue/iostats"), "1\n").unwrap();
        fs::write(self.block().join(name).join("stat"), counters.map(|n| n.to_string()).join(" ")).unwrap();
    }

    /// Writes a device's counters as the kernel has them.
    pub(crate) fn count_more(&self, name: &str, text: &str) {
        fs::write(self.block().join(name).join("stat"), text).unwrap();
    }

    pub(crate) fn unplug(&self, name: &str) {
        fs::remove_dir_all(self.block().join(name)).unwrap();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
