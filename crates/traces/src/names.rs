//! Names of processes.

use std::collections::HashMap;

use crate::record::Pid;

/// Upper bound for names.
pub(crate) const NAMES_MAX: usize = 65_536;
/// Upper bound for a name in bytes. Linux's limit is 15, but some tools print longer ones.
const NAME_BYTES_MAX: usize = 64;
/// Places of [`Names::recent`].
const RECENT: usize = 64;

/// The latest name of each process.
#[derive(Default)]
pub(crate) struct Names {
    names: HashMap<u32, Box<[u8]>>,
    /// Latest names, by the lowest bits of the process: processes alternate from line to line.
    recent: Vec<(u32, Box<[u8]>)>,
    /// Names to be recorded by another context, if so.
    log: Option<Vec<(u32, Box<[u8]>)>>,
}

impl Names {
    /// Records the name of a process; false if it was not kept.
    pub(crate) fn note(&mut self, pid: Pid, name: &[u8]) -> bool {
        if name.is_empty() || name == b"<...>" {
            return true;
        }
        let recent = self.recent.get(pid.0 as usize % RECENT);
        if recent.is_some_and(|(process, known)| *process == pid.0 && **known == *name) {
            return true;
        }
        if let Some(log) = &mut self.log {
            log.push((pid.0, name.into()));
            self.remember(pid, name);
            return true;
        }
        if name.len() > NAME_BYTES_MAX {
            return false;
        }
        let known = self.names.get(&pid.0);
        if known.is_none() && self.names.len() >= NAMES_MAX {
            return false;
        }
        if known.is_none_or(|known| **known != *name) {
            self.names.insert(pid.0, name.into());
        }
        self.remember(pid, name);
        true
    }

    fn remember(&mut self, pid: Pid, name: &[u8]) {
        self.recent.resize(RECENT, Default::default());
        self.recent[pid.0 as usize % RECENT] = (pid.0, name.into());
    }

    /// Records names for another context from now on.
    pub(crate) fn log(&mut self) {
        self.log = Some(Vec::new());
    }

    #[inline]
    pub(crate) fn has_log(&self) -> bool {
        self.log.as_ref().is_some_and(|log| !log.is_empty())
    }

    pub(crate) fn take_log(&mut self) -> impl Iterator<Item = (u32, Box<[u8]>)> {
        self.log.iter_mut().flat_map(|log| log.drain(..))
    }

    /// Forgets the latest names, so that the next ones are recorded.
    pub(crate) fn forget(&mut self) {
        self.recent.clear();
    }

    pub(crate) fn get(&self, pid: Pid) -> Option<std::borrow::Cow<'_, str>> {
        self.names.get(&pid.0).map(|name| String::from_utf8_lossy(name))
    }
}
