//! Held system calls on the running kernel, with a server that the test plays. Skipped without root, loop devices or seccomp.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use admission::{Again, Error, Joined, attend, container, join, run};
use control::admission::{MESSAGE_BYTES, Message, Operation};
use rustix::io::IoSlice;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

const SOCKET: &str = "DWELL_TEST_SOCKET";
const DEVICE: &str = "DWELL_TEST_DEVICE";
const SCRIPT: &str = "DWELL_TEST_SCRIPT";
const PROCESS: &str = "DWELL_TEST_PROCESS";
const LISTEN: &str = "DWELL_TEST_LISTEN";
const SECONDS: &str = "DWELL_TEST_SECONDS";
const MAPPED: &str = "DWELL_TEST_MAPPED";

/// The helper's exit code if the kernel does not let it join a process.
const NOT_JOINED: i32 = 98;

const PATIENCE: Duration = Duration::from_secs(60);

/// The process that the tests start: it runs a script under admission and ends with its exit code, joins a process, or waits for a container.
#[test]
fn helper() {
    let Ok(socket) = std::env::var(SOCKET) else { return };
    let device: u64 = std::env::var(DEVICE).unwrap().parse().unwrap();
    let joined = || {
        let server = UnixStream::connect(&socket).unwrap();
        let device = (rustix::fs::major(device), rustix::fs::minor(device));
        let socket = socket.clone();
        let again: Again = Arc::new(move |_| {
            loop {
                match UnixStream::connect(&socket) {
                    Ok(server) => return (server, device),
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        let seconds = std::env::var(SECONDS).map_or(0, |seconds| seconds.parse().unwrap());
        vec![Joined { server, device, again, patience: Duration::from_secs(seconds) }]
    };
    let code = if let Some(script) = std::env::var_os(SCRIPT) {
        run(&["sh".into(), "-c".into(), script], joined()).map_or(99, i32::from)
    } else if let Ok(process) = std::env::var(PROCESS) {
        match join(process.parse().unwrap()) {
            Ok(listener) => {
                attend(listener, || Ok(joined()), |error: Error| panic!("{error}"));
                0
            }
            Err(error) => {
                eprintln!("{error}");
                NOT_JOINED
            }
        }
    } else {
        let runtimes = UnixListener::bind(std::env::var_os(LISTEN).unwrap()).unwrap();
        let container = container::receive(&runtimes.accept().unwrap().0).unwrap();
        assert_eq!((container.id.as_str(), container.annotations["dwell.rate"].as_str()), ("c1", "1M"));
        attend(container.listener, || Ok(joined()), |error: Error| panic!("{error}"));
        0
    };
    std::process::exit(code);
}

/// An ext4 file system on a loop device in memory.
struct Disk {
    directory: PathBuf,
    image: PathBuf,
    node: PathBuf,
}

fn succeeds(program: &mut Command) -> Option<String> {
    let output = program.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

impl Disk {
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: not root");
            return None;
        }
        let name =
            format!("dwell-admission-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let (image, directory) = (Path::new("/dev/shm").join(&name), std::env::temp_dir().join(&name));
        File::create_new(&image).unwrap().set_len(64 << 20).unwrap();
        fs::create_dir_all(&directory).unwrap();
        let made = succeeds(Command::new("mkfs.ext4").arg("-q").arg(&image)).and_then(|_| {
            let node = succeeds(Command::new("losetup").args(["--find", "--show"]).arg(&image))?;
            let disk = Self { directory: directory.clone(), image: image.clone(), node: node.into() };
            succeeds(Command::new("mount").arg(&disk.node).arg(&disk.directory)).map(|_| disk)
        });
        if made.is_none() {
            eprintln!("SKIPPED: no ext4 on a loop device here");
            let _ = (fs::remove_file(image), fs::remove_dir(directory));
        }
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        while succeeds(Command::new("umount").arg(&self.directory)).is_none()
            && self.directory.join("lost+found").exists()
            && Instant::now() < until
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = Command::new("losetup").arg("--detach").arg(&self.node).status();
        let _ = (fs::remove_file(&self.image), fs::remove_dir(&self.directory));
    }
}

/// A program under admission, and the server's end of its connection.
struct Session {
    agent: Child,
    server: UnixStream,
}

impl Session {
    fn start(disk: &Disk, script: &str) -> Self {
        Self::begin(disk, &[(SCRIPT, script)], || ()).0
    }

    /// Where the agent looks for a server.
    fn socket(disk: &Disk) -> PathBuf {
        std::env::temp_dir().join(disk.directory.file_name().unwrap()).with_extension("sock")
    }

    /// Starts the helper with variables of its environment, then does something that makes it connect.
    fn begin<T>(disk: &Disk, variables: &[(&str, &str)], after: impl FnOnce() -> T) -> (Self, T) {
        let path = Self::socket(disk);
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let device = rustix::fs::stat(&disk.node).unwrap().st_rdev;
        let agent = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper", "--nocapture", "--test-threads", "1"])
            .env(SOCKET, &path)
            .env(DEVICE, device.to_string())
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let done = after();
        listener.set_nonblocking(true).unwrap();
        let (server, _) = eventually(|| listener.accept().ok());
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        fs::remove_file(path).unwrap();
        (Self { agent, server }, done)
    }

    /// The server ends. Returns where the next one listens.
    fn server_ends(&self, disk: &Disk) -> UnixListener {
        let listener = UnixListener::bind(Self::socket(disk)).unwrap();
        self.server.shutdown(std::net::Shutdown::Both).unwrap();
        listener
    }

    /// The next server gets the connection.
    fn accept(&mut self, disk: &Disk, listener: &UnixListener) {
        (self.server, _) = listener.accept().unwrap();
        self.server.set_read_timeout(Some(PATIENCE)).unwrap();
        fs::remove_file(Self::socket(disk)).unwrap();
    }

    /// The next message that is no report of a process; `None` when the agent has ended.
    fn next(&mut self) -> Option<Message> {
        loop {
            let mut message = [0; MESSAGE_BYTES];
            self.server.read_exact(&mut message).ok()?;
            match Message::parse(&message).expect("a message") {
                Message::Process { .. } => {}
                message => return Some(message),
            }
        }
    }

    fn admit(&mut self, call: u32) {
        let _ = self.server.write_all(&Message::Admit { call }.to_bytes());
    }

    /// The next call that is no creation, which is admitted.
    fn next_call(&mut self) -> (u32, Operation, u64) {
        loop {
            match self.next().expect("a call") {
                Message::Enter { call, operation: Operation::Create, .. } => self.admit(call),
                Message::Enter { call, operation, bytes, .. } => return (call, operation, bytes),
                _ => {}
            }
        }
    }

    fn code(&mut self) -> Option<i32> {
        eventually(|| self.agent.try_wait().unwrap()).code()
    }
}

/// What must happen within a minute.
fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "nothing happened within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn contains(path: &Path, text: &str) -> Option<()> {
    (fs::read_to_string(path).ok()? == text).then_some(())
}

#[test]
fn a_write_waits_until_it_is_admitted() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.path("file");
    let mut session = Session::start(&disk, &format!("printf 12345 >{}; exit 7", file.display()));
    let (call, operation, bytes) = session.next_call();
    assert_eq!((operation, bytes), (Operation::Write, 5));
    assert_eq!(fs::read_to_string(&file).unwrap(), "", "it is held");
    session.admit(call);
    assert_eq!(session.code(), Some(7));
    assert_eq!(fs::read_to_string(&file).unwrap(), "12345");
}

#[test]
fn files_elsewhere_and_pipes_are_not_held() {
    let Some(disk) = Disk::new() else { return };
    let other = disk.image.with_extension("other");
    let script = format!("printf abc | cat >{0}; mkdir {0}.d; rmdir {0}.d; rm {0}", other.display());
    let mut session = Session::start(&disk, &script);
    assert_eq!(session.next(), None, "the agent ends, and nothing was held");
    assert_eq!(session.code(), Some(0));
}

#[test]
fn an_fsync_is_carried_out_and_its_end_is_reported() {
    let Some(disk) = Disk::new() else { return };
    let dd =
        format!("dd if=/dev/zero of={} bs=4k count=1 conv=fsync 2>/dev/null", disk.path("file").display());
    let mut session = Session::start(&disk, &dd);
    let (write, ..) = session.next_call();
    session.admit(write);
    let (call, operation, _) = session.next_call();
    assert_eq!(operation, Operation::Fsync);
    session.admit(call);
    assert_eq!(session.next(), Some(Message::Return { call }));
    assert_eq!(session.code(), Some(0));
}

/// A program that the next test starts: it stores into a mapped file and calls `msync`.
#[test]
fn stores() {
    let Ok(path) = std::env::var(MAPPED) else { return };
    let file = File::options().read(true).write(true).open(path).unwrap();
    let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    // SAFETY: nothing else has the mapping, and the file is longer than the store.
    unsafe {
        let flags = rustix::mm::MapFlags::SHARED;
        let memory = rustix::mm::mmap(std::ptr::null_mut(), 4096, protection, flags, &file, 0).unwrap();
        memory.cast::<u8>().write(b'x');
        rustix::mm::msync(memory, 4096, rustix::mm::MsyncFlags::SYNC).unwrap();
    }
}

#[test]
fn an_msync_waits_as_a_write_and_as_an_fsync() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.path("file");
    fs::write(&file, [0; 4096]).unwrap();
    let program = std::env::current_exe().unwrap();
    let script = format!("{MAPPED}={} {} stores --exact >/dev/null", file.display(), program.display());
    let mut session = Session::start(&disk, &script);
    let (write, operation, _) = session.next_call();
    assert_eq!(operation, Operation::Write, "a scheduler may hold it although it holds no fsync");
    session.admit(write);
    assert_eq!(session.next(), Some(Message::Return { call: write }));
    let (fsync, operation, _) = session.next_call();
    assert_eq!(operation, Operation::Fsync);
    session.admit(fsync);
    assert_eq!(session.code(), Some(0));
    assert_eq!(fs::read(&file).unwrap()[0], b'x');
}

#[test]
fn changes_of_metadata_are_held() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.path("file");
    fs::write(&file, "").unwrap();
    let commands =
        ["ln {0} {0}.1", "ln -s a {0}.2", "mkfifo {0}.3", "chmod 600 {0}", "touch {0}", "chown 1 {0}"];
    for command in commands {
        let command = command.replace("{0}", &file.to_string_lossy());
        let mut session = Session::start(&disk, &command);
        let Some(Message::Enter { call, operation, .. }) = session.next() else { panic!("{command}") };
        assert_eq!(operation, Operation::Create, "{command}");
        session.admit(call);
        while let Some(message) = session.next() {
            if let Message::Enter { call, .. } = message {
                session.admit(call);
            }
        }
        assert_eq!(session.code(), Some(0), "{command}");
    }
}

#[test]
fn directories_and_names_are_held() {
    let Some(disk) = Disk::new() else { return };
    let script = format!("cd {} && mkdir a && touch a/b && mv a/b a/c && rm a/c", disk.directory.display());
    let mut session = Session::start(&disk, &script);
    let mut seen = Vec::new();
    while let Some(message) = session.next() {
        if let Message::Enter { call, operation, .. } = message {
            seen.push(operation);
            session.admit(call);
        }
    }
    assert_eq!(session.code(), Some(0));
    let create = Operation::Create;
    assert_eq!(seen, [Operation::Mkdir, create, create, create, create], "touch also sets the times");
}

/// Held when the agent is killed, and also afterwards: the kernel must not fail the calls.
#[test]
fn when_the_agent_is_killed_all_calls_continue() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.path("file");
    let script = format!("exec >{}; printf a; sleep 0.2; printf b; printf c", file.display());
    let mut session = Session::start(&disk, &script);
    let (_, operation, _) = session.next_call();
    assert_eq!(operation, Operation::Write);
    session.agent.kill().unwrap();
    session.agent.wait().unwrap();
    eventually(|| contains(&file, "abc"));
}

#[test]
fn when_the_server_ends_all_calls_continue() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.path("file");
    let script = format!("exec >{}; printf a; printf b; exit 3", file.display());
    let mut session = Session::start(&disk, &script);
    session.next_call();
    session.server.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(session.code(), Some(3));
    contains(&file, "ab").expect("both writes");
}

/// The calls of a program that runs continue while its server is away, and are held again when it is back.
#[test]
fn a_restarted_server_gets_the_processes_and_the_next_calls() {
    let Some(disk) = Disk::new() else { return };
    let (file, more) = (disk.path("file"), disk.image.with_extension("more"));
    // `more` is on no served device. Without it the shell waits.
    let script = format!(
        "exec >{}; printf a; until [ -e {} ]; do sleep 0.01; done; printf b; exit 4",
        file.display(),
        more.display()
    );
    let mut session = Session::start(&disk, &script);
    session.next_call();
    let listener = session.server_ends(&disk);
    eventually(|| contains(&file, "a"));
    session.accept(&disk, &listener);
    let mut processes = Vec::new();
    let mut message = [0; MESSAGE_BYTES];
    // The agent's own number, and the shell's.
    while processes.len() < 2 {
        session.server.read_exact(&mut message).unwrap();
        let Some(Message::Process { process }) = Message::parse(&message) else { panic!("{message:?}") };
        if !processes.contains(&process) {
            processes.push(process);
        }
    }
    assert_eq!(processes[0], session.agent.id());
    File::create(&more).unwrap();
    let (call, operation, bytes) = session.next_call();
    assert_eq!((operation, bytes), (Operation::Write, 1));
    contains(&file, "a").expect("the second write is held");
    session.admit(call);
    assert_eq!(session.code(), Some(4));
    contains(&file, "ab").expect("both writes");
    fs::remove_file(more).unwrap();
}

/// A call that was held when its server ended, and one that is made after that.
#[test]
fn calls_that_wait_for_a_restarted_server_are_held_by_it() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.path("file");
    let script = format!("exec >{}; printf a; printf b; exit 5", file.display());
    // They do not continue by themselves while the test runs.
    let (mut session, ()) = Session::begin(&disk, &[(SCRIPT, &script), (SECONDS, "3600")], || ());
    session.next_call();
    let listener = session.server_ends(&disk);
    session.accept(&disk, &listener);
    for before in ["", "a"] {
        let (call, operation, bytes) = session.next_call();
        assert_eq!((operation, bytes), (Operation::Write, 1));
        contains(&file, before).expect("the call is held");
        session.admit(call);
    }
    assert_eq!(session.code(), Some(5));
    contains(&file, "ab").expect("both writes");
}

/// Small writes continue while the server admits each of them at once, as an answer takes longer than such a write.
#[test]
fn few_small_writes_continue_without_an_answer() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.path("file");
    let dd = format!("dd if=/dev/zero of={} bs=100 count=20000 2>/dev/null; exit 6", file.display());
    let mut session = Session::start(&disk, &dd);
    let written = || fs::metadata(&file).map_or(0, |found| found.len() / 100);
    let mut answered = 0;
    while written() <= answered {
        let (call, ..) = session.next_call();
        session.admit(call);
        answered += 1;
    }
    let mut before = 0;
    eventually(|| {
        std::thread::sleep(Duration::from_millis(100));
        let last = std::mem::replace(&mut before, written());
        (last == before).then_some(())
    });
    assert!(before <= answered + 32, "{before} were written, {answered} are admitted");
    while let Some(message) = session.next() {
        if let Message::Enter { call, .. } = message {
            session.admit(call);
        }
    }
    assert_eq!((session.code(), written()), (Some(6), 20_000));
}

#[test]
fn a_program_is_killed_while_its_call_is_held() {
    let Some(disk) = Disk::new() else { return };
    let script = format!("exec >{}; echo $$ >&2; exec printf a", disk.path("file").display());
    let mut session = Session::start(&disk, &script);
    let message = loop {
        match session.next().expect("a call") {
            Message::Enter { call, operation: Operation::Create, .. } => session.admit(call),
            Message::Enter { process, .. } => break process,
            _ => {}
        }
    };
    let process = rustix::process::Pid::from_raw(message as i32).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    assert_eq!(session.code(), Some(128 + 9));
}

#[test]
fn a_program_is_reported_before_its_first_call() {
    let Some(disk) = Disk::new() else { return };
    let mut session = Session::start(&disk, "exec cat /dev/null");
    let mut message = [0; MESSAGE_BYTES];
    let process = loop {
        session.server.read_exact(&mut message).unwrap();
        match Message::parse(&message) {
            Some(Message::Process { process }) if process == session.agent.id() => {}
            other => break other,
        }
    };
    assert!(matches!(process, Some(Message::Process { .. })), "{process:?}");
    assert_eq!(session.code(), Some(0));
}

/// A shell that waits in `read` until it gets a line; then it writes twice and exits with 5.
fn waiting_program(file: &Path) -> Child {
    let script = format!("exec >{}; read line; printf a; printf b; exit 5", file.display());
    let program = Command::new("sh").arg("-c").arg(script).stdin(Stdio::piped()).spawn().unwrap();
    eventually(|| file.exists().then_some(()));
    program
}

/// Whether a process has a seccomp filter.
fn is_filtered(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]))
}

#[test]
fn a_running_process_is_joined_and_continues_when_the_agent_is_killed() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.path("file");
    let mut program = waiting_program(&file);
    if is_filtered(program.id()) {
        eprintln!("SKIPPED: programs have a seccomp filter here");
        drop(program.stdin.take());
        program.wait().unwrap();
        return;
    }
    let is_joined = || eventually(|| is_filtered(program.id()).then_some(()));
    let (mut session, ()) = Session::begin(&disk, &[(PROCESS, &program.id().to_string())], is_joined);
    program.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let (call, operation, bytes) = session.next_call();
    assert_eq!((operation, bytes), (Operation::Write, 1));
    assert_eq!(fs::read_to_string(&file).unwrap(), "", "it is held");
    session.admit(call);
    session.next_call();
    session.agent.kill().unwrap();
    session.agent.wait().unwrap();
    assert_eq!(eventually(|| program.try_wait().unwrap()).code(), Some(5));
    contains(&file, "ab").expect("both writes");
}

/// The kernel accepts no second filter with a listener while the keeper has the first one.
#[test]
fn a_process_whose_agent_ended_is_joined_again() {
    let Some(disk) = Disk::new() else { return };
    let file = disk.path("file");
    let script =
        format!("exec >{}; for text in a b c; do read line; printf $text; done; exit 5", file.display());
    let mut program = Command::new("sh").arg("-c").arg(script).stdin(Stdio::piped()).spawn().unwrap();
    eventually(|| file.exists().then_some(()));
    if is_filtered(program.id()) {
        eprintln!("SKIPPED: programs have a seccomp filter here");
        drop(program.stdin.take());
        program.wait().unwrap();
        return;
    }
    let number = program.id().to_string();
    let mut input = program.stdin.take().unwrap();
    for written in ["", "a", "ab"] {
        let (mut session, ()) = Session::begin(&disk, &[(PROCESS, &number)], || ());
        // Its first message: the agent answers calls. Another one is rejected.
        session.server.read_exact(&mut [0; MESSAGE_BYTES]).unwrap();
        let error = join(program.id()).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("intercepted already"), "{error}");
        input.write_all(b"go\n").unwrap();
        let (_, operation, bytes) = session.next_call();
        assert_eq!((operation, bytes), (Operation::Write, 1));
        contains(&file, written).expect("the next write is held");
        session.agent.kill().unwrap();
        session.agent.wait().unwrap();
    }
    assert_eq!(eventually(|| program.try_wait().unwrap()).code(), Some(5));
    contains(&file, "abc").expect("all writes");
}

/// Sends the listener of a filter to a socket, as OCI runtimes do.
fn send(socket: &Path, state: &[u8], listener: BorrowedFd<'_>) -> std::io::Result<()> {
    let stream = UnixStream::connect(socket)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [listener];
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(stream.as_fd(), &[IoSlice::new(state)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A program under a filter of its own, which sends `write` to the listener at `socket`.
fn container(socket: PathBuf, script: &str) -> Child {
    let state = r#"{"ociVersion": "1.0.2", "fds": ["seccompFd"], "pid": 1, "metadata": "",
        "state": {"ociVersion": "1.0.2", "id": "c1", "status": "creating", "pid": 1, "bundle": "/", "annotations": {"dwell.rate": "1M"}}}"#;
    let statement = |code: u32, jt, k: u32| libc::sock_filter { code: code as u16, jt, jf: 1 - jt, k };
    let mut program = [
        libc::sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: 0 },
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, libc::SYS_write as u32),
        libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_USER_NOTIF,
        },
        libc::sock_filter {
            code: (libc::BPF_RET | libc::BPF_K) as u16,
            jt: 0,
            jf: 0,
            k: libc::SECCOMP_RET_ALLOW,
        },
    ];
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    let install = move || {
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        const NEW_LISTENER: libc::c_ulong = 1 << 3;
        // SAFETY: the filter lives during the call, which copies it.
        let fd = unsafe { libc::syscall(libc::SYS_seccomp, 1, NEW_LISTENER, &raw const filter) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it.
        let listener = unsafe { BorrowedFd::borrow_raw(fd as i32) };
        send(&socket, state.as_bytes(), listener)?;
        // SAFETY: its own descriptor.
        unsafe { libc::close(fd as i32) };
        Ok(())
    };
    // SAFETY: makes system calls, and allocates nothing.
    unsafe { command.pre_exec(install) };
    command.spawn().unwrap()
}

#[test]
fn the_calls_of_a_container_are_held() {
    let Some(disk) = Disk::new() else { return };
    let (file, socket) = (disk.path("file"), disk.image.with_extension("listener"));
    let script = format!("exec >{}; printf a; exit 6", file.display());
    let (mut session, mut program) = Session::begin(&disk, &[(LISTEN, socket.to_str().unwrap())], || {
        eventually(|| socket.exists().then_some(()));
        container(socket.clone(), &script)
    });
    let (call, operation, bytes) = session.next_call();
    assert_eq!((operation, bytes), (Operation::Write, 1));
    session.admit(call);
    assert_eq!(eventually(|| program.try_wait().unwrap()).code(), Some(6));
    assert_eq!(session.code(), Some(0), "the agent ends with the container");
    contains(&file, "a").expect("its write");
    fs::remove_file(socket).unwrap();
}
