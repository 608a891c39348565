//! Held system calls on the running kernel, with a server that the test plays. Skipped without root, loop devices or seccomp.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use admission::{Joined, run};
use control::admission::{MESSAGE_BYTES, Message, Operation};

const SOCKET: &str = "DWELL_TEST_SOCKET";
const DEVICE: &str = "DWELL_TEST_DEVICE";
const SCRIPT: &str = "DWELL_TEST_SCRIPT";

const PATIENCE: Duration = Duration::from_secs(60);

/// The process that the tests start: it runs a script under admission and ends with its exit code.
#[test]
fn helper() {
    let Ok(socket) = std::env::var(SOCKET) else { return };
    let device: u64 = std::env::var(DEVICE).unwrap().parse().unwrap();
    let script = std::env::var_os(SCRIPT).unwrap();
    let server = UnixStream::connect(socket).unwrap();
    let joined = Joined { server, device: (rustix::fs::major(device), rustix::fs::minor(device)) };
    let code = run(&["sh".into(), "-c".into(), script], joined);
    std::process::exit(code.map_or(99, i32::from));
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
        let path = std::env::temp_dir().join(disk.directory.file_name().unwrap()).with_extension("sock");
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let device = rustix::fs::stat(&disk.node).unwrap().st_rdev;
        let agent = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper", "--nocapture", "--test-threads", "1"])
            .env(SOCKET, &path)
            .env(DEVICE, device.to_string())
            .env(SCRIPT, script)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        fs::remove_file(path).unwrap();
        Self { agent, server }
    }

    /// The next message; `None` when the agent has ended.
    fn next(&mut self) -> Option<Message> {
        let mut message = [0; MESSAGE_BYTES];
        self.server.read_exact(&mut message).ok()?;
        Some(Message::parse(&message).expect("a message"))
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
    assert_eq!(seen, [Operation::Mkdir, create, create, create]);
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
