//! Who is charged for what is dirtied and written.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{Served, Store, alone, blocks, children, dwell, eventually, kill, succeeds, waiting};

/// Programs whose agent has ended are limited no longer. What they write would be five minutes of debt for those that are limited.
#[test]
fn programs_that_are_no_longer_limited_are_not_charged_to_their_account() {
    let _alone = alone();
    let Some(served) = Served::new("freed", "split-token") else { return };
    let go = |name: &str| fs::write(served.directory.join(format!("{name}.go")), "").unwrap();
    let done = |name: &str| {
        let file = served.directory.join(format!("{name}.done"));
        eventually(name, || file.exists().then_some(()));
    };
    let agents = || served.account("pair").and_then(|account| account["agents"].as_u64());
    let mut limited = waiting(&served, "limited", &blocks(&served, "limited", 3));
    let mut killed = waiting(&served, "killed", &blocks(&served, "killed", 512));
    let left = blocks(&served, "left", 512);
    let wait = format!("while [ ! -e {} ]; do sleep 0.02; done", served.directory.join("later").display());
    let later = served.directory.join("left.later").display().to_string();
    let mut parent =
        waiting(&served, "left", &format!("{{ setsid sh -c 'echo; {wait}; {left}; echo >{later}' & }}"));
    eventually("three programs", || (agents() == Some(3)).then_some(()));
    go("left");
    assert!(eventually("the end of the parent", || parent.try_wait().unwrap()).success());
    killed.kill().unwrap();
    killed.wait().unwrap();
    eventually("one program", || (agents() == Some(1)).then_some(()));
    go("killed");
    done("killed");
    fs::write(served.directory.join("later"), "").unwrap();
    eventually("the descendant", || Path::new(&later).exists().then_some(()));
    go("limited");
    done("limited");
    assert!(eventually("the end", || limited.try_wait().unwrap()).success());
}

/// What was dirtied while another scheduler was in use would be five minutes of debt.
#[test]
fn a_switch_back_to_a_limit_charges_nothing_of_the_time_before() {
    let _alone = alone();
    let Some(served) = Served::new("switch-back", "split-token") else { return };
    let switch = |scheduler: &str| {
        assert!(succeeds(dwell().arg("ctl").arg(served.control()).args(["switch", scheduler])));
    };
    let mut free = waiting(&served, "free", &blocks(&served, "free", 512));
    let mut limited = waiting(&served, "limited", &blocks(&served, "limited", 3));
    eventually("two programs", || served.account("pair").filter(|account| account["agents"] == 2));
    switch("afq");
    fs::write(served.directory.join("free.go"), "").unwrap();
    assert!(eventually("the free program", || free.try_wait().unwrap()).success());
    switch("split-token");
    fs::write(served.directory.join("limited.go"), "").unwrap();
    assert!(eventually("the limited program", || limited.try_wait().unwrap()).success());
}

/// The shares are those of accounts whose programs run.
#[test]
fn ended_accounts_have_no_share_and_disappear() {
    let _alone = alone();
    let Some(served) = Served::new("ended", "afq") else { return };
    let exec = |name: &str| {
        let mut exec = dwell();
        exec.args(["exec", "--account", name, "--control"]).arg(served.control());
        exec
    };
    let mut running = exec("running").args(["--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
    for number in 0..9 {
        assert!(succeeds(exec(&format!("ended-{number}")).args(["--weight", "8", "--", "true"])));
    }
    let state = || -> Value {
        let output = dwell().arg("ctl").arg(served.control()).args(["show", "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let shares = || -> Vec<u64> {
        let state = state();
        let items = state["items"].as_array().unwrap().iter();
        items.filter_map(|item| item["facts"]["share_percent"].as_u64()).collect()
    };
    eventually("shares of `others` and the running account", || (shares() == [50, 50]).then_some(()));
    eventually("the end of the other accounts", || {
        let state = state();
        let accounts = state["accounts"].as_array().unwrap();
        let names: Vec<_> = accounts.iter().filter_map(|account| account["name"].as_str()).collect();
        (names == ["others", "running"]).then_some(())
    });
    assert!(succeeds(exec("again").args(["--", "true"])), "numbers are used again");
    assert!(served.account("again").is_some());
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
}

#[test]
fn each_policy_lets_writers_finish_and_charges_them() {
    let _alone = alone();
    for scheduler in ["split-token", "split-deadline", "afq"] {
        let Some(served) = Served::new(scheduler, scheduler) else { return };
        let terms = ["--weight", "2", "--fsync-deadline", "100ms", "--rate", "100M"];
        let mut writer = served.writer("file", 64, &terms);
        let status = eventually("the end of the writer", || writer.try_wait().unwrap());
        assert!(status.success(), "{scheduler}");
        assert!(succeeds(Command::new("sync").arg("-f").arg(served.directory.join("files"))), "{scheduler}");
        eventually("a clean account that was charged", || {
            let account = served.account("writer")?;
            let number = |field: &str| account[field].as_u64().unwrap();
            let is_charged = number("calls") >= 64 && number("caused") >= 64 << 16;
            (is_charged && number("dirty") == 0 && number("held") == 0).then_some(())
        });
    }
}

/// The kernel reports that a page becomes dirty, and nothing when another program changes it afterwards. Small writes make small folios.
#[test]
fn a_second_writer_of_dirty_pages_is_charged() {
    let _alone = alone();
    let Some(served) = Served::new("second", "split-token") else { return };
    for (block, count) in [(4096, 512), (65536, 32)] {
        let file = served.file(&format!("file-{block}"));
        fs::write(&file, "").unwrap();
        let account = |number: u32| format!("writer-{number}-{block}");
        for number in 1..=2 {
            let mut writer = dwell();
            writer.args(["exec", "--account", &account(number), "--rate", "100M", "--control"]);
            writer.arg(served.control()).args(["--", "dd", "if=/dev/zero", "conv=notrunc"]);
            writer.args([format!("of={}", file.display()), format!("bs={block}"), format!("count={count}")]);
            assert!(succeeds(&mut writer), "{block}");
        }
        eventually("the second writer's share", || {
            let second = served.account(&account(2))?;
            (second["dirty"].as_u64()? + second["caused"].as_u64()? >= 1 << 20).then_some(())
        });
    }
}

/// Pages of direct I/O are in no cache, so no process was seen to dirty them.
#[test]
fn direct_writes_are_data() {
    let _alone = alone();
    let Some(served) = Served::new("direct", "split-token") else { return };
    let file = served.file("file");
    fs::write(&file, vec![1; 4 << 20]).unwrap();
    assert!(succeeds(Command::new("sync").arg(&file)));
    let output = format!("of={}", file.display());
    let mut writer = dwell();
    writer.args(["exec", "--account", "writer", "--rate", "100M", "--control"]).arg(served.control());
    writer.args(["--", "dd", "if=/dev/zero", &output, "bs=1M", "count=4", "conv=notrunc", "oflag=direct"]);
    assert!(succeeds(&mut writer));
    let account = eventually("the account", || {
        served.account("writer").filter(|account| account["caused"].as_u64() >= Some(4 << 20))
    });
    assert_eq!(account["data"], 4 << 20, "{account}");
    assert!(account["metadata"].as_u64() < Some(1 << 20), "{account}");
}

/// What a program dirtied before it joined is not charged to the account when it is written.
#[test]
fn data_that_was_dirty_before_the_join_is_not_the_accounts() {
    let _alone = alone();
    let Some(served) = Served::new("before", "split-token") else { return };
    let (file, done) = (served.file("file"), served.directory.join("done"));
    let script = "import os, sys\n\
        file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n\
        os.pwrite(file, bytes(8 << 20), 0)\n\
        open(sys.argv[2], 'w')\n\
        sys.stdin.readline()\n\
        os.pwrite(file, b'x', 16 << 20)\n\
        os.remove(sys.argv[2])\n\
        sys.stdin.readline()\n";
    let mut program = Command::new("python3");
    program.args(["-c", script]).arg(&file).arg(&done).stdin(Stdio::piped());
    let Ok(mut program) = program.spawn() else { return eprintln!("SKIPPED: no python3") };
    eventually("the first write", || done.exists().then_some(()));
    let mut join = dwell();
    join.args(["exec", "--account", "writer", "--rate", "100M", "--control"]).arg(served.control());
    let mut agent = join.args(["--join", &program.id().to_string()]).spawn().unwrap();
    eventually("the account", || {
        assert!(agent.try_wait().unwrap().is_none(), "not joined");
        served.account("writer")
    });
    std::thread::sleep(Duration::from_secs(1));
    program.stdin.as_mut().unwrap().write_all(b"again\n").unwrap();
    eventually("the second write", || (!done.exists()).then_some(()));
    assert!(succeeds(Command::new("sync").arg("-f").arg(&file)));
    let account = served.account("writer").unwrap();
    assert!(account["caused"].as_u64() < Some(1 << 20) && account["calls"] != 0, "{account}");
    program.stdin.as_mut().unwrap().write_all(b"end\n").unwrap();
    assert!(program.wait().unwrap().success() && agent.wait().unwrap().success());
}

/// A restarted server does not charge again what its predecessor charged when it became dirty.
#[test]
fn pages_that_were_dirty_before_a_restart_are_charged_once() {
    let _alone = alone();
    let store = Store::new("once");
    let Some(served) = Served::over("once", "split-token", &[store.0.to_str().unwrap()]) else { return };
    let (file, done) = (served.file("file"), served.directory.join("done"));
    fs::write(&file, vec![1; 8 << 20]).unwrap();
    assert!(succeeds(Command::new("sync").arg(&file)));
    let script = format!(
        "dd if=/dev/zero of={0} bs=64k count=128 conv=notrunc; touch {1}; read line; printf x | dd of={0} conv=notrunc; rm {1}; cat",
        file.display(),
        done.display()
    );
    let mut program = dwell();
    program.args(["exec", "--account", "writer", "--rate", "100M", "--control"]).arg(served.control());
    let mut program = program
        .args(["--", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the written file", || done.exists().then_some(()));
    children(served.server.id()).into_iter().for_each(kill);
    eventually("the account at the next server", || served.account("writer"));
    program.stdin.as_mut().unwrap().write_all(b"again\n").unwrap();
    eventually("the end of the second write", || (!done.exists()).then_some(()));
    assert!(succeeds(Command::new("sync").arg("-f").arg(&file)));
    let account = served.account("writer").unwrap();
    assert!(account["caused"].as_u64() < Some(1 << 20), "{account}");
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}

/// Directories have no data: what is dirty after a commit is metadata in the buffer cache.
#[test]
fn metadata_is_dirty_for_its_account_until_it_is_written() {
    let _alone = alone();
    let Some(served) = Served::new("metadata", "split-token") else { return };
    let mut round = 0;
    eventually("dirty metadata of the account", || {
        // Again, as the kernel may have written it already.
        round += 1;
        let directory = served.file(&format!("directory-{round}"));
        let script = format!("mkdir {0} {0}/1 {0}/2 {0}/3 && sync {0}", directory.display());
        let made = dwell()
            .args(["exec", "--account", "writer", "--rate", "100M", "--control"])
            .arg(served.control())
            .args(["--", "sh", "-c", &script])
            .status();
        assert!(made.unwrap().success());
        served.account("writer").filter(|account| account["dirty"].as_u64() > Some(0))
    });
    assert!(succeeds(Command::new("sync").arg("-f").arg(served.directory.join("files"))));
    eventually("written metadata of the account", || {
        let account = served.account("writer")?;
        (account["dirty"] == 0 && account["metadata"].as_u64() > Some(0) && account["data"] == 0)
            .then_some(())
    });
}
