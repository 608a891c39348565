//! The seccomp filter: which calls are intercepted.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The native architecture. Calls of another (32-bit programs) are not intercepted.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// A call's name, as in a container's seccomp profile, and its number.
type Named = (&'static str, libc::c_long);

macro_rules! named {
    ($($(#[$when:meta])* $number:ident),* $(,)?) => {
        &[$($(#[$when])* (stringify!($number), libc::$number)),*]
    };
}

/// Calls that are always intercepted. Of `execve` only the process is reported: a program that only reads makes no other such call.
pub(crate) const CALLS: &[Named] = named![
    SYS_write,
    SYS_pwrite64,
    SYS_writev,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_fsync,
    SYS_fdatasync,
    SYS_sync_file_range,
    SYS_mkdirat,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_truncate,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_openat2,
    SYS_sendfile,
    SYS_splice,
    SYS_copy_file_range,
    SYS_linkat,
    SYS_symlinkat,
    SYS_mknodat,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_execve,
    SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    SYS_link,
    #[cfg(target_arch = "x86_64")]
    SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    SYS_chown,
    #[cfg(target_arch = "x86_64")]
    SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    SYS_utime,
    #[cfg(target_arch = "x86_64")]
    SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    SYS_creat,
    #[cfg(target_arch = "x86_64")]
    SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    SYS_rename,
    #[cfg(target_arch = "x86_64")]
    SYS_renameat,
];

/// Calls that are intercepted if an argument, which is counted from 0, has one of these flags.
pub(crate) const FLAGGED: &[(Named, u32, &[libc::c_int])] = &[
    (("SYS_openat", libc::SYS_openat), 2, CHANGES),
    #[cfg(target_arch = "x86_64")]
    (("SYS_open", libc::SYS_open), 1, CHANGES),
    (("SYS_msync", libc::SYS_msync), 2, &[libc::MS_SYNC]),
];

/// `O_TMPFILE` without its `O_DIRECTORY`.
pub(crate) const UNNAMED: libc::c_int = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Flags of calls that create or truncate a file.
const CHANGES: &[libc::c_int] = &[libc::O_CREAT, libc::O_TRUNC, UNNAMED];

/// The name of a call without the prefix of its number.
pub(crate) fn name((name, _): &Named) -> &'static str {
    name.trim_start_matches("SYS_")
}

const fn statement(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// Jumps over so many instructions if the condition holds or does not.
const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// The program. Made before the fork: afterwards nothing may allocate.
pub(crate) fn program() -> Vec<libc::sock_filter> {
    let allow = statement(RETURN, libc::SECCOMP_RET_ALLOW);
    let notify = statement(RETURN, libc::SECCOMP_RET_USER_NOTIF);
    let mut program =
        vec![statement(LOAD, ARCH), jump(EQUAL, ARCHITECTURE, 1, 0), allow, statement(LOAD, NUMBER)];
    for &(_, call) in CALLS {
        program.extend([jump(EQUAL, call as u32, 0, 1), notify]);
    }
    for &((_, call), argument, flags) in FLAGGED {
        let low_half = ARGUMENTS + 8 * argument;
        let flags = flags.iter().fold(0, |all, flag| all | flag) as u32;
        program.extend([
            jump(EQUAL, call as u32, 0, 4),
            statement(LOAD, low_half),
            jump(ANY_BIT, flags, 0, 1),
            notify,
            allow,
        ]);
    }
    program.push(allow);
    program
}

/// The operation of `seccomp`.
pub(crate) const SET_MODE_FILTER: libc::c_uint = 1;
const NEW_LISTENER: u64 = 1 << 3;
/// Held calls are ended by fatal signals only: others would make a held `write` fail with EINTR. Since Linux 5.19.
const WAIT_KILLABLE: u64 = 1 << 5;
/// All threads of the process get the filter; if one of them cannot, an error is returned. Since Linux 5.7.
pub(crate) const ALL_THREADS: u64 = 1 | 1 << 4;

/// Installs the filter by a function that gets the flags of `seccomp`. `give_up` renounces new privileges, which a process without CAP_SYS_ADMIN
/// must do first.
pub(crate) fn install_by<T>(
    flags: u64,
    mut install: impl FnMut(u64) -> io::Result<T>,
    give_up: impl FnOnce() -> io::Result<()>,
) -> io::Result<T> {
    let flags = flags | NEW_LISTENER;
    let mut best = || match install(flags | WAIT_KILLABLE) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => install(flags),
        result => result,
    };
    match best() {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            give_up()?;
            best()
        }
        result => result,
    }
}

/// Installs the filter in the calling thread and returns its listener. Safe between fork and exec.
pub(crate) fn install(program: &mut [libc::sock_filter]) -> io::Result<OwnedFd> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let install = |flags: u64| -> io::Result<OwnedFd> {
        // SAFETY: the filter's instructions outlive the call, which copies them.
        let fd = unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, &raw const filter) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    };
    install_by(0, install, || {
        // SAFETY: takes numbers only.
        match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program returns for a call.
    fn run(architecture: u32, number: libc::c_long, arguments: [u32; 3]) -> u32 {
        let program = program();
        let (mut at, mut value) = (0, 0);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match code {
                LOAD => {
                    value = match k {
                        NUMBER => number as u32,
                        ARCH => architecture,
                        argument => arguments[((argument - ARGUMENTS) / 8) as usize],
                    }
                }
                EQUAL => at += usize::from(if value == k { jt } else { jf }),
                ANY_BIT => at += usize::from(if value & k != 0 { jt } else { jf }),
                _ => return k,
            }
        }
    }

    #[test]
    fn only_calls_that_change_files_are_intercepted() {
        let native = |number, flags| run(ARCHITECTURE, number, [0, 0, flags]);
        for &(name, call) in CALLS {
            assert_eq!(native(call, 0), libc::SECCOMP_RET_USER_NOTIF, "{name}");
        }
        let create = libc::O_CREAT as u32;
        assert_eq!(native(libc::SYS_openat, create), libc::SECCOMP_RET_USER_NOTIF);
        assert_eq!(native(libc::SYS_openat, libc::O_TMPFILE as u32), libc::SECCOMP_RET_USER_NOTIF);
        assert_eq!(native(libc::SYS_openat, libc::O_DIRECTORY as u32), libc::SECCOMP_RET_ALLOW);
        assert_eq!(native(libc::SYS_msync, libc::MS_SYNC as u32), libc::SECCOMP_RET_USER_NOTIF);
        assert_eq!(native(libc::SYS_msync, libc::MS_ASYNC as u32), libc::SECCOMP_RET_ALLOW, "does nothing");
        for call in [libc::SYS_openat, libc::SYS_read, libc::SYS_close, libc::SYS_exit_group] {
            assert_eq!(native(call, 0), libc::SECCOMP_RET_ALLOW, "{call}");
        }
        assert_eq!(run(0x4000_0003, libc::SYS_write, [0; 3]), libc::SECCOMP_RET_ALLOW, "a 32-bit program");
    }
}
