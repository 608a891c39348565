//! Thread priority, CPU time, child processes.
//!
//! "our method runs in low priority threads being able to reduce the impact on CPU bound applications" (IOAnalyzer, I).

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `IOPRIO_WHO_PROCESS`, the classes, which are in the upper bits, and no priority (what the processor's priority says), of `linux/ioprio.h`.
const WHO_PROCESS: libc::c_int = 1;
const REAL_TIME: libc::c_long = 1;
const BEST_EFFORT: libc::c_long = 2;
const IDLE: libc::c_long = 3;
const NONE: libc::c_int = 0;

/// The niceness of the tuner. At idle priority (`SCHED_IDLE`) it did not get through its first window in 90 s on two processors with a load of 20:
/// loading the BPF program alone takes a second of CPU time. At 5 it has a third of a program's share, and needs a thousandth.
const NICE: libc::c_int = 5;

/// The time in seconds since 1970.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Lowers the CPU priority of this thread, and of the threads that it starts, and their I/O to idle priority. Returns a line for each refusal, which
/// is no error.
pub fn lower() -> Vec<String> {
    let mut refused = Vec::new();
    let mut check = |what: &str, result: i64| {
        if result != 0 {
            refused.push(format!("{what}: {}", io::Error::last_os_error()));
        }
    };
    // SAFETY: takes numbers only; 0 is this thread.
    check("cannot lower the CPU priority", unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) }.into());
    // SAFETY: takes numbers only; 0 is this thread.
    check("cannot get idle I/O priority", unsafe {
        libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, IDLE << 13)
    });
    refused
}

/// Raises this thread to normal priority for CPU and I/O, as far as `RLIMIT_NICE` allows. Makes system calls only, so that a child can call it
/// before exec.
pub(crate) fn normal() {
    // SAFETY: takes numbers only; 0 is this thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) };
    // SAFETY: takes numbers only; 0 is this thread.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, NONE) };
}

/// Runs `what` at normal priority. During a switch of the scheduler all requests wait.
pub(crate) fn at_normal_priority<T>(what: impl FnOnce() -> T) -> T {
    // SAFETY: takes numbers only; 0 is this thread.
    if unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) } != NICE {
        return what();
    }
    normal();
    let done = what();
    // It was allowed before.
    let _ = lower();
    done
}

/// Runs `what` at the highest priority for CPU that is permitted, and then at the previous one. Between the switch of a scheduler and its settings
/// programs submit requests, so that on a busy processor a delay of this thread changes the result.
pub(crate) fn urgently<T>(what: impl FnOnce() -> T) -> T {
    const HIGHEST: libc::c_int = -20;
    // SAFETY: takes numbers only; 0 is this thread.
    let before = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    // SAFETY: takes numbers only; 0 is this thread.
    let is_raised = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, HIGHEST) } == 0;
    if !is_raised {
        return at_normal_priority(what);
    }
    let done = what();
    // SAFETY: takes numbers only; 0 is this thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, before) };
    done
}

/// The class and the level of a task's I/O requests; `own` is what `ioprio_get` returns. Without a priority of its own, a task has one by its policy
/// and niceness.
fn io_priority(task: u32, own: libc::c_long) -> (libc::c_long, libc::c_long) {
    if own >> 13 != 0 {
        return (own >> 13, own & 7);
    }
    let task = task as libc::c_int;
    // SAFETY: takes numbers only.
    let (policy, nice) = unsafe {
        (libc::sched_getscheduler(task), libc::getpriority(libc::PRIO_PROCESS, task as libc::id_t))
    };
    let class = match policy {
        libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE => REAL_TIME,
        libc::SCHED_IDLE => IDLE,
        _ => BEST_EFFORT,
    };
    (class, ((nice + 20) / 5).into())
}

/// Runs `what` while each of these tasks whose I/O has the default level has another one of its class, and for `hold` after it. `bfq` raises the weight
/// of queues of this level only, and decides that with their first request. It merges queues of one control group that are created together and have
/// the same priority (`bfq_do_or_sched_stable_merge`), so that consecutive tasks have different ones.
pub(crate) fn with_other_io_priorities<T>(
    tasks: &BTreeSet<u32>,
    hold: Duration,
    what: impl FnOnce() -> T,
) -> T {
    const DEFAULT: libc::c_long = 4;
    // Nearest to the default first: queues of a different weight share the device unequally for this time.
    const OTHERS: [libc::c_long; 7] = [3, 5, 2, 6, 1, 7, 0];
    // SAFETY: takes numbers only.
    let get = |task: u32| unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, task) };
    // SAFETY: takes numbers only.
    let set = |task: u32, to: libc::c_long| unsafe {
        libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, task, to) == 0
    };
    let defaults = tasks.iter().filter_map(|&task| {
        let before = get(task);
        if before < 0 {
            return None; // The task has ended.
        }
        let (class, level) = io_priority(task, before);
        ([REAL_TIME, BEST_EFFORT].contains(&class) && level == DEFAULT).then_some((task, before, class))
    });
    let others = defaults.zip(OTHERS.iter().cycle());
    let changed = others.map(|((task, before, class), level)| ((task, before), class << 13 | level));
    let changed = changed.filter(|&((task, _), other)| set(task, other));
    let changed: Vec<((u32, libc::c_long), libc::c_long)> = changed.collect();
    let done = what();
    if !changed.is_empty() {
        std::thread::sleep(hold);
    }
    let ours = changed.iter().filter(|((task, _), other)| get(*task) == *other);
    ours.for_each(|((task, before), _)| _ = set(*task, *before));
    done
}

/// Writes a line to standard error and goes on if that fails, where `eprintln!` panics: the settings have yet to be restored.
pub(crate) fn warn(line: &dyn Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The CPU time of this process in seconds.
pub fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid structure that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Makes reads from a pipe non-blocking.
pub(crate) fn read_without_waiting(pipe: &impl AsRawFd) {
    // SAFETY: takes numbers only; the descriptor is open as long as its owner is borrowed.
    unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
}

/// Kills a child with its process group, which it leads.
pub(crate) fn end_group(leader: u32) {
    // SAFETY: takes numbers only; a child that nobody has waited for keeps its number.
    unsafe { libc::kill(-(leader as libc::pid_t), libc::SIGKILL) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_io_priorities_are_others_for_the_time_of_a_call() {
        // SAFETY: takes numbers only; 0 is this thread.
        let get = || unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
        // SAFETY: takes numbers only; 0 is this thread.
        let set = |to: libc::c_long| unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, to) };
        // SAFETY: takes nothing and returns a number.
        let this = unsafe { libc::gettid() } as u32;
        // No task has the number 0x7fff_ffff (PID_MAX_LIMIT is 2^22).
        let tasks = BTreeSet::from([this, 0x7fff_ffff]);
        for (level, meanwhile) in [(4, 3), (5, 5)] {
            let own = 2 << 13 | level;
            assert_eq!(set(own), 0);
            assert_eq!(with_other_io_priorities(&tasks, Duration::ZERO, get), 2 << 13 | meanwhile, "{level}");
            assert_eq!(get(), own, "again");
        }
        // Another program's choice meanwhile stays.
        assert_eq!(set(2 << 13 | 4), 0);
        with_other_io_priorities(&tasks, Duration::ZERO, || set(2 << 13 | 7));
        assert_eq!(get(), 2 << 13 | 7);
        assert_eq!(set(0), 0);
        let own = io_priority(this, 0);
        let meanwhile = with_other_io_priorities(&tasks, Duration::ZERO, get);
        assert_eq!(meanwhile == (own.0 << 13 | 3), own.1 == 4 && own.0 != IDLE, "{meanwhile}, {own:?}");
        assert_eq!(get(), 0, "again");
    }

    #[test]
    fn an_io_priority_follows_from_policy_and_niceness() {
        let of = |policy: libc::c_int, nice: libc::c_int| {
            std::thread::spawn(move || {
                let parameters = libc::sched_param { sched_priority: 0 };
                // SAFETY: takes numbers and a valid structure; 0 is this thread.
                let done = unsafe {
                    libc::setpriority(libc::PRIO_PROCESS, 0, nice)
                        | libc::sched_setscheduler(0, policy, &raw const parameters)
                };
                // SAFETY: takes nothing and returns a number.
                (done == 0).then(|| io_priority(unsafe { libc::gettid() } as u32, 0))
            })
            .join()
            .unwrap()
        };
        let Some(usual) = of(libc::SCHED_OTHER, 0) else {
            return eprintln!("SKIPPED: no permission for a higher priority");
        };
        assert_eq!(usual, (BEST_EFFORT, 4));
        assert_eq!(of(libc::SCHED_BATCH, 4), Some((BEST_EFFORT, 4)));
        assert_eq!(of(libc::SCHED_OTHER, 19), Some((BEST_EFFORT, 7)));
        assert_eq!(of(libc::SCHED_IDLE, 0), Some((IDLE, 4)));
        assert_eq!(io_priority(0, 1 << 13 | 6), (REAL_TIME, 6));
    }

    /// Such a task's I/O is of the class "real-time", level 4, and `bfq` would raise its queue.
    #[test]
    fn a_task_with_a_real_time_policy_gets_another_level_of_its_class() {
        let answer = std::thread::spawn(|| {
            let parameters = libc::sched_param { sched_priority: 1 };
            // SAFETY: takes numbers and a valid structure; 0 is this thread, whose niceness is that of the tests.
            let refused = unsafe {
                libc::setpriority(libc::PRIO_PROCESS, 0, 0)
                    | libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters)
            };
            if refused != 0 {
                return None;
            }
            // SAFETY: takes nothing and returns a number.
            let tasks = BTreeSet::from([unsafe { libc::gettid() } as u32]);
            // SAFETY: takes numbers only; 0 is this thread.
            let get = || unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
            Some((with_other_io_priorities(&tasks, Duration::ZERO, get), get() >> 13))
        });
        match answer.join().unwrap() {
            Some(levels) => assert_eq!(levels, (REAL_TIME << 13 | 3, 0)),
            None => eprintln!("SKIPPED: no permission for SCHED_FIFO or a higher priority"),
        }
    }

    /// `bfq` would merge the queues of tasks with the same priority.
    #[test]
    fn tasks_have_different_io_priorities_until_the_hold_is_over() {
        // SAFETY: takes numbers only.
        let get = |task: u32| unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, task) };
        let (sender, tasks) = std::sync::mpsc::channel();
        let (ends, end) = (0..3).map(|_| std::sync::mpsc::channel::<()>()).unzip::<_, _, Vec<_>, Vec<_>>();
        for end in end {
            let sender = sender.clone();
            std::thread::spawn(move || {
                // SAFETY: takes numbers only; 0 is this thread.
                unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, 2 << 13 | 4) };
                // SAFETY: takes nothing and returns a number.
                sender.send(unsafe { libc::gettid() } as u32).unwrap();
                let _ = end.recv();
            });
        }
        let tasks: BTreeSet<u32> = tasks.iter().take(3).collect();
        let all = || tasks.iter().map(|&task| get(task) - (2 << 13)).collect::<Vec<_>>();
        let (from, hold) = (std::time::Instant::now(), Duration::from_millis(20));
        assert_eq!(with_other_io_priorities(&tasks, hold, all), [3, 5, 2]);
        assert!(from.elapsed() >= hold);
        assert_eq!(all(), [4; 3]);
        drop(ends);
    }
}
