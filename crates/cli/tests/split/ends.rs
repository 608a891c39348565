//! Agents, servers and programs that end, and servers that come back.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{NEVER, Served, Store, alone, children, dwell, eventually, kill, length, succeeds};

#[test]
fn when_the_agent_is_killed_the_program_continues() {
    let _alone = alone();
    let Some(served) = Served::new("agent", "split-token") else { return };
    let mut writer = served.writer("file", 64, &NEVER);
    served.await_held();
    writer.kill().unwrap();
    writer.wait().unwrap();
    eventually("the end of the file", || (length(&served.file("file")) == 64 << 16).then_some(()));
}

/// A supervisor that ends `dwell exec` ends the program with it.
#[test]
fn a_program_gets_the_sigterm_of_its_agent() {
    let _alone = alone();
    let Some(served) = Served::new("term", "split-token") else { return };
    let trapped = served.directory.join("trapped");
    let script = format!(
        "trap 'echo >{0}.done; exit 7' TERM; echo >{0}; while :; do sleep 0.02; done",
        trapped.display()
    );
    let mut exec = dwell();
    exec.args(["exec", "--account", "writer", "--control"]).arg(served.control());
    let mut program = exec.args(["--", "sh", "-c", &script]).spawn().unwrap();
    eventually("the program", || trapped.exists().then_some(()));
    assert!(succeeds(Command::new("kill").args(["-TERM", &program.id().to_string()])));
    let status = eventually("the end of the program", || program.try_wait().unwrap());
    assert_eq!(status.code(), Some(7));
}

/// The kernel wakes a held thread only for signals that end it at once, and this program handles them.
#[test]
fn a_program_handles_the_sigint_of_its_agent_while_it_is_held() {
    let _alone = alone();
    if !succeeds(Command::new("python3").arg("--version")) {
        return eprintln!("SKIPPED: no python3");
    }
    let Some(served) = Served::new("int", "split-token") else { return };
    let file = served.file("file");
    fs::write(&file, "").unwrap();
    for signal in ["INT", "TERM"] {
        let script = format!(
            "import os, signal, sys\n\
             signal.signal(signal.SIG{signal}, lambda *_: os._exit(7))\n\
             file = os.open(sys.argv[1], os.O_RDWR)\n\
             while True: os.pwrite(file, bytes(65536), 0)"
        );
        let mut exec = dwell();
        exec.args(["exec", "--account", "writer", "--control"]).arg(served.control()).args(NEVER);
        let mut program =
            exec.args(["--", "python3", "-c", &script]).arg(&file).stderr(Stdio::null()).spawn().unwrap();
        served.await_held();
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(program.try_wait().unwrap().is_none());
        assert!(succeeds(Command::new("kill").args([&format!("-{signal}"), &program.id().to_string()])));
        let begun = std::time::Instant::now();
        let status = eventually("the end of the program", || program.try_wait().unwrap());
        assert_eq!(status.code(), Some(7), "{signal}");
        assert!(begun.elapsed().as_secs() < 5, "{signal}: {:?}", begun.elapsed());
        eventually("no held call", || {
            served.account("writer").is_none_or(|account| account["held"] == 0).then_some(())
        });
    }
}

#[test]
fn nothing_hangs_when_agent_program_or_server_is_killed() {
    let _alone = alone();
    let store = Store::new("kills");
    let Some(served) = Served::over("kills", "split-token", &[store.0.to_str().unwrap()]) else { return };
    let pid_file = served.directory.join("pid");
    for round in 0..12 {
        let (file, blocks) = (served.file(&format!("file-{round}")), 64);
        fs::write(&file, "").unwrap();
        let _ = fs::remove_file(&pid_file);
        let script = format!(
            "echo $$ >{}; exec dd if=/dev/zero of={} bs=64k count={blocks} conv=notrunc",
            pid_file.display(),
            file.display()
        );
        // 16 writes a second: the program is in a held call at nearly all times.
        let mut agent = dwell()
            .args(["exec", "--account", "writer", "--rate", "1M", "--control"])
            .arg(served.control())
            .args(["--", "sh", "-c", &script])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Each victim before its first write, and after one, two and four.
        let written = [0, 1, 2, 4][round / 3] << 16;
        let program: u32 =
            eventually("the program's start", || fs::read_to_string(&pid_file).ok()?.trim().parse().ok());
        eventually("the program's writes", || (length(&file) >= written).then_some(()));
        match round % 3 {
            0 => kill(agent.id()),
            1 => kill(program),
            _ => children(served.server.id()).into_iter().for_each(kill),
        }
        let status = eventually("the end of the agent", || agent.try_wait().unwrap());
        match round % 3 {
            0 => eventually("the end of the file", || (length(&file) == blocks << 16).then_some(())),
            1 => assert_eq!(status.code(), Some(128 + 9)),
            _ => {
                assert!(status.success(), "the program's calls and writes wait for the next server");
                eventually("the next server", || served.account("others").map(drop));
            }
        }
        eventually("the program's end", || (!Path::new(&format!("/proc/{program}")).exists()).then_some(()));
    }
}

/// A program that writes 4 KiB to each of these files in turn while `run` exists, under admission at a byte a second. Lines of its agent are in
/// `errors`.
fn endless_writer(devices: &[&Served], run: &Path, errors: &Path) -> Child {
    fs::write(run, "").unwrap();
    let write = |served: &&Served| {
        let file = served.file("endless");
        fs::write(&file, "").unwrap();
        format!("dd if=/dev/zero of={} bs=4k count=1 seek=$i conv=notrunc 2>/dev/null", file.display())
    };
    // One process for each device, as a held call on one device must not delay those on another.
    let loops = devices.iter().map(write).map(|write| {
        format!("(i=0; while [ -e {} ]; do {write}; i=$((i+1)); sleep 0.02; done) &", run.display())
    });
    let script = loops.chain(["wait".to_owned()]).collect::<Vec<_>>().join("\n");
    let mut exec = dwell();
    exec.args(["exec", "--account", "writer"]).args(NEVER);
    devices.iter().for_each(|served| _ = exec.arg("--control").arg(served.control()));
    exec.args(["--", "sh", "-c", &script]).stderr(fs::File::create(errors).unwrap()).spawn().unwrap()
}

/// A process that continues when this is dropped.
struct Stopped(u32);

impl Stopped {
    fn signal(&self, name: &str) {
        assert!(succeeds(Command::new("kill").args([name, &self.0.to_string()])));
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

/// A program that starts while no server listens waits for the next one, and has its limits from its first call on.
#[test]
fn a_program_that_starts_during_a_restart_is_limited() {
    let _alone = alone();
    let store = Store::new("start");
    let Some(served) = Served::over("start", "split-token", &[store.0.to_str().unwrap()]) else { return };
    let supervisor = Stopped(served.server.id());
    fs::write(served.file("file"), "").unwrap();
    let output = format!("of={}", served.file("file").display());
    let errors = served.directory.join("errors");
    supervisor.signal("-STOP");
    children(served.server.id()).into_iter().for_each(kill);
    eventually("the end of the server", || served.account("others").is_none().then_some(()));
    let mut exec = dwell();
    exec.args(["exec", "--account", "writer"]).args(NEVER).arg("--control").arg(served.control());
    exec.args(["--", "dd", "if=/dev/zero", &output, "bs=64k", "count=64", "conv=notrunc"]);
    let mut writer = exec.stderr(fs::File::create(&errors).unwrap()).spawn().unwrap();
    eventually("the line about the restart", || {
        fs::read_to_string(&errors)
            .unwrap()
            .contains("is restarting its server; waiting for it")
            .then_some(())
    });
    drop(supervisor);
    served.await_held();
    assert!(length(&served.file("file")) < 64 << 16);
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    assert!(eventually("the end of the writer", || writer.try_wait().unwrap()).success());
}

/// Also with several devices, and more than once.
#[test]
fn programs_are_limited_again_when_a_server_is_back() {
    let _alone = alone();
    let stores = [Store::new("back-1"), Store::new("back-2")];
    let [path, other_path] = stores.each_ref().map(|store| store.0.to_str().unwrap());
    let Some(served) = Served::over("back-1", "split-token", &[path]) else { return };
    let Some(other) = Served::over("back-2", "split-token", &[other_path]) else { return };
    let (run, errors) = (served.directory.join("run"), served.directory.join("errors"));
    let mut program = endless_writer(&[&served, &other], &run, &errors);
    let lines = |of: &str| {
        let text = fs::read_to_string(&errors).unwrap();
        text.lines().filter(|line| line.contains(of)).count()
    };
    served.await_held();
    other.await_held();
    for round in 1..=2 {
        children(served.server.id()).into_iter().for_each(kill);
        eventually("the line that the server ended", || {
            (lines("its server has ended") == round).then_some(())
        });
        eventually("the line that limits hold", || (lines("has its limits again") == round).then_some(()));
        let account = eventually("the account", || served.account("writer"));
        assert_eq!((&account["agents"], &account["terms"]["rate"]), (&1.into(), &1.into()), "{account}");
        served.await_held();
        assert_eq!(other.account("writer").unwrap()["agents"], 1);
    }
    assert_eq!(lines(other.control().to_str().unwrap()), 0, "the other server runs");
    fs::remove_file(run).unwrap();
    for served in [&served, &other] {
        assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    }
    let status = eventually("the end of the program", || program.try_wait().unwrap());
    assert!(status.success());
}

/// Options that a second program omits stay, those that it has replace the first one's, also after a restart of the server.
#[test]
fn a_second_program_of_an_account_keeps_the_limits_of_the_first() {
    let _alone = alone();
    let store = Store::new("second");
    let Some(served) = Served::over("second", "split-token", &[store.0.to_str().unwrap()]) else { return };
    let (run, errors) = (served.directory.join("run"), served.directory.join("errors"));
    let mut program = endless_writer(&[&served], &run, &errors);
    served.await_held();
    let second = |terms: &[&str]| {
        let mut exec = dwell();
        exec.args(["exec", "--account", "writer", "--control"]).arg(served.control()).args(terms);
        assert!(succeeds(exec.args(["--", "true"])));
        eventually("the end of the second program", || {
            served.account("writer").filter(|account| account["agents"] == 1)
        })
    };
    let account = second(&[]);
    assert_eq!(account["terms"]["rate"], 1, "{account}");
    served.await_held();
    let account = second(&["--weight", "3"]);
    assert_eq!((&account["terms"]["rate"], &account["terms"]["weight"]), (&1.into(), &3.into()), "{account}");
    served.await_held();
    children(served.server.id()).into_iter().for_each(kill);
    let account = eventually("the account at the next server", || served.account("writer"));
    assert_eq!((&account["terms"]["rate"], &account["terms"]["weight"]), (&1.into(), &3.into()), "{account}");
    served.await_held();
    let account = second(&["--rate", "100M"]);
    assert_eq!(account["terms"]["rate"], 100_000_000, "{account}");
    fs::remove_file(run).unwrap();
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    let status = eventually("the end of the program", || program.try_wait().unwrap());
    assert!(status.success());
}

/// A dead agent's calls go on, and no longer count as held, neither for the account nor for the scheduler, while another program of the account is held.
#[test]
fn calls_of_a_killed_agent_are_not_held() {
    let _alone = alone();
    let Some(served) = Served::new("killed", "split-token") else { return };
    let mut writers = ["a", "b"].map(|name| served.writer(name, 64, &NEVER));
    let held = |number: u64| {
        eventually("held calls", || {
            let output = dwell().arg("ctl").arg(served.control()).args(["show", "--json"]).output().unwrap();
            let state: Value = serde_json::from_slice(&output.stdout).ok()?;
            let account = state["accounts"].as_array()?.iter().find(|account| account["name"] == "writer")?;
            let items = state["items"].as_array()?;
            let item = items.iter().find(|item| item["number"] == account["number"])?;
            let counts = [&account["held"], &account["waits"]["write"]["held"], &item["facts"]["held"]];
            counts.map(Value::as_u64).iter().all(|&count| count == Some(number)).then_some(())
        });
    };
    held(2);
    writers[0].kill().unwrap();
    writers[0].wait().unwrap();
    held(1);
    eventually("the first writer's end", || (length(&served.file("a")) == 64 << 16).then_some(()));
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    assert!(eventually("the end of the other writer", || writers[1].try_wait().unwrap()).success());
}
