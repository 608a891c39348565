//! The attached programs, to which those of a file system are added when its module is loaded.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aya::Ebpf;
use aya::maps::{Array, MapData};

use super::layout;
use crate::bpf::load::attach_raw;
use crate::error::Error;

/// How often it is checked whether the module of a file system was loaded.
const LOOK: Duration = Duration::from_millis(500);

/// The types of the kernel and of its modules.
const TYPES: &str = "/sys/kernel/btf";

/// Programs of a file system that are not attached yet: name and tracepoint.
type Programs = &'static [(&'static str, &'static str)];

/// File systems that the kernel does not have yet.
pub(super) struct Awaited {
    pub(super) layout: Array<MapData, u32>,
    pub(super) file_systems: Vec<(&'static str, Programs)>,
}

impl Awaited {
    /// Attaches the programs of a file system; `left` are those that it could not attach.
    pub(super) fn attach(
        &mut self,
        ebpf: &mut Ebpf,
        file_system: &str,
        left: &mut Programs,
    ) -> Result<(), Error> {
        for (number, offset) in layout::offsets(Path::new(TYPES), file_system)? {
            let set = self.layout.set(number, offset, 0);
            set.map_err(|error| Error::kernel("setting a BPF map", error))?;
        }
        while let [(program, tracepoint), rest @ ..] = *left {
            attach_raw(ebpf, program, tracepoint)?;
            *left = rest;
        }
        Ok(())
    }

    /// Keeps the programs attached, and attaches the others when their modules are loaded.
    pub(super) fn wait(self, ebpf: Ebpf) -> Result<Attached, Error> {
        if self.file_systems.is_empty() {
            return Ok(Attached { _ebpf: Some(ebpf), waiting: None });
        }
        let (stop, stopped) = channel();
        let thread = thread::Builder::new().name("modules".into()).spawn(move || self.watch(ebpf, &stopped));
        let thread = thread.map_err(|error| Error::kernel("starting a thread", error))?;
        Ok(Attached { _ebpf: None, waiting: Some((stop, thread)) })
    }

    fn watch(mut self, mut ebpf: Ebpf, stopped: &Receiver<()>) {
        while matches!(stopped.recv_timeout(LOOK), Err(RecvTimeoutError::Timeout)) {
            let mut awaited = std::mem::take(&mut self.file_systems);
            awaited.retain_mut(|(file_system, left)| {
                let is_absent = !is_present(file_system);
                if !is_absent {
                    // A module without types has its data attributed only, as one for which a note was returned at the start.
                    let _ = self.attach(&mut ebpf, file_system, left);
                }
                is_absent
            });
            self.file_systems = awaited;
        }
    }
}

/// The programs stay attached until this is dropped.
pub(super) struct Attached {
    _ebpf: Option<Ebpf>,
    /// The thread that has them while modules are awaited, and what ends it.
    waiting: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.waiting.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Whether the running kernel has a file system.
pub(super) fn is_present(file_system: &str) -> bool {
    let all = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    all.lines().any(|line| line.split_whitespace().next_back() == Some(file_system))
}
