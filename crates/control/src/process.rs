//! Facts about a process from `/proc`.

use std::fs;

/// A process's `stat`.
pub struct Stat(String);

impl Stat {
    /// None if no process has that number.
    pub fn of(pid: u32) -> Option<Self> {
        fs::read_to_string(format!("/proc/{pid}/stat")).ok().map(Self)
    }

    /// A field by its number in proc_pid_stat(5), from 3 on: the second one is a name in parentheses, which may contain any characters, also
    /// parentheses and spaces.
    fn field(&self, number: usize) -> Option<&str> {
        self.0.rsplit_once(')')?.1.split_whitespace().nth(number.checked_sub(3)?)
    }

    fn number<T: std::str::FromStr>(&self, number: usize) -> Option<T> {
        self.field(number)?.parse().ok()
    }

    /// Whether it has ended and its parent has not asked for its result.
    pub fn is_zombie(&self) -> bool {
        matches!(self.field(3), Some("Z" | "X"))
    }

    /// The number of its parent.
    pub fn parent(&self) -> Option<u32> {
        self.number(4)
    }

    /// The kernel's flags `PF_…`.
    pub fn flags(&self) -> Option<u32> {
        self.number(9)
    }

    /// When it started, in clock ticks since boot.
    pub fn started(&self) -> Option<u64> {
        self.number(22)
    }
}
