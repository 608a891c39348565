//! Installs the filter in a process that runs already: its main thread is stopped and makes the system calls for it (`ptrace`).
//!
//! The thread calls `mmap`, `seccomp`, `close` and `munmap` at the `syscall` instruction of its vdso, so that none of its memory is changed, and
//! continues where it was; an interrupted system call begins anew. The filter holds for all threads, and for children from then on.

use std::io;

use crate::filter;
use crate::takeover::{self, Listener};

/// Installs the filter in a process; returns the filter's listener. If the process has the filter already, and its agent has ended, the listener is
/// taken over.
///
/// # Errors
/// There is no such process, another program traces it, a program answers its calls already, it runs 32-bit code, or it has no vdso.
#[cfg(target_arch = "x86_64")]
pub(crate) fn install(process: libc::pid_t) -> io::Result<Listener> {
    let program = filter::program();
    let stopped = Stopped::new(process)?;
    let listener = stopped.install(&program);
    stopped.go_on()?;
    listener
}

/// Installs the filter in a process; returns the filter's listener.
///
/// # Errors
/// Always: the register layout is known for `x86_64` only.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn install(_process: libc::pid_t) -> io::Result<Listener> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "a running process can be joined on x86_64 only"))
}

#[cfg(target_arch = "x86_64")]
use stopped::Stopped;

#[cfg(target_arch = "x86_64")]
mod stopped {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, Instant};

    use libc::c_long;

    use std::os::fd::OwnedFd;

    use super::{Listener, filter, io, takeover};

    /// How long a thread may take to stop: it does not stop while it waits for a disk.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// How long an agent may let a thread wait, which does not stop meanwhile, before it counts as held.
    const HELD: Duration = Duration::from_secs(1);

    const GET_SIGNAL_MASK: libc::c_uint = 0x420a;
    const SET_SIGNAL_MASK: libc::c_uint = 0x420b;

    /// The code segment of 64-bit programs.
    const USER_CS: u64 = 0x33;

    /// What a system call returns when the kernel will begin it anew, and through `restart_syscall`.
    const RESTARTS: [i64; 3] = [-512, -513, -514];
    const RESTARTS_BLOCK: i64 = -516;

    fn invalid(text: &'static str) -> io::Error {
        io::Error::other(text)
    }

    fn trace(request: libc::c_uint, process: libc::pid_t, address: usize, data: usize) -> io::Result<()> {
        // SAFETY: requests that write get the address of a live structure of the size that the kernel writes.
        match unsafe { libc::ptrace(request, process, address, data) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// A stopped main thread. Dropped without [`go_on`](Self::go_on), it continues where it was as well.
    pub(super) struct Stopped {
        process: libc::pid_t,
        registers: libc::user_regs_struct,
        signals: u64,
        /// The address of a `syscall` instruction.
        gate: u64,
        is_over: bool,
    }

    impl Stopped {
        pub(super) fn new(process: libc::pid_t) -> io::Result<Self> {
            let gate = gate(process)?;
            trace(libc::PTRACE_SEIZE, process, 0, libc::PTRACE_O_TRACESYSGOOD as usize)?;
            // If this fails, the thread is released when this process ends.
            trace(libc::PTRACE_INTERRUPT, process, 0, 0)?;
            await_stop(process, libc::PTRACE_CONT, |status| status >> 16 == libc::PTRACE_EVENT_STOP)?;
            let registers = registers_of(process)?;
            let mut signals = 0_u64;
            trace(GET_SIGNAL_MASK, process, 8, (&raw mut signals) as usize)?;
            let stopped = Self { process, registers, signals, gate, is_over: false };
            if registers.cs != USER_CS {
                return Err(invalid("it runs 32-bit code"));
            }
            // A handler would run between the calls.
            let all = u64::MAX;
            trace(SET_SIGNAL_MASK, process, 8, (&raw const all) as usize)?;
            Ok(stopped)
        }

        /// The thread makes a system call; returns its result.
        fn call(&self, number: c_long, arguments: [u64; 6]) -> io::Result<u64> {
            let [rdi, rsi, rdx, r10, r8, r9] = arguments;
            // Without `orig_rax` the kernel does not take the thread for one whose system call begins anew.
            let at = libc::user_regs_struct {
                rip: self.gate,
                rax: number as u64,
                orig_rax: u64::MAX,
                rdi,
                rsi,
                rdx,
                r10,
                r8,
                r9,
                ..self.registers
            };
            set_registers(self.process, &at)?;
            for _ in ["entry", "exit"] {
                trace(libc::PTRACE_SYSCALL, self.process, 0, 0)?;
                let is_call = |status| libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80;
                await_stop(self.process, libc::PTRACE_SYSCALL, is_call)?;
            }
            match registers_of(self.process)?.rax as i64 {
                error @ -4095..=-1 => Err(io::Error::from_raw_os_error(-error as i32)),
                result => Ok(result as u64),
            }
        }

        pub(super) fn install(&self, program: &[libc::sock_filter]) -> io::Result<Listener> {
            let instructions: Vec<u8> = program.iter().flat_map(bytes_of).collect();
            let size = (16 + instructions.len()).next_multiple_of(4096) as u64;
            let access = (libc::PROT_READ | libc::PROT_WRITE) as u64;
            let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
            let memory = self.call(libc::SYS_mmap, [0, size, access, kind, u64::MAX, 0])?;
            let installed = self.install_from(memory, program.len(), &instructions);
            let freed = self.call(libc::SYS_munmap, [memory, size, 0, 0, 0, 0]);
            match installed {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => self.take_over()?.ok_or(error),
                installed => installed.and_then(|listener| freed.map(|_| listener.into())),
            }
        }

        /// The listener of the keeper that answers this process's calls, if one does.
        fn take_over(&self) -> io::Result<Option<Listener>> {
            // Programs that join at the same time, and keepers that an earlier one has named, have other numbers.
            let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let number = std::process::id().rotate_left(16) ^ time.subsec_nanos();
            match self.call(libc::SYS_fsync, takeover::arguments(number)) {
                Err(error) if error.raw_os_error() == Some(libc::EBADF) => {
                    let found = takeover::find(number);
                    // A keeper has one listener, so one that answers both has one filter of both.
                    match found.is_some() && takeover::is_own_keeper(!number) {
                        true => Err(io::Error::from_raw_os_error(libc::ELOOP)),
                        false => Ok(found),
                    }
                }
                Err(error) => Err(error),
                Ok(_) => Ok(None),
            }
        }

        fn install_from(&self, memory: u64, length: usize, instructions: &[u8]) -> io::Result<OwnedFd> {
            // `struct sock_fprog`, then the instructions.
            let mut content = (length as u64).to_le_bytes().to_vec();
            content.extend((memory + 16).to_le_bytes());
            content.extend(instructions);
            File::options()
                .write(true)
                .open(format!("/proc/{}/mem", self.process))?
                .write_all_at(&content, memory)?;
            let install = |flags| {
                self.call(libc::SYS_seccomp, [filter::SET_MODE_FILTER.into(), flags, memory, 0, 0, 0])
            };
            let listener = filter::install_by(filter::ALL_THREADS, install, || {
                self.call(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0, 0]).map(drop)
            });
            let number = listener?;
            let own = crate::handed::take_fd(self.process as u32, number as u32);
            // The process must not hold the listener itself: its calls would wait for it when the agent has ended.
            self.call(libc::SYS_close, [number, 0, 0, 0, 0, 0])?;
            own
        }

        /// Lets the thread continue where it was.
        pub(super) fn go_on(mut self) -> io::Result<()> {
            self.release()
        }

        fn release(&mut self) -> io::Result<()> {
            if std::mem::replace(&mut self.is_over, true) {
                return Ok(());
            }
            let mut registers = self.registers;
            // The kernel begins an interrupted call anew only if the thread continues from the stop in which it was interrupted.
            if registers.orig_rax as i64 >= 0 {
                let result = registers.rax as i64;
                let begins = RESTARTS.contains(&result).then_some(registers.orig_rax);
                let begins =
                    begins.or((result == RESTARTS_BLOCK).then_some(libc::SYS_restart_syscall as u64));
                if let Some(number) = begins {
                    (registers.rax, registers.rip) = (number, registers.rip - 2);
                }
                registers.orig_rax = u64::MAX;
            }
            let restored = set_registers(self.process, &registers);
            let signals = trace(SET_SIGNAL_MASK, self.process, 8, (&raw const self.signals) as usize);
            let detached = trace(libc::PTRACE_DETACH, self.process, 0, 0);
            restored.and(signals).and(detached)
        }
    }

    impl Drop for Stopped {
        fn drop(&mut self) {
            let _ = self.release();
        }
    }

    fn bytes_of(instruction: &libc::sock_filter) -> [u8; 8] {
        let [a, b] = instruction.code.to_le_bytes();
        let [c, d, e, f] = instruction.k.to_le_bytes();
        [a, b, instruction.jt, instruction.jf, c, d, e, f]
    }

    fn registers_of(process: libc::pid_t) -> io::Result<libc::user_regs_struct> {
        // SAFETY: numbers only, for which zeroes are valid.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        trace(libc::PTRACE_GETREGS, process, 0, (&raw mut registers) as usize)?;
        Ok(registers)
    }

    fn set_registers(process: libc::pid_t, registers: &libc::user_regs_struct) -> io::Result<()> {
        trace(libc::PTRACE_SETREGS, process, 0, std::ptr::from_ref(registers) as usize)
    }

    /// Waits until the thread stops for that reason. After other stops, such as that of a signal, it continues by `request`.
    fn await_stop(
        process: libc::pid_t,
        request: libc::c_uint,
        is_it: impl Fn(i32) -> bool,
    ) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut status = 0;
            // SAFETY: writes a number.
            match unsafe { libc::waitpid(process, &raw mut status, libc::__WALL | libc::WNOHANG) } {
                -1 => return Err(io::Error::last_os_error()),
                0 if Instant::now() + PATIENCE > until + HELD && is_held(process) => {
                    return Err(io::Error::from_raw_os_error(libc::EBUSY));
                }
                0 if Instant::now() > until => {
                    return Err(invalid("it does not stop; it may wait for a disk"));
                }
                0 => std::thread::sleep(Duration::from_micros(200)),
                _ if !libc::WIFSTOPPED(status) => return Err(invalid("it ended")),
                _ if is_it(status) => return Ok(()),
                // A signal is delivered; any other stop is left.
                _ => {
                    let signal = if status >> 16 == 0 { libc::WSTOPSIG(status) & 0x7f } else { 0 };
                    trace(request, process, 0, signal as usize)?;
                }
            }
        }
    }

    /// Whether a thread waits for the listener of a seccomp filter.
    fn is_held(process: libc::pid_t) -> bool {
        fs::read_to_string(format!("/proc/{process}/wchan")).is_ok_and(|name| name.contains("seccomp"))
    }

    /// The address of a `syscall` instruction in a process's vdso.
    fn gate(process: libc::pid_t) -> io::Result<u64> {
        let table = fs::read_to_string(format!("/proc/{process}/maps"))?;
        let line = table.lines().find(|line| line.ends_with("[vdso]"));
        let range = line.and_then(|line| line.split(' ').next()?.split_once('-'));
        let number = |text| u64::from_str_radix(text, 16).ok();
        let range = range.and_then(|(start, end)| Some((number(start)?, number(end)?)));
        let (start, end) =
            range.ok_or_else(|| invalid("it is a thread of the kernel, or a program without a vdso"))?;
        let mut code = vec![0; (end - start) as usize];
        File::open(format!("/proc/{process}/mem"))?.read_exact_at(&mut code, start)?;
        let at = code.windows(2).position(|bytes| bytes == [0x0f, 0x05]);
        at.map(|at| start + at as u64).ok_or_else(|| invalid("its vdso has no syscall instruction"))
    }
}
