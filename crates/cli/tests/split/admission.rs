//! Which calls are held, and which programs, containers and options are accepted.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{NEVER, Served, alone, children, dwell, eventually, kill, length, succeeds};

#[test]
fn an_account_in_debt_is_held_until_the_scheduler_has_no_split_level() {
    let _alone = alone();
    let Some(served) = Served::new("switch", "split-token") else { return };
    let mut writer = served.writer("file", 64, &NEVER);
    served.await_held();
    assert!(length(&served.file("file")) < 64 << 16);
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    let status = eventually("the end of the writer", || writer.try_wait().unwrap());
    assert!(status.success());
    assert_eq!(length(&served.file("file")), 64 << 16);
}

/// As in most containers.
#[test]
fn a_file_of_an_overlay_is_on_the_device_of_the_upper_directory() {
    let _alone = alone();
    let Some(served) = Served::new("overlay", "split-token") else { return };
    let [lower, upper, work, merged] = ["lower", "upper, with a comma", "work", "merged"].map(|name| {
        let path = served.file(name);
        fs::create_dir(&path).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let options = format!("lowerdir={lower},upperdir={},workdir={work}", upper.replace(',', "\\,"));
    if !succeeds(Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options, &merged])) {
        eprintln!("SKIPPED: no overlay");
        return;
    }
    let mut writer = served.writer("merged/file", 64, &NEVER);
    served.await_held();
    assert!(length(&served.file("merged/file")) < 64 << 16);
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    assert!(eventually("the end of the writer", || writer.try_wait().unwrap()).success());
    assert!(succeeds(Command::new("umount").arg(&merged)));
}

/// A program that is under admission cannot start another one; names that a terminal would interpret are rejected.
#[test]
fn wrong_names_and_nested_programs_are_rejected() {
    let _alone = alone();
    let Some(served) = Served::new("wrong", "split-token") else { return };
    let exec = |name: &str, command: &[&str]| {
        let mut exec = dwell();
        exec.arg("exec").arg("--control").arg(served.control()).args(["--account", name, "--"]).args(command);
        let output = exec.output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let output = dwell()
        .args(["exec", "--account", "a", "--weight", "3", "--rate", "300k", "--control"])
        .arg(served.control())
        .args(["--", "true"])
        .output()
        .unwrap();
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && note.lines().count() == 1, "{note}");
    assert!(note.contains("--weight has no effect under 'split-token'; 'afq' uses it"), "{note}");
    for name in ["", "  ", "a\nb", "\u{1b}[31m", &"x".repeat(256), "others"] {
        let (succeeded, error) = exec(name, &["true"]);
        assert!(!succeeded && error.contains("account"), "{name:?}: {error}");
    }
    assert_eq!(exec("é 'x'", &["true"]), (true, String::new()));
    let control = served.control();
    let inner = [
        env!("CARGO_BIN_EXE_dwell"),
        "exec",
        "--account",
        "b",
        "--control",
        control.to_str().unwrap(),
        "--",
        "true",
    ];
    let (succeeded, error) = exec("a", &inner);
    assert!(!succeeded && error.contains("intercepted already"), "{error}");
}

/// Each server admits the calls on its own device.
#[test]
fn a_program_uses_two_served_devices() {
    let _alone = alone();
    let Some(one) = Served::new("two-1", "split-token") else { return };
    let Some(other) = Served::new("two-2", "split-token") else { return };
    let files = [&one, &other].map(|served| served.file("file"));
    files.iter().for_each(|file| fs::write(file, "").unwrap());
    let writes = files
        .each_ref()
        .map(|file| format!("dd if=/dev/zero of={} bs=64k count=64 conv=notrunc", file.display()));
    let exec = |controls: [&Served; 2]| {
        let mut exec = dwell();
        exec.args(["exec", "--account", "writer", "--rate", "1"]);
        controls.iter().for_each(|served| _ = exec.arg("--control").arg(served.control()));
        exec.args(["--", "sh", "-c", &format!("{} & {}; wait", writes[0], writes[1])]);
        exec.stderr(Stdio::piped());
        exec
    };
    let twice = exec([&one, &one]).output().unwrap();
    let error = String::from_utf8(twice.stderr).unwrap();
    assert!(!twice.status.success() && error.contains("the same device"), "{error}");
    let mut program = exec([&one, &other]).spawn().unwrap();
    one.await_held();
    other.await_held();
    assert!(succeeds(dwell().arg("ctl").arg(one.control()).args(["switch", "noop"])));
    eventually("the first device's file", || (length(&files[0]) == 64 << 16).then_some(()));
    assert!(length(&files[1]) < 64 << 16);
    other.await_held();
    assert!(succeeds(dwell().arg("ctl").arg(other.control()).args(["switch", "noop"])));
    let status = eventually("the end of the program", || program.try_wait().unwrap());
    assert!(status.success());
    assert_eq!(length(&files[1]), 64 << 16);
}

/// A process whose call an agent holds does not stop, so that it cannot be joined.
#[test]
fn a_held_process_cannot_be_joined() {
    let _alone = alone();
    let Some(served) = Served::new("held", "split-token") else { return };
    let mut writer = served.writer("file", 64, &NEVER);
    served.await_held();
    let held = eventually("the program", || {
        let is_dd = |process: &u32| {
            fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.trim() == "dd")
        };
        children(writer.id()).into_iter().find(is_dd)
    });
    let mut exec = dwell();
    exec.args(["exec", "--account", "other", "--control"]).arg(served.control());
    let output = exec.args(["--join", &held.to_string()]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("intercepted already"), "{error}");
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    assert!(eventually("the end of the writer", || writer.try_wait().unwrap()).success());
    assert_eq!(length(&served.file("file")), 64 << 16);
}

/// Whether an agent has joined a process.
fn is_filtered(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]))
}

/// Joins a program that runs, and shows what the account does.
#[test]
fn a_running_program_is_joined() {
    let _alone = alone();
    let Some(served) = Served::new("join", "split-token") else { return };
    let file = served.file("file");
    fs::write(&file, "").unwrap();
    let script =
        format!("read line; exec dd if=/dev/zero of={} bs=64k count=64 conv=notrunc", file.display());
    let mut program =
        Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut agent = dwell()
        .args(["exec", "--account", "writer", "--rate", "1", "--control"])
        .arg(served.control())
        .args(["--join", &program.id().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ended = eventually("the join", || match agent.try_wait().unwrap() {
        Some(_) => Some(true),
        None => is_filtered(program.id()).then_some(false),
    });
    if ended {
        let output = agent.wait_with_output().unwrap();
        eprintln!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr));
        let _ = program.kill();
        program.wait().unwrap();
        return;
    }
    program.stdin.take().unwrap().write_all(b"go\n").unwrap();
    served.await_held();
    let shown = dwell().arg("ctl").arg(served.control()).arg("show").output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("write 1") && shown.contains("debt"), "{shown}");
    agent.kill().unwrap();
    agent.wait().unwrap();
    let status = eventually("the end of the program", || program.try_wait().unwrap());
    assert!(status.success());
    assert_eq!(length(&file), 64 << 16);
}

/// Programs that leave their cgroup are limited until they end, also when none is left in it and it is removed.
#[test]
fn a_program_that_leaves_a_joined_cgroup_stays_limited() {
    let _alone = alone();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let root =
        mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|mount| mount[2] == "cgroup2");
    let Some(root) = root.map(|mount| PathBuf::from(mount[1])) else {
        eprintln!("SKIPPED: no cgroup v2");
        return;
    };
    let Some(served) = Served::new("leaves", "split-token") else { return };
    let (cgroup, file) = (root.join(format!("dwell-split-{}", std::process::id())), served.file("file"));
    if fs::create_dir(&cgroup).is_err() {
        eprintln!("SKIPPED: no new cgroup in {}", root.display());
        return;
    }
    fs::write(&file, "").unwrap();
    let script =
        format!("read line; exec dd if=/dev/zero of={} bs=64k count=64 conv=notrunc", file.display());
    let mut program =
        Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let move_to = |cgroup: &Path| fs::write(cgroup.join("cgroup.procs"), program.id().to_string()).unwrap();
    move_to(&cgroup);
    let errors = served.directory.join("errors");
    let mut exec = dwell();
    exec.args(["exec", "--account", "writer"]).args(NEVER).arg("--control").arg(served.control());
    exec.arg("--join-cgroup").arg(&cgroup).stderr(fs::File::create(&errors).unwrap());
    let mut agent = exec.spawn().unwrap();
    eventually("the join", || is_filtered(program.id()).then_some(()));
    move_to(&root);
    fs::remove_dir(&cgroup).unwrap();
    eventually("the line about the empty cgroup", || {
        fs::read_to_string(&errors).unwrap().contains("are limited until they end").then_some(())
    });
    program.stdin.take().unwrap().write_all(b"go\n").unwrap();
    served.await_held();
    assert!(length(&file) < 64 << 16);
    assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", "noop"])));
    assert!(eventually("the end of the program", || program.try_wait().unwrap()).success());
    assert!(eventually("the end of the agent", || agent.try_wait().unwrap()).success());
}

/// A listener needs no server until a container comes.
#[test]
fn a_listener_removes_its_socket_when_it_is_ended() {
    let socket = std::env::temp_dir().join(format!("dwell-split-listen-{}", std::process::id()));
    for signal in ["-TERM", "-INT"] {
        let mut listener = dwell()
            .args(["exec", "--control", "/none", "--listen"])
            .arg(&socket)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: Vec<_> = BufReader::new(listener.stderr.take().unwrap()).lines().take(2).collect();
        let note = lines[1].as_ref().unwrap();
        assert!(note.contains("/none: no server listens there") && note.contains("without limits"), "{note}");
        assert!(socket.exists());
        assert!(succeeds(Command::new("kill").args([signal, &listener.id().to_string()])));
        let status = eventually("the end of the listener", || listener.try_wait().unwrap());
        assert!(status.success() && !socket.exists(), "{status}");
    }
}

#[test]
fn wrong_options_are_named_with_the_reason() {
    let missing = std::env::temp_dir().join("dwell-none/none/socket");
    let missing = missing.to_str().unwrap();
    for (arguments, part) in [
        (&["--account", "a", "--join-cgroup", "/etc"][..], "/etc: no cgroup"),
        (&["--account", "a", "--fsync-deadline", "-5ms", "--", "true"], "--fsync-deadline: "),
        (&["--account", "a", "--rate", "-5", "--", "true"], "'-5' is not a size"),
        (&["--listen", missing], "create it first"),
    ] {
        let output = dwell().args(["exec", "--control", "/none"]).args(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(part), "{arguments:?}: {error}");
    }
}

#[test]
fn a_server_without_causes_has_no_accounts() {
    let _alone = alone();
    let directory = std::env::temp_dir().join(format!("dwell-split-none-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let control = directory.join("control");
    let nbd = format!("unix:{}", directory.join("nbd").display());
    let mut server = dwell()
        .args(["serve", "--memory", "--size", "1MiB", "--scheduler", "noop", "--nbd", &nbd, "--control"])
        .arg(&control)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let exec =
        dwell().args(["exec", "--account", "a", "--control"]).arg(&control).args(["--", "true"]).output();
    let error = String::from_utf8(exec.unwrap().stderr).unwrap();
    assert!(error.contains("start it with --causes"), "{error}");
    assert!(succeeds(dwell().arg("ctl").arg(&control).arg("stop")));
    server.wait().unwrap();
    fs::remove_dir_all(directory).unwrap();
}

/// Each time when an account has no debt, one call of it goes on and not all: a thousand threads would write a thousand blocks, and then wait as long.
#[test]
fn a_thousand_waiting_calls_go_on_at_the_rate() {
    const THREADS: u32 = 1000;
    let _alone = alone();
    let Some(served) = Served::new("thousand", "split-token") else { return };
    // The data of clean pages of a file that has its blocks: neither metadata nor reads.
    fs::write(served.file("file"), vec![1; 8 << 20]).unwrap();
    assert!(succeeds(Command::new("sync").arg(served.file("file"))));
    let script = format!(
        "import os, sys, threading\n\
        file = os.open(sys.argv[1], os.O_RDWR)\n\
        os.pwrite(file, bytes(1 << 20), 4 << 20)\n\
        write = lambda number: os.pwrite(file, bytes(4096), number << 12)\n\
        threading.stack_size(65536)\n\
        threads = [threading.Thread(target=write, args=[number]) for number in range({THREADS})]\n\
        for thread in threads: thread.start()\n\
        for thread in threads: thread.join()\n"
    );
    let exec = |rate: &str| {
        let mut exec = dwell();
        exec.args(["exec", "--account", "writer", "--rate", rate, "--control"])
            .arg(served.control())
            .arg("--");
        exec
    };
    let mut program = exec("1");
    let Ok(mut program) = program.args(["python3", "-c", &script]).arg(served.file("file")).spawn() else {
        return;
    };
    let account = |field: &str| served.account("writer").and_then(|account| account[field].as_u64());
    eventually("all threads wait", || (account("held") == Some(THREADS.into())).then_some(()));
    // The last terms are those of the account. Of the calls, 24 are paid for in a second.
    let mut faster = exec("100k").arg("cat").stdin(Stdio::piped()).spawn().unwrap();
    let held = eventually("the first calls after the debt", || {
        account("held").filter(|&held| held < u64::from(THREADS) - 10)
    });
    assert!(held > u64::from(THREADS) / 2, "{held} of {THREADS} calls wait still");
    let mut fast = exec("900M").arg("true").spawn().unwrap();
    assert!(fast.wait().unwrap().success());
    assert!(eventually("the end", || program.try_wait().unwrap()).success());
    drop(faster.stdin.take());
    assert!(faster.wait().unwrap().success());
}

/// The device has places for 128 requests. Those of an account that is in debt for ever would take them all.
#[test]
fn requests_of_an_account_in_debt_leave_places_for_others() {
    const THREADS: u32 = 200;
    let _alone = alone();
    let Some(served) = Served::new("crowd", "split-token") else { return };
    for name in ["file", "other"] {
        fs::write(served.file(name), vec![1; 8 << 20]).unwrap();
        assert!(succeeds(Command::new("sync").arg(served.file(name))));
    }
    let script = format!(
        "import mmap, os, sys, threading\n\
        file = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)\n\
        def read(number):\n\
        \x20   while True: os.preadv(file, [mmap.mmap(-1, 4096)], number << 12)\n\
        print(os.getpid(), flush=True)\n\
        threading.stack_size(65536)\n\
        threads = [threading.Thread(target=read, args=[number]) for number in range({THREADS})]\n\
        for thread in threads: thread.start()\n"
    );
    let mut exec = dwell();
    exec.args(["exec", "--account", "writer", "--control"]).arg(served.control()).args(NEVER);
    let exec = exec.args(["--", "python3", "-c", &script]).arg(served.file("file"));
    let Ok(mut exec) = exec.stdout(Stdio::piped()).spawn() else { return };
    let mut program = String::new();
    BufReader::new(exec.stdout.take().unwrap()).read_line(&mut program).unwrap();
    eventually("a stopped process", || served.account("writer").filter(|writer| writer["held"] == 1));
    let input = format!("if={}", served.file("other").display());
    let mut other = Command::new("dd");
    let other = other.args([&input, "of=/dev/null", "bs=64k", "iflag=direct"]).stderr(Stdio::null());
    let mut other = other.spawn().unwrap();
    assert!(eventually("reads without a limit", || other.try_wait().unwrap()).success());
    let writer = served.account("writer").unwrap();
    assert_eq!(
        (&writer["held"], writer["waits"]["submit"]["held"].as_u64()),
        (&1.into(), Some(1)),
        "{writer}"
    );
    kill(program.trim().parse().unwrap());
    eventually("the end", || exec.try_wait().unwrap());
}
