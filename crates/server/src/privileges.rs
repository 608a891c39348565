//! Takes privileges from threads that parse what NBD clients send.
//!
//! Linux keeps credentials and system-call filters for each thread. The threads that accept clients, negotiate with them and do TLS run as
//! a user of their own without capabilities, with a filter that lets them neither open files nor create sockets or programs. The device's thread,
//! which parses requests, becomes the same user once it has opened everything, and keeps only the capabilities that it needs.
//!
//! All threads share their memory. The restrictions therefore stop a parser that is deceived, but not one whose memory is corrupted.

use std::io;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::rate_limit::RateLimit;

/// The first of the users that client threads run as: this number plus the process id. `kill(2)` and `prlimit(2)` accept a thread id,
/// compare the caller's user with that thread's, and act on the whole process. So the threads must not run as a user that other
/// programs have, such as `nobody`; no account has a number in this range.
const UNPRIVILEGED: u32 = 0xe000_0000;

/// With locked memory (`mlockall(MCL_FUTURE)`), a thread without this capability cannot allocate beyond `RLIMIT_MEMLOCK`.
const CLIENT_THREADS: CapabilitySet = CapabilitySet::IPC_LOCK;

/// The same; send buffers beyond the system's limit (`SO_SNDBUFFORCE`); and events of the BPF program that identifies processes.
const DEVICE_THREAD: CapabilitySet = CapabilitySet::IPC_LOCK
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON);

/// Restricts the calling thread, and those that it starts, to reading and writing their sockets. Logs what the system refuses, once.
pub(crate) fn restrict_client_threads() {
    static LOG: RateLimit = RateLimit::new();
    let mut failed = Vec::new();
    let mut note = |what: &str, result: io::Result<()>| {
        let failure = result.as_ref().err().map(|error| format!("{what} ({error})"));
        failed.extend(failure);
        result.is_ok()
    };
    let user = if geteuid().is_root() { change_user() } else { Ok(()) };
    note("dropping capabilities", keep_capabilities(CLIENT_THREADS));
    // A filtered thread cannot use the rights of its user: it opens no files and signals no processes.
    if !note("filtering system calls", filter::install()) {
        note("changing the user (CAP_SETUID and CAP_SETGID)", user);
    }
    if !failed.is_empty() {
        let failed = failed.join(", ");
        LOG.log((), format_args!("nbd: warning: threads that read from clients keep privileges: {failed}"));
    }
}

/// Takes the user root, and the capabilities that it does not need to serve the device, from the calling thread. What it needs is open already;
/// other threads remove its files. Returns what the system refuses, in words.
pub(crate) fn restrict_device_thread() -> Vec<String> {
    let user = if geteuid().is_root() { change_user() } else { Ok(()) };
    let results = [
        ("keeps the user root (CAP_SETUID and CAP_SETGID)", user),
        ("keeps all capabilities", keep_capabilities(DEVICE_THREAD)),
    ];
    results.into_iter().filter_map(|(what, result)| Some(format!("{what}: {}", result.err()?))).collect()
}

/// These calls change the calling thread only, in contrast to those of the C library.
fn change_user() -> io::Result<()> {
    let own = UNPRIVILEGED + std::process::id();
    let (user, group) = (Uid::from_raw(own), Gid::from_raw(own));
    set_keep_capabilities(true)?;
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    Ok(set_thread_res_uid(user, user, user)?)
}

fn keep_capabilities(kept: CapabilitySet) -> io::Result<()> {
    set_no_new_privs(true)?;
    let had = capabilities(None)?;
    let permitted = had.permitted & kept;
    // After a change of the user the permitted ones are no longer effective.
    let sets = CapabilitySets { effective: permitted, permitted, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// The filter of system calls (seccomp) is not written for other architectures.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod filter {
    pub(super) fn install() -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// The filter of system calls (seccomp).
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod filter {
    use std::io;
    use std::mem::offset_of;

    use libc::{
        BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W,
        SECCOMP_FILTER_FLAG_SPEC_ALLOW, SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_SET_MODE_FILTER,
        c_long, seccomp_data, sock_filter, sock_fprog,
    };

    /// The system calls of threads that serve clients: sockets that are open already, memory, threads, time.
    const ALLOWED: &[c_long] = &[
        // Sockets and standard error.
        libc::SYS_accept4,
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_ppoll,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll,
        libc::SYS_socketpair,
        libc::SYS_getsockopt,
        libc::SYS_setsockopt,
        libc::SYS_getpeername,
        libc::SYS_getsockname,
        libc::SYS_shutdown,
        libc::SYS_fcntl,
        libc::SYS_close,
        // Memory.
        libc::SYS_brk,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_mlock,
        libc::SYS_mlock2,
        // Threads and signals.
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_futex,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_tgkill,
        libc::SYS_sigaltstack,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_restart_syscall,
        libc::SYS_exit,
        libc::SYS_exit_group,
        // Time and random numbers.
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_getrandom,
    ];

    /// System calls whose argument decides: the number of the argument, a mask, and its permitted values under that mask. No values
    /// mean that all bits of the mask must be 0.
    const CONDITIONAL: &[(c_long, u32, u32, &[u32])] = &[
        (libc::SYS_ioctl, 1, u32::MAX, &[libc::FIONBIO as u32, libc::TIOCOUTQ as u32]),
        (libc::SYS_prctl, 0, u32::MAX, &[libc::PR_SET_NAME as u32]),
        (libc::SYS_mmap, 2, libc::PROT_EXEC as u32, &[]),
        (libc::SYS_mprotect, 2, libc::PROT_EXEC as u32, &[]),
        // Threads, but no processes.
        (libc::SYS_clone, 0, libc::CLONE_THREAD as u32, &[libc::CLONE_THREAD as u32]),
    ];

    #[cfg(target_arch = "x86_64")]
    const ARCHITECTURE: u32 = 0xc000_003e;
    #[cfg(target_arch = "aarch64")]
    const ARCHITECTURE: u32 = 0xc000_00b7;
    #[cfg(target_arch = "riscv64")]
    const ARCHITECTURE: u32 = 0xc000_00f3;

    fn load(offset: usize) -> sock_filter {
        sock_filter { code: (BPF_LD | BPF_W | BPF_ABS) as u16, jt: 0, jf: 0, k: offset as u32 }
    }

    /// Skips `otherwise` instructions if the loaded value is not `value`.
    fn jump_unless(value: u32, otherwise: u8) -> sock_filter {
        sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 0, jf: otherwise, k: value }
    }

    fn end(action: u32) -> sock_filter {
        sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k: action }
    }

    fn deny(error: i32) -> sock_filter {
        end(SECCOMP_RET_ERRNO | error as u32)
    }

    /// The checks of one conditional call, after its number has matched.
    fn condition(argument: u32, mask: u32, values: &[u32]) -> Vec<sock_filter> {
        // The lower half of a 64-bit argument, on a little-endian machine.
        let offset = offset_of!(seccomp_data, args) + 8 * argument as usize;
        let mut program = vec![load(offset)];
        if values.is_empty() {
            program.push(sock_filter { code: (BPF_JMP | BPF_JSET | BPF_K) as u16, jt: 1, jf: 0, k: mask });
            program.push(end(SECCOMP_RET_ALLOW));
        } else {
            program.push(sock_filter { code: (BPF_ALU | BPF_AND | BPF_K) as u16, jt: 0, jf: 0, k: mask });
            for &value in values {
                program.extend([jump_unless(value & mask, 1), end(SECCOMP_RET_ALLOW)]);
            }
        }
        program.push(deny(libc::EPERM));
        program
    }

    pub(super) fn program() -> Vec<sock_filter> {
        let mut program = vec![
            load(offset_of!(seccomp_data, arch)),
            jump_unless(ARCHITECTURE, 1),
            load(offset_of!(seccomp_data, nr)),
            // After another architecture the loaded value is that architecture, which is no allowed call's number.
        ];
        for &call in ALLOWED {
            program.extend([jump_unless(call as u32, 1), end(SECCOMP_RET_ALLOW)]);
        }
        for &(call, argument, mask, values) in CONDITIONAL {
            let checks = condition(argument, mask, values);
            program.push(jump_unless(call as u32, checks.len() as u8));
            program.extend(checks);
        }
        // The flags of `clone3` are in memory, which a filter cannot read. The C library then uses `clone`.
        program.extend([jump_unless(libc::SYS_clone3 as u32, 1), deny(libc::ENOSYS)]);
        program.push(deny(libc::EPERM));
        program
    }

    /// Installs the filter for the calling thread and those that it starts. Other calls fail with `EPERM`.
    pub(super) fn install() -> io::Result<()> {
        let mut program = program();
        let length = u16::try_from(program.len()).map_err(io::Error::other)?;
        let program = sock_fprog { len: length, filter: program.as_mut_ptr() };
        for flags in [SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0] {
            // SAFETY: the kernel copies the program, which lives across the call.
            let result = unsafe {
                libc::syscall(libc::SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &raw const program)
            };
            if result == 0 {
                return Ok(());
            }
        }
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;
    use std::process::Command;
    use std::thread;

    use super::*;

    fn status(field: &str) -> String {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim_start_matches(':').split_whitespace().next().unwrap().to_string()
    }

    #[test]
    fn a_client_thread_can_use_its_sockets_and_nothing_else() {
        let before = status("Uid");
        let results = thread::spawn(|| {
            let (mine, other) = UnixStream::pair().unwrap();
            restrict_client_threads();
            let inner = thread::spawn(move || {
                drop(UnixStream::pair().unwrap());
                rustix::io::ioctl_fionbio(&mine, true).unwrap();
                rustix::io::write(&mine, b"works").unwrap();
                drop(vec![1u8; 64 << 20]);
                [
                    File::open("/etc/passwd").map(drop),
                    File::create("/tmp/dwell-not-permitted").map(drop),
                    TcpListener::bind("127.0.0.1:0").map(drop),
                    Command::new("/bin/true").status().map(drop),
                    rustix::process::test_kill_process(rustix::process::getpid()).map_err(io::Error::from),
                ]
            });
            let mut received = [0; 5];
            rustix::io::read(&other, &mut received).unwrap();
            assert_eq!(&received, b"works");
            inner.join().unwrap()
        });
        for (what, result) in results.join().unwrap().into_iter().enumerate() {
            assert!(result.is_err(), "call {what} was permitted");
        }
        assert_eq!(status("Uid"), before, "other threads keep their user");
        assert_eq!(status("Seccomp"), "0");
    }

    #[test]
    fn the_device_thread_keeps_few_capabilities_and_not_the_user_root() {
        let may = capabilities(None).unwrap().effective;
        if geteuid().is_root() && !may.contains(CapabilitySet::SETUID | CapabilitySet::SETGID) {
            return eprintln!("SKIPPED: needs CAP_SETUID and CAP_SETGID");
        }
        thread::spawn(|| {
            assert_eq!(restrict_device_thread(), [""; 0]);
            let left = capabilities(None).unwrap();
            assert!(DEVICE_THREAD.contains(left.permitted), "{:?}", left.permitted);
            assert_ne!(status("Uid"), "0");
            assert!(File::open("/proc/self/status").is_ok());
        })
        .join()
        .unwrap();
    }
}
