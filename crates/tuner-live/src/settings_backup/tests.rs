//! A kill, a failure or another process at every step.

use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;
use crate::testing::Tree;

/// A switch of the tuner.
fn switch(backup: &mut SettingsBackup, settings: &[(&str, &str)]) {
    let switch = backup.begin_switch(settings[0].1);
    settings.iter().for_each(|(setting, value)| backup.queue.set(setting, value).unwrap());
    backup.end_switch(switch);
}

/// Leaves the file as SIGKILL does. Its process gets another start time, as this one still runs.
fn kill(backup: SettingsBackup) -> Record {
    let mut record = backup.record.clone();
    record.started += 1;
    record.write(&backup.directory).unwrap();
    std::mem::forget(backup);
    record
}

fn begin(tree: &Tree) -> SettingsBackup {
    SettingsBackup::begin(&tree.backups(), &tree.queue("sda")).unwrap()
}

fn restored(tree: &Tree) -> Vec<String> {
    restore_leftovers(&tree.backups(), &tree.block(), &["sda"])
}

fn restored_after_kill(backup: SettingsBackup, tree: &Tree) -> Vec<String> {
    kill(backup);
    restored(tree)
}

fn now(queue: &QueueSettings) -> [String; 3] {
    ["scheduler", "nr_requests", "read_ahead_kb"].map(|setting| queue.get(setting).unwrap())
}

fn files(tree: &Tree) -> usize {
    fs::read_dir(tree.backups()).unwrap().count()
}

#[test]
fn dropping_the_backup_restores_the_settings_and_removes_the_file() {
    let tree = Tree::new("restore");
    let mut backup = begin(&tree);
    switch(&mut backup, &[("scheduler", "bfq"), ("read_ahead_kb", "4096")]);
    let queue = backup.queue.clone();
    drop(backup);
    assert_eq!(now(&queue), ["mq-deadline", "64", "128"]);
    assert_eq!(files(&tree), 0);
}

#[test]
fn the_next_start_restores_after_a_kill_and_ignores_a_living_process() {
    let tree = Tree::new("killed");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    switch(&mut backup, &[("scheduler", "bfq")]);
    assert_eq!(restored(&tree), [""; 0], "it still runs");
    let second = SettingsBackup::begin(&tree.backups(), &queue).unwrap_err().to_string();
    assert!(second.contains("already tunes it"), "{second}");
    assert_eq!(left_behind(&tree.backups(), &queue), Ok(None));
    kill(backup);
    let left = left_behind(&tree.backups(), &queue).unwrap().unwrap();
    assert!(left.to_string().ends_with("was killed; before: scheduler=mq-deadline"), "{left}");
    assert_eq!((left.scheduler.as_str(), left.arm().as_str()), ("mq-deadline", "mq-deadline"));
    assert_eq!(left.remedy(), "dwell tune /dev/sda --restore");
    let lines = restored(&tree);
    assert!(lines.len() == 1 && lines[0].contains("restored after") && lines[0].contains("mq-deadline"));
    assert_eq!(queue.get("scheduler").unwrap(), "mq-deadline");
    assert_eq!((left_behind(&tree.backups(), &queue), restored(&tree)), (Ok(None), vec![]), "once");
}

/// Regression: a command on one device restored the settings of every other device, also while its user measured that one.
#[test]
fn settings_of_a_device_that_is_not_named_stay_and_are_reported() {
    let tree = Tree::new("another");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    switch(&mut backup, &[("scheduler", "bfq")]);
    let pid = kill(backup).pid;
    tree.queue("sdb");
    for named in [&["sdb"] as &[&str], &[]] {
        let lines = restore_leftovers(&tree.backups(), &tree.block(), named);
        let line = format!(
            "sda: process {pid} changed its settings and was killed; before: scheduler=mq-deadline; 'dwell tune /dev/sda --restore' restores that"
        );
        assert_eq!(lines, [line]);
        assert_eq!((queue.get("scheduler").unwrap().as_str(), files(&tree)), ("bfq", 1));
    }
    let lines = restore_leftovers(&tree.backups(), &tree.block(), &["sdb", "sda"]);
    assert!(lines.len() == 1 && lines[0].starts_with("sda: restored after"), "{lines:?}");
    assert_eq!(queue.get("scheduler").unwrap(), "mq-deadline");
}

/// Regression: a loop device keeps its queue when another file is attached, and that file's user got the settings of the earlier one.
#[test]
fn the_settings_of_an_earlier_medium_are_not_given_to_the_next_one() {
    let tree = Tree::new("medium");
    let queue = tree.queue("sda");
    let diskseq = tree.block().join("sda/diskseq");
    let tuned_and_killed = |seq: &str| {
        fs::write(&diskseq, seq).unwrap();
        queue.set("scheduler", "mq-deadline").unwrap();
        let mut backup = SettingsBackup::begin(&tree.backups(), &queue).unwrap();
        switch(&mut backup, &[("scheduler", "bfq")]);
        kill(backup);
    };
    tuned_and_killed("4\n");
    assert!(left_behind(&tree.backups(), &queue).unwrap().is_some(), "of the same medium");
    fs::write(&diskseq, "5\n").unwrap();
    assert_eq!(left_behind(&tree.backups(), &queue), Ok(None));
    let lines = restored(&tree);
    assert!(lines.len() == 1 && lines[0].contains("another medium or file since"), "{lines:?}");
    assert_eq!((queue.get("scheduler").unwrap().as_str(), files(&tree)), ("bfq", 0));
    tuned_and_killed("6\n");
    fs::write(&diskseq, "7\n").unwrap();
    let next = SettingsBackup::begin(&tree.backups(), &queue).unwrap();
    assert_eq!(next.record.before("scheduler"), Some("bfq"), "the present value");
}

#[test]
fn what_is_left_behind_has_every_setting_but_those_of_another_process() {
    let tree = Tree::new("left");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    switch(&mut backup, &[("scheduler", "bfq"), ("nr_requests", "256"), ("read_ahead_kb", "4096")]);
    kill(backup);
    let left = || left_behind(&tree.backups(), &queue).unwrap().unwrap();
    assert_eq!(left().arm(), "mq-deadline{nr_requests=64,read_ahead_kb=128}");
    // The operator's choice since.
    queue.set("scheduler", "none").unwrap();
    assert_eq!(
        (left().scheduler, left().before),
        ("none".into(), vec![("read_ahead_kb".into(), "128".into())])
    );
}

/// Regression: the lines to paste lost a setting of the operator's scheduler, which the tuner's scheduler does not have.
#[test]
fn the_complete_arm_has_the_settings_that_another_scheduler_resets() {
    let tree = Tree::new("complete");
    let queue = tree.queue("sda");
    let own = tree.block().join("sda/queue/iosched");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("fifo_batch"), "7\n").unwrap();
    let mut backup = SettingsBackup::begin(&tree.backups(), &queue).unwrap();
    switch(&mut backup, &[("scheduler", "bfq")]);
    fs::remove_dir_all(&own).unwrap();
    kill(backup);
    let left = left_behind(&tree.backups(), &queue).unwrap().unwrap();
    assert_eq!(left.arm(), "mq-deadline");
    assert_eq!(left.complete_arm(), "mq-deadline{nr_requests=64,read_ahead_kb=128,fifo_batch=7}");
}

#[test]
fn one_of_two_concurrent_starts_succeeds() {
    let tree = Tree::new("at-once");
    let queue = tree.queue("sda");
    for _ in 0..1000 {
        let start = std::sync::Barrier::new(2);
        let begin = || {
            start.wait();
            SettingsBackup::begin(&tree.backups(), &queue)
        };
        let (one, other) = std::thread::scope(|scope| {
            let one = scope.spawn(begin);
            (begin(), one.join().unwrap())
        });
        assert_eq!([one.is_ok(), other.is_ok()].iter().filter(|began| **began).count(), 1);
    }
}

#[test]
fn a_claimed_device_is_restored_after_the_claim_ends() {
    let tree = Tree::new("claimed");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    switch(&mut backup, &[("scheduler", "bfq")]);
    kill(backup);
    let claim = queue.claim().unwrap();
    let lines = restored(&tree);
    assert!(lines.len() == 1 && lines[0].contains("stay until then"), "{lines:?}");
    assert_eq!(queue.get("scheduler").unwrap(), "bfq");
    drop(claim);
    restored(&tree);
    assert_eq!(queue.get("scheduler").unwrap(), "mq-deadline");
}

#[test]
fn the_schedulers_own_settings_are_restored() {
    let tree = Tree::new("iosched");
    let queue = tree.queue("sda");
    fs::create_dir(queue.file("iosched")).unwrap();
    fs::write(queue.file("iosched/fifo_batch"), "16\n").unwrap();
    let mut backup = begin(&tree);
    // An arm of the scheduler that was in use before.
    switch(&mut backup, &[("scheduler", "mq-deadline"), ("iosched/fifo_batch", "1")]);
    let lines = restored_after_kill(backup, &tree);
    assert!(lines.len() == 1 && lines[0].ends_with(": iosched/fifo_batch=16"), "{lines:?}");
    assert_eq!(queue.get("iosched/fifo_batch").unwrap(), "16");
}

#[test]
fn another_processs_scheduler_stays_at_the_end() {
    let tree = Tree::new("foreign");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    switch(&mut backup, &[("scheduler", "bfq"), ("read_ahead_kb", "64")]);
    queue.set("scheduler", "kyber").unwrap();
    // The kernel's own value under kyber.
    queue.set("nr_requests", "256").unwrap();
    drop(backup);
    assert_eq!(now(&queue), ["kyber", "256", "128"]);
    assert_eq!(files(&tree), 0);
}

#[test]
fn another_processs_scheduler_stays_after_a_kill() {
    let tree = Tree::new("foreign-killed");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    switch(&mut backup, &[("scheduler", "bfq"), ("read_ahead_kb", "64")]);
    queue.set("scheduler", "kyber").unwrap();
    let lines = restored_after_kill(backup, &tree);
    assert!(lines[1].ends_with("another process has set scheduler=kyber since; keeping that"), "{lines:?}");
    assert_eq!(now(&queue), ["kyber", "64", "128"]);
    assert_eq!(restored(&tree), [""; 0], "once");
}

#[test]
fn another_processs_value_of_a_setting_that_the_tuner_left_alone_stays() {
    let tree = Tree::new("untouched");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    // With another scheduler the kernel sets nr_requests itself.
    switch(&mut backup, &[("scheduler", "bfq"), ("nr_requests", "256")]);
    queue.set("read_ahead_kb", "512").unwrap();
    let lines = restored_after_kill(backup, &tree);
    assert!(lines[1].ends_with("another process has set read_ahead_kb=512 since; keeping that"));
    assert_eq!(now(&queue), ["mq-deadline", "64", "512"]);
    let mut backup = SettingsBackup::begin(&tree.backups(), &queue).unwrap();
    switch(&mut backup, &[("scheduler", "bfq"), ("nr_requests", "256")]);
    queue.set("nr_requests", "32").unwrap();
    drop(backup);
    assert_eq!(now(&queue), ["mq-deadline", "32", "512"], "although the scheduler is restored");
}

#[test]
fn a_kill_at_any_step_of_a_switch_restores_everything_but_a_third_scheduler() {
    let steps = [("scheduler", "bfq"), ("nr_requests", "256"), ("read_ahead_kb", "64")];
    for done in 0..=steps.len() {
        let tree = Tree::new("half-way");
        let mut backup = begin(&tree);
        let queue = backup.queue.clone();
        switch(&mut backup, &[("scheduler", "none"), ("nr_requests", "32")]);
        let _ = backup.begin_switch("bfq");
        steps[..done].iter().for_each(|(setting, value)| queue.set(setting, value).unwrap());
        restored_after_kill(backup, &tree);
        assert_eq!(now(&queue), ["mq-deadline", "64", "128"], "{done} steps");
    }
    let tree = Tree::new("half-way-foreign");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    let _ = backup.begin_switch("bfq");
    queue.set("scheduler", "kyber").unwrap();
    restored_after_kill(backup, &tree);
    assert_eq!(queue.get("scheduler").unwrap(), "kyber");
}

#[test]
fn nothing_is_changed_if_the_file_cannot_be_written() {
    let tree = Tree::new("no-backup");
    fs::create_dir_all(tree.backups().join("sda.json.new/obstacle")).unwrap();
    fs::set_permissions(tree.backups(), fs::Permissions::from_mode(0o700)).unwrap();
    let problem = SettingsBackup::begin(&tree.backups(), &tree.queue("sda")).unwrap_err().to_string();
    assert!(problem.contains("sda.json: ") && problem.contains("nothing was changed"), "{problem}");
    assert_eq!(files(&tree), 1, "no partly written file stays");
}

/// On a full disk the outdated file would make the tuner's latest values another process's.
#[test]
fn without_room_for_a_second_file_every_value_counts_as_the_tuners() {
    let tree = Tree::new("no-room");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    switch(&mut backup, &[("scheduler", "bfq")]);
    let obstacle = tree.backups().join("sda.json.new");
    fs::create_dir(&obstacle).unwrap();
    switch(&mut backup, &[("scheduler", "none")]);
    fs::remove_dir(obstacle).unwrap();
    let mut stored = Record::read(&backup.directory, "sda.json").unwrap();
    stored.started += 1;
    stored.write(&backup.directory).unwrap();
    std::mem::forget(backup);
    let lines = restored(&tree);
    assert_eq!(queue.get("scheduler").unwrap(), "mq-deadline", "{lines:?}");
}

#[test]
fn a_setting_that_the_kernel_rejects_stays_stored_until_it_is_restored() {
    let tree = Tree::new("rejected");
    let mut backup = begin(&tree);
    let (queue, directory) = (backup.queue.clone(), PrivateDirectory::open(&tree.backups()).unwrap());
    switch(&mut backup, &[("scheduler", "bfq"), ("read_ahead_kb", "4096")]);
    let mut record = kill(backup);
    let ahead = queue.file("read_ahead_kb");
    fs::remove_file(&ahead).unwrap();
    symlink("/proc/sys/kernel/ostype", &ahead).unwrap();
    let reads = queue.get("read_ahead_kb").unwrap();
    record.set.as_mut().unwrap().insert("read_ahead_kb".to_owned(), vec![reads, "4096".to_owned()]);
    record.write(&directory).unwrap();
    let lines = restored(&tree);
    assert!(lines.len() == 2 && lines[0].contains("not every") && lines[1].contains("read_ahead_kb"));
    let backup = SettingsBackup::begin(&tree.backups(), &queue).unwrap();
    assert_eq!(backup.record.before("read_ahead_kb"), Some("128"), "not the present value");
    drop(backup);
    assert_eq!(files(&tree), 1, "rejected again");
    fs::remove_file(&ahead).unwrap();
    fs::write(&ahead, "4096\n").unwrap();
    record.write(&directory).unwrap();
    assert_eq!(restored(&tree).len(), 1);
    assert_eq!((queue.get("read_ahead_kb").unwrap(), files(&tree)), ("128".to_owned(), 0));
}

#[test]
fn the_settings_of_a_removed_device_are_not_given_to_its_successor() {
    let tree = Tree::new("successor");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    switch(&mut backup, &[("scheduler", "bfq")]);
    // The backup's device had the name before this one.
    backup.record.inode = backup.record.inode.map(|inode| inode + 1);
    let mut record = backup.record.clone();
    drop(backup);
    assert_eq!(queue.get("scheduler").unwrap(), "bfq", "replaced while it was tuned");
    record.started += 1;
    let directory = PrivateDirectory::open(&tree.backups()).unwrap();
    record.write(&directory).unwrap();
    let next = SettingsBackup::begin(&tree.backups(), &queue).unwrap();
    assert_eq!(next.record.before("scheduler"), Some("bfq"));
    drop(next);
    record.write(&directory).unwrap();
    let lines = restored(&tree);
    assert!(lines.len() == 1 && lines[0].contains("the device was removed since"), "{lines:?}");
    assert_eq!((queue.get("scheduler").unwrap(), files(&tree)), ("bfq".to_owned(), 0));
}

#[test]
fn a_file_from_before_a_reboot_is_removed() {
    let tree = Tree::new("boot");
    let backup = begin(&tree);
    let queue = backup.queue.clone();
    // The same process number and start time, in another boot.
    let record = Record { boot: "another".to_owned(), ..backup.record.clone() };
    record.write(&backup.directory).unwrap();
    std::mem::forget(backup);
    queue.set("scheduler", "bfq").unwrap();
    let lines = restored(&tree);
    assert!(lines.len() == 1 && lines[0].contains("the machine was restarted since"), "{lines:?}");
    assert_eq!((queue.get("scheduler").unwrap(), files(&tree)), ("bfq".to_owned(), 0));
}

/// A file of a killed process with this content; the lines that restoring prints. Nothing may be written through it.
fn planted(test: &str, change: impl Fn(&mut serde_json::Value)) -> Vec<String> {
    let tree = Tree::new(test);
    let victim = tree.directory().join("victim");
    fs::write(&victim, "untouched").unwrap();
    let mut backup = begin(&tree);
    switch(&mut backup, &[("scheduler", "bfq")]);
    let mut json = serde_json::to_value(kill(backup)).unwrap();
    change(&mut json);
    let text = json.to_string().replace("VICTIM", victim.to_str().unwrap());
    let directory = PrivateDirectory::open(&tree.backups()).unwrap();
    directory.replace("sda.json", text.as_bytes()).unwrap();
    let lines = restored(&tree);
    assert_eq!(fs::read_to_string(victim).unwrap(), "untouched", "{test}");
    assert_eq!(tree.queue("sda").get("scheduler").unwrap(), "mq-deadline", "the tree's own value");
    lines
}

/// Issue 29, finding 2: the path of a setting was joined unchecked, so that an absolute one overwrote any file.
#[test]
fn a_file_that_names_anything_but_a_queues_settings_is_ignored() {
    let before = |name: &'static str| {
        move |json: &mut serde_json::Value| json["before"] = serde_json::json!([[name, "planted"]])
    };
    let names =
        ["VICTIM", "../../../victim", "iosched/../../../../victim", "iosched/", "zoned", "iosched/a b"];
    for name in names {
        let lines = planted("planted-name", before(name));
        assert!(lines.len() == 1 && lines[0].contains("no setting of a queue"), "{name}: {lines:?}");
    }
    let lines = planted("planted-set", |json| json["set"] = serde_json::json!({"VICTIM": []}));
    assert!(lines.len() == 1 && lines[0].contains("no setting of a queue"), "{lines:?}");
    for device in ["../state/victim", "/etc", "", "sdb"] {
        let lines = planted("planted-device", |json| json["device"] = device.into());
        assert!(lines.len() == 1 && lines[0].contains("names the device"), "{device}: {lines:?}");
    }
    for value in ["two\nlines", &"x".repeat(300)] {
        let lines = planted("planted-value", |json| {
            json["before"] = serde_json::json!([["scheduler", value]]);
        });
        assert!(lines.len() == 1 && lines[0].contains("holds the value"), "{lines:?}");
    }
    let lines = planted("planted-json", |json| *json = serde_json::json!({"pid": 1}));
    assert!(lines.len() == 1 && lines[0].contains("is damaged"), "{lines:?}");
    let lines = planted("planted-huge", |json| json["boot"] = "x".repeat(100_000).into());
    assert!(lines.len() == 1 && lines[0].contains("longer than 65536 bytes"), "{lines:?}");
}

/// Regression: the next tuner replaced the file, although the operator was asked to compare the settings with it.
#[test]
fn a_damaged_file_is_never_replaced() {
    let tree = Tree::new("damaged");
    let directory = PrivateDirectory::create(&tree.backups()).unwrap();
    directory.replace("sda.json", b"{\"pid\": 1, \"sta").unwrap();
    let lines = restored(&tree);
    assert!(lines.len() == 1 && lines[0].contains("is damaged"), "{lines:?}");
    assert!(lines[0].ends_with(&format!("; then rm {}", directory.path("sda.json").display())), "{lines:?}");
    let queue = tree.queue("sda");
    let refused = SettingsBackup::begin(&tree.backups(), &queue).unwrap_err().to_string();
    assert!(
        refused.contains("is damaged") && refused.contains("sda is not tuned while it exists"),
        "{refused}"
    );
    assert_eq!(directory.read("sda.json", 100).unwrap(), b"{\"pid\": 1, \"sta");
    fs::remove_file(directory.path("sda.json")).unwrap();
    assert_eq!(begin(&tree).record.before("scheduler"), Some("mq-deadline"));
}

/// Regression: `advise` and `doctor` said nothing.
#[test]
fn a_damaged_file_is_not_an_absent_one() {
    let tree = Tree::new("damaged-left");
    let queue = tree.queue("sda");
    assert_eq!(left_behind(&tree.backups(), &queue), Ok(None), "there is no directory");
    let directory = PrivateDirectory::create(&tree.backups()).unwrap();
    assert_eq!(left_behind(&tree.backups(), &queue), Ok(None), "there is no file");
    directory.replace("sda.json", b"{\"pid\": 1, \"sta").unwrap();
    let path = directory.path("sda.json");
    let of = |problem: &str| {
        let found = left_behind(&tree.backups(), &queue).unwrap_err();
        let text = found.to_string();
        assert!(text.starts_with(&format!("{}: {problem}", path.display())), "{text}");
        assert!(text.contains("the settings of sda before a killed tuner are unknown"), "{text}");
        assert!(found.remedy().ends_with(&format!("rm {}", path.display())), "{}", found.remedy());
    };
    of("is damaged (");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    of("mode 0666 gives other users access");
    fs::set_permissions(tree.backups(), fs::Permissions::from_mode(0o770)).unwrap();
    of("the directory is ignored (mode 0770");
}

/// An attribute that is a symbolic link to a file elsewhere.
#[test]
fn a_link_out_of_the_queue_directory_is_not_followed() {
    let tree = Tree::new("linked");
    let queue = tree.queue("sda");
    let victim = tree.directory().join("victim");
    fs::write(&victim, "128").unwrap();
    fs::remove_file(queue.file("read_ahead_kb")).unwrap();
    symlink(&victim, queue.file("read_ahead_kb")).unwrap();
    fs::create_dir(tree.directory().join("elsewhere")).unwrap();
    fs::write(tree.directory().join("elsewhere/quantum"), "1").unwrap();
    symlink(tree.directory().join("elsewhere"), queue.file("iosched")).unwrap();
    for setting in ["read_ahead_kb", "iosched/quantum"] {
        let problem = queue.set(setting, "planted").unwrap_err().to_string();
        assert!(problem.contains("leads out of"), "{problem}");
    }
    assert_eq!(fs::read_to_string(victim).unwrap(), "128");
    assert_eq!(fs::read_to_string(tree.directory().join("elsewhere/quantum")).unwrap(), "1");
}

/// A user and group that own no file of these tests.
const OTHER_USER: u32 = 65534;

#[test]
fn a_file_that_another_user_owns_is_ignored() {
    let tree = Tree::new("owned-file");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    switch(&mut backup, &[("scheduler", "bfq")]);
    kill(backup);
    if let Err(error) = chown(tree.backups().join("sda.json"), Some(OTHER_USER), None) {
        return eprintln!("SKIPPED: only root can give a file away ({error})");
    }
    let lines = restored(&tree);
    assert!(lines.len() == 1 && lines[0].contains("owned by user 65534"), "{lines:?}");
    assert_eq!(queue.get("scheduler").unwrap(), "bfq");
}

#[test]
fn a_directory_that_another_user_owns_is_not_used() {
    let tree = Tree::new("owned-directory");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    switch(&mut backup, &[("scheduler", "bfq")]);
    kill(backup);
    if let Err(error) = chown(tree.backups(), Some(OTHER_USER), None) {
        return eprintln!("SKIPPED: only root can give a directory away ({error})");
    }
    let lines = restored(&tree);
    assert!(lines.len() == 1 && lines[0].contains("owned by user 65534"), "{lines:?}");
    assert_eq!(queue.get("scheduler").unwrap(), "bfq");
    let problem = SettingsBackup::begin(&tree.backups(), &queue).unwrap_err().to_string();
    assert!(problem.contains("owned by user 65534"), "{problem}");
}

/// `tune --dry-run` and `tune --status` work without root.
#[test]
fn without_access_to_the_directory_there_is_nothing_to_restore() {
    let tree = Tree::new("unprivileged");
    let mut backup = begin(&tree);
    let queue = backup.queue.clone();
    switch(&mut backup, &[("scheduler", "bfq")]);
    kill(backup);
    let (path, block) = (tree.backups(), tree.block());
    let as_other_user = std::thread::spawn(move || {
        // SAFETY: takes numbers only; the raw system call concerns this thread alone.
        if unsafe { libc::syscall(libc::SYS_setresuid, OTHER_USER, OTHER_USER, OTHER_USER) } != 0 {
            eprintln!("SKIPPED: only root can become another user");
            return (vec![], Ok(None));
        }
        (restore_leftovers(&path, &block, &["sda"]), left_behind(&path, &queue))
    });
    assert_eq!(as_other_user.join().unwrap(), (vec![], Ok(None)));
}
