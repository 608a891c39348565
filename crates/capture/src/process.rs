//! The identity of a process, for files that outlive it: its number and start time, because numbers are reused; and its priority.

use control::process::{Stat, start_time};

/// The number and start time of this process.
pub fn this_process() -> (u32, u64) {
    let pid = std::process::id();
    (pid, start_time(pid).unwrap_or(0))
}

/// Whether the process with that number and start time still runs.
pub fn is_process(pid: u32, started: u64) -> bool {
    start_time(pid) == Some(started)
}

/// Gives this process a low CPU priority and the lowest I/O priority, so that it does not delay what it watches. A refusal is ignored.
///
/// Not `SCHED_IDLE` or niceness 19: on two processors with a load of 20, a recording of 5 s took 50 s then and lost most events.
pub fn lower_priority() {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_IDLE: libc::c_int = 3 << 13;
    let _ = rustix::process::setpriority_process(None, 5);
    // SAFETY: takes three numbers and no pointer.
    unsafe {
        libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, CLASS_IDLE);
    }
}

/// Whether a task is a thread of the kernel.
pub fn is_kernel_thread(task: u32) -> bool {
    Stat::of(task).is_some_and(|stat| stat.is_of_kernel())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_of_the_kernel_are_kernel_threads() {
        // Not in a container.
        let is_there = std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
        assert_eq!(is_kernel_thread(2), is_there);
        assert!(!is_kernel_thread(std::process::id()));
    }

    #[test]
    fn a_zombie_does_not_count_as_running() {
        let (own, started) = this_process();
        assert!(is_process(own, started) && !is_process(own, started + 1));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (pid, started) = (child.id(), start_time(child.id()).unwrap());
        child.kill().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while is_process(pid, started) && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!is_process(pid, started));
        child.wait().unwrap();
    }
}
