//! Tests of the rules about udev's rules.

use std::fs;
use std::os::unix::fs::symlink;

use super::finding::Level;
use super::tests::{NONE, System};

#[test]
fn udev_rules_that_match_nothing_or_did_not_run_are_reported() {
    let system = System::new("udev");
    system.disk("ata1/block", "sda", "8:0", NONE);
    let rule = |text: &str| system.write("etc/udev/rules.d/60-io.rules", text);
    rule(
        "# comment\nACTION==\"add\", KERNEL==\"sd[a-z]\", ATTR{queue/rotational}==\"1\", ATTR{queue/scheduler}=\"bfq\"",
    );
    let found = system.examined("sda");
    assert!(
        found[0].what.starts_with("/etc/udev/rules.d/60-io.rules:2 sets bfq for sda, which has none"),
        "{found:?}"
    );
    rule("ACTION==\"add\", KERNEL==\"hd?|nvme*\", ATTR{queue/scheduler}=\"bfq\"");
    assert!(of_udev(&system)[0].1.ends_with("the rule that sets bfq matches no disk"));
    rule("ACTION==\"add\", KERNEL==\"sd*\", ATTR{queue/scheduler}=\"cfq\"");
    assert!(system.examined("sda")[0].what.contains("the kernel offers no scheduler 'cfq' for sda"));
    assert_eq!(
        system.examined("sda")[0].fix,
        "Linux 5.0 removed it; bfq is its successor, or name an available one in the rule",
        "no module is advised that the kernel does not have"
    );
    rule("ENV{ID_SERIAL}==\"other\", ATTR{queue/scheduler}=\"none\"");
    assert_eq!(system.links("sda", Level::Problem), [""; 0], "it cannot be known what matches");
    rule(
        "ENV{ID_FS_TYPE}!=\"btrfs\", GOTO=\"end\"\nKERNEL==\"sda\", ATTR{queue/scheduler}=\"bfq\"\nLABEL=\"end\"",
    );
    assert_eq!(system.links("sda", Level::Problem), [""; 0], "nor what is jumped over");
    rule(
        "KERNEL==\"sd*\", ATTR{queue/iostats}==\"1\", ATTR{queue/zoned}==\"host-managed\", ATTR{queue/scheduler}=\"bfq\"",
    );
    assert!(of_udev(&system)[0].1.ends_with("matches no disk"), "its queue is not zoned");
}

/// Regression: a jump at one of the events was one at all of them, so that no rule after it applied.
#[test]
fn a_jump_at_one_event_leaves_the_rules_for_the_other() {
    let system = with_sda("udev-jump");
    let of = |first: &str, condition: &str| {
        let rule = format!("{condition}KERNEL==\"sd*\", ATTR{{queue/scheduler}}=\"bfq\"");
        let text = format!("{first}, GOTO=\"end\"\n{rule}\nLABEL=\"end\"");
        system.write("etc/udev/rules.d/60-io.rules", &text);
        let found = system.examined("sda").into_iter().filter(|finding| finding.link == "udev");
        found.map(|one| (one.what, one.fix)).collect::<Vec<_>>()
    };
    for (first, action) in
        [("ACTION!=\"add\"", "add"), ("ACTION!=\"change\"", "change"), ("ACTION!=\"add|change\"", "change")]
    {
        let found = of(first, "");
        assert!(found.len() == 1 && found[0].0.contains(":2 sets bfq for sda, which has none"), "{found:?}");
        assert!(found[0].1.contains(&format!("--action={action} ")), "{found:?}");
    }
    for (first, condition) in [("ACTION!=\"add\"", "ACTION==\"change\", "), ("ACTION==\"add|change\"", "")] {
        let found = of(first, condition);
        assert!(found.len() == 1 && found[0].0.ends_with("matches no disk"), "{first}: {found:?}");
    }
}

/// Regression: files with a rule for each class of disks had a problem for each class that the system lacks.
#[test]
fn a_rule_for_a_class_of_disks_that_is_absent_is_a_note() {
    let system = with_sda("udev-classes");
    system.disk("virtual/block", "loop0", "7:0", "[none] bfq");
    const SETS: &str = "ATTR{queue/scheduler}=\"bfq\"";
    for (conditions, expected) in [
        ("KERNEL==\"nvme[0-9]n[0-9]\"", Level::Note),
        ("KERNEL==\"mmcblk*[0-9]|msblk*[0-9]\", ENV{ID_SERIAL}==\"x\"", Level::Note),
        ("KERNEL==\"sd[a-z]*\", ATTR{queue/rotational}==\"0\"", Level::Note),
        ("KERNEL!=\"nvme*\", GOTO=\"end\"\nENV{DEVTYPE}==\"disk\"", Level::Note),
        ("KERNEL==\"sdb\"", Level::Problem),
        ("KERNEL==\"nvme*|sdb\"", Level::Problem),
        ("KERNEL==\"/dev/sd*\"", Level::Problem),
        ("KERNEL==\"sd*\", ENV{DEVTYPE}==\"partition\"", Level::Problem),
        ("KERNEL==\"sd*\", ATTR{queue/rotational}==\"1\", ATTR{device/model}==\"x\"", Level::Problem),
        ("ENV{DEVTYPE}!=\"partition\", GOTO=\"end\"\nKERNEL==\"sd*\"", Level::Problem),
    ] {
        system.write("etc/udev/rules.d/60-io.rules", &format!("{conditions}, {SETS}\nLABEL=\"end\""));
        let found = of_udev(&system);
        assert!(
            found.len() == 1 && found[0].0 == expected && found[0].1.ends_with("matches no disk"),
            "{conditions}: {found:?}"
        );
    }
}

/// A system with the disk sda under none.
fn with_sda(test: &str) -> System {
    let system = System::new(test);
    system.disk("ata1/block", "sda", "8:0", NONE);
    system
}

/// What the findings about udev state.
fn of_udev(system: &System) -> Vec<(Level, String)> {
    let found = system.examined("sda").into_iter().filter(|finding| finding.link == "udev");
    found.map(|finding| (finding.level, finding.what)).collect()
}

#[test]
fn rules_of_every_directory_count_in_the_order_of_their_names() {
    let system = with_sda("udev-order");
    let rule = |path: &str, scheduler: &str| {
        system.write(path, &format!("KERNEL==\"sd*\", ATTR{{queue/scheduler}}=\"{scheduler}\""));
    };
    let first = |start: &str| {
        let found = of_udev(&system);
        assert!(found[0].1.starts_with(start), "{start}: {found:?}");
    };
    rule("usr/lib/udev/rules.d/60-io.rules", "bfq");
    first("/usr/lib/udev/rules.d/60-io.rules:1 sets bfq for sda, which has none");
    rule("run/udev/rules.d/70-io.rules", "mq-deadline");
    first("/run/udev/rules.d/70-io.rules:1 sets mq-deadline");
    // Earlier by its name, although its directory has precedence.
    rule("etc/udev/rules.d/50-io.rules", "bfq");
    first("/run/udev/rules.d/70-io.rules:1 sets mq-deadline");
    rule("usr/local/lib/udev/rules.d/99-io.rules", "none");
    assert_eq!(of_udev(&system), [], "the last rule sets what is active");
    rule("usr/lib/udev/rules.d/99-other.rules", "nosuch");
    first("/usr/lib/udev/rules.d/99-other.rules:1: the kernel offers no scheduler 'nosuch' for sda");
}

#[test]
fn a_file_replaces_one_of_the_same_name() {
    let system = with_sda("udev-same-name");
    let rule = "KERNEL==\"sd*\", ATTR{queue/scheduler}=\"bfq\"";
    system.write("usr/lib/udev/rules.d/60-io.rules", rule);
    fs::create_dir_all(system.0.join("etc/udev/rules.d")).unwrap();
    let masked = system.0.join("etc/udev/rules.d/60-io.rules");
    symlink("/dev/null", &masked).unwrap();
    let replaced = "/usr/lib/udev/rules.d/60-io.rules, which sets bfq, is not read: /etc/udev/rules.d/60-io.rules has the same \
                    name and replaces it";
    assert_eq!(of_udev(&system), [(Level::Note, replaced.to_owned())]);
    fs::remove_file(&masked).unwrap();
    assert_eq!(of_udev(&system).len(), 1, "it counts again");
    // On most systems /lib is a link to /usr/lib.
    symlink("usr/lib", system.0.join("lib")).unwrap();
    let found = of_udev(&system);
    assert!(found.len() == 1 && found[0].1.contains("60-io.rules:1 sets bfq"), "{found:?}");
}

#[test]
fn each_operator_and_command_that_sets_a_scheduler_counts() {
    let system = with_sda("udev-forms");
    for line in [
        "KERNEL==\"sd?\", ATTR{queue/scheduler}:=\"bfq\"",
        "KERNEL==\"sd?\" , ATTR{queue/scheduler} += \"bfq\"",
        "SUBSYSTEM==\"block\",\\\n  KERNEL!=\"loop*|ram*\",\\\n  ATTR{queue/scheduler}=\"bfq\"",
        "KERNEL==\"sd[!b-z]\", RUN+=\"/bin/sh -c 'echo bfq > /sys/block/%k/queue/scheduler'\"",
        "KERNEL==\"sda\", RUN{program}+=\"/bin/sh -c \\\"echo -n bfq >/sys/$devpath/queue/scheduler\\\"\"",
        "ACTION!=\"remove\", TEST==\"queue/rotational\", ATTR{queue/scheduler}=\"bfq\"",
        "ACTION==\"remove\", GOTO=\"end\"\nATTR{queue/rotational}!=\"0\", ATTR{queue/scheduler}=\"bfq\"\nLABEL=\"end\"",
    ] {
        system.write("etc/udev/rules.d/60-io.rules", line);
        let found = of_udev(&system);
        assert!(
            found.len() == 1 && found[0].1.contains(" sets bfq for sda, which has none"),
            "{line}: {found:?}"
        );
        assert_eq!(found[0].0, Level::Problem);
    }
    for line in [
        "KERNEL==\"sda\", GOTO=\"end\"\nATTR{queue/rotational}==\"1\", ATTR{queue/scheduler}=\"bfq\"\nLABEL=\"end\"",
        "KERNEL==\"sda\", RUN+=\"/usr/local/bin/choose %k\"",
        "KERNEL==\"sda\", ATTR{queue/scheduler}=\"$env{CHOICE}\"",
    ] {
        system.write("etc/udev/rules.d/60-io.rules", line);
        let found = of_udev(&system);
        assert!(!found.iter().any(|(_, what)| what.contains("sets bfq for sda")), "{line}: {found:?}");
    }
    // Commands run after all rules.
    system.write(
        "etc/udev/rules.d/60-io.rules",
        "KERNEL==\"sda\", RUN+=\"/bin/sh -c 'echo none > /sys/block/%k/queue/scheduler'\"\nKERNEL==\"sda\", ATTR{queue/scheduler}=\"bfq\"",
    );
    assert_eq!(of_udev(&system), []);
}

#[test]
fn properties_of_udevs_database_are_compared() {
    let system = with_sda("udev-database");
    let rule = "ENV{DEVTYPE}==\"disk\", ENV{ID_SERIAL_SHORT}==\"WD-1\", ATTR{queue/scheduler}=\"bfq\"";
    system.write("etc/udev/rules.d/60-dwell-sda.rules", rule);
    assert_eq!(of_udev(&system), [], "no database: it cannot be known");
    system.write("run/udev/data/b8:0", "S:disk/by-id/x\nE:ID_SERIAL_SHORT=WD-1");
    assert!(of_udev(&system)[0].1.contains(":1 sets bfq for sda, which has none"));
    let early = "ID_SERIAL_SHORT is empty there, because udev sets it in 60-persistent-storage.rules, which it reads later";
    assert!(of_udev(&system)[0].1.ends_with(early), "{:?}", of_udev(&system));
    let [old, new] = ["60", "90"].map(|n| system.0.join(format!("etc/udev/rules.d/{n}-dwell-sda.rules")));
    fs::rename(&old, &new).unwrap();
    assert!(of_udev(&system)[0].1.contains("the rule did not run"), "{:?}", of_udev(&system));
    fs::rename(&new, &old).unwrap();
    system.write("run/udev/data/b8:0", "E:ID_SERIAL_SHORT=WD-2");
    assert!(of_udev(&system)[0].1.ends_with("the rule that sets bfq matches no disk"));
    system.write(
        "etc/udev/rules.d/60-dwell-sda.rules",
        "ATTRS{wwid}==\"naa.1\", ATTR{queue/scheduler}=\"bfq\"",
    );
    assert_eq!(of_udev(&system), [], "it may be that of a device above");
    system.write("sys/devices/ata1/block/sda/device/wwid", "naa.1");
    assert!(of_udev(&system)[0].1.contains(":1 sets bfq for sda, which has none"));
}

/// Regression: such a condition was read as one of the disk's own attributes, which has no such file, and a case as one that counts.
#[test]
fn conditions_on_other_devices_and_without_case_are_unknown() {
    let system = with_sda("udev-elsewhere");
    for condition in [
        "ATTR{[net/lo]mtu}==\"65536\", KERNEL==\"sda\"",
        "ATTR{[dmi/id]sys_vendor}!=\"QEMU\"",
        "ATTR{queue/$name}==\"1\"",
        "TEST==\"[dmi/id]sys_vendor\"",
        "KERNEL==i\"SDA\"",
        "ACTION==i\"ADD|CHANGE\", KERNEL==\"sda\", ATTR{queue/rotational}==i\"1\"",
    ] {
        let line = format!("{condition}, ATTR{{queue/scheduler}}=\"bfq\"");
        system.write("etc/udev/rules.d/60-io.rules", &line);
        assert_eq!(of_udev(&system), [], "{condition}");
    }
    system.write("etc/udev/rules.d/60-io.rules", "KERNEL==i\"SDB\", ATTR{queue/scheduler}=\"bfq\"");
    assert!(of_udev(&system)[0].1.ends_with("matches no disk"));
    system.write("etc/udev/rules.d/60-io.rules", "ATTR{[block/sda]queue/nr_requests}=\"9\"");
    assert_eq!(of_udev(&system), []);
}

#[test]
fn a_rule_that_compares_instead_of_setting_is_reported() {
    let system = with_sda("udev-compares");
    system.write("etc/udev/rules.d/60-io.rules", "KERNEL==\"sd*\", ATTR{queue/scheduler}==\"bfq\"");
    let found = of_udev(&system);
    assert_eq!(found[0].0, Level::Problem);
    assert!(found[0].1.contains("compares the scheduler with 'bfq' (==) and sets nothing"), "{found:?}");
}

/// Regression: rules that udev ignores had no finding.
#[test]
fn rules_with_a_misspelt_attribute_or_an_error_of_syntax_are_reported() {
    let system = with_sda("udev-misspelt");
    let rule = |path: &str, text: &str| system.write(path, text);
    const OWN: &str = "etc/udev/rules.d/60-io.rules";
    rule(OWN, "KERNEL==\"sda\", ATTR{queue/schedular}=\"bfq\"");
    let found = system.examined("sda").into_iter().find(|finding| finding.link == "udev").unwrap();
    assert_eq!(found.level, Level::Problem);
    assert!(found.what.ends_with("60-io.rules:1: the rule sets ATTR{queue/schedular}, which no disk has"));
    assert!(found.fix.ends_with("; did you mean 'queue/scheduler'?"), "{}", found.fix);
    rule(OWN, "KERNEL==\"sda\", ATTR{queue/frobnicate}=\"1\"");
    assert!(of_udev(&system)[0].0 == Level::Note, "{:?}", of_udev(&system));
    for fits in ["queue/rotational", "queue/iosched/low_latency", "device/queue_depth"] {
        rule(OWN, &format!("KERNEL==\"sda\", ATTR{{{fits}}}=\"1\""));
        assert_eq!(of_udev(&system), [], "{fits}");
    }
    for wrong in [
        "KERNEL==sda, ATTR{queue/scheduler}=\"bfq\"",
        "KERNEL==\"sda\", ATTR{queue/scheduler}=\"bfq",
        "KERNEL==\"sda\", ATTR{queue/scheduler}='bfq'",
        "KERNEL==\"sda\", ATTR{queue/scheduler=\"bfq\"",
    ] {
        rule(OWN, wrong);
        let found = of_udev(&system);
        let line = format!("60-io.rules:1: udev ignores this line, because it cannot parse it: {wrong}");
        assert!(found.len() == 1 && found[0].1.ends_with(&line) && found[0].0 == Level::Problem, "{found:?}");
    }
    rule(OWN, "KERNEL==eth0, NAME=\"lan\"");
    assert_eq!(of_udev(&system), [], "no matter of I/O");
    fs::remove_file(system.0.join(OWN)).unwrap();
    rule("usr/lib/udev/rules.d/60-io.rules", "KERNEL==sda, ATTR{queue/schedular}=\"bfq\"");
    assert_eq!(of_udev(&system), [], "the distribution's");
}

/// Regression: only attributes below `queue/` were compared, without those of schedulers and those that commands write.
#[test]
fn attributes_of_queues_are_recognised_wherever_a_rule_has_them() {
    let system = with_sda("udev-attributes");
    let of = |line: &str| {
        system.write("etc/udev/rules.d/60-io.rules", line);
        let found = system.examined("sda").into_iter().filter(|finding| finding.link == "udev");
        found.map(|finding| (finding.level, finding.what, finding.fix)).collect::<Vec<_>>()
    };
    for (set, meant) in [
        ("ATTR{scheduler}=\"bfq\"", "queue/scheduler"),
        ("ATTR{schedule}=\"bfq\"", "queue/scheduler"),
        ("SUBSYSTEM==\"block|scsi\", ATTR{scheduler}=\"bfq\"", "queue/scheduler"),
        ("ATTR{queue.scheduler}=\"bfq\"", "queue/scheduler"),
        ("ATTR{queue/iosched/slice_idel}=\"0\"", "slice_idle"),
        ("RUN+=\"/bin/sh -c 'echo bfq > /sys/block/%k/queue/schedular'\"", "queue/scheduler"),
    ] {
        let found = of(&format!("KERNEL==\"sda\", {set}"));
        assert!(found.len() == 1 && found[0].0 == Level::Problem, "{set}: {found:?}");
        assert!(found[0].1.ends_with(", which no disk has"), "{found:?}");
        assert!(found[0].2.ends_with(&format!("; did you mean '{meant}'?")), "{found:?}");
    }
    for line in [
        "SUBSYSTEM==\"bdi\", ATTR{rotational}=\"1\"",
        "SUBSYSTEM==\"net\", ATTR{queue/foo}=\"1\"",
        "SUBSYSTEM!=\"block\", ATTR{queue/foo}=\"1\"",
        "KERNEL==\"eth0\", ATTR{mtu}=\"9000\"",
        "KERNEL==\"sda\", ATTR{queue/iosched/of_a_module}=\"1\"",
        "KERNEL==\"sda\", RUN+=\"/bin/sh -c 'echo 0 > /sys/block/%k/queue/rotational'\"",
    ] {
        assert_eq!(of(line), [], "{line}");
    }
}

/// Regression: a command without a shell was read as one that sets the scheduler, and the remedy was to trigger it.
#[test]
fn a_command_that_needs_a_shell_is_reported() {
    let system = with_sda("udev-shell");
    for echo in ["echo", "/bin/echo"] {
        let command = format!("{echo} bfq > /sys/block/%k/queue/scheduler");
        system.write("etc/udev/rules.d/60-io.rules", &format!("KERNEL==\"sda\", RUN+=\"{command}\""));
        let found: Vec<_> = system.examined("sda").into_iter().filter(|one| one.link == "udev").collect();
        let end = format!(
            "60-io.rules:1: RUN starts no shell, so that '>' is an argument of the program: {command}"
        );
        assert!(found.len() == 1 && found[0].what.ends_with(&end), "{found:?}");
        assert!(
            found[0].fix.starts_with(&format!("write RUN+=\"/bin/sh -c '{command}'\"")),
            "{}",
            found[0].fix
        );
    }
}

/// Regression: the remedy was to trigger the rule.
#[test]
fn a_program_without_a_path_is_reported() {
    let system = with_sda("udev-relative");
    let line = |active: &str| {
        let shell = format!("sh -c 'echo {active} > /sys/block/%k/queue/scheduler'");
        system.write("etc/udev/rules.d/60-io.rules", &format!("KERNEL==\"sda\", RUN+=\"{shell}\""));
    };
    for scheduler in ["none", "bfq"] {
        line(scheduler);
        let found = of_udev(&system);
        let end =
            "60-io.rules:1: udev looks for the program 'sh' of RUN only in /usr/lib/udev, which lacks it";
        assert!(found.len() == 1 && found[0].0 == Level::Problem && found[0].1.ends_with(end), "{found:?}");
    }
    system.write("usr/lib/udev/sh", "");
    assert_eq!(of_udev(&system), []);
}

/// Regression: a command that starts a shell by another program was reported, with nested quotes as the remedy, and a pipe was not.
#[test]
fn a_command_that_may_start_a_shell_is_not_reported() {
    let system = with_sda("udev-wrapped");
    let of = |command: &str| {
        let line = format!("KERNEL==\"sda\", RUN+=\"{}\"", command.replace('"', "\\\""));
        system.write("etc/udev/rules.d/60-io.rules", &line);
        let found = system.examined("sda").into_iter().filter(|one| one.link == "udev");
        found.map(|one| (one.what, one.fix)).collect::<Vec<_>>()
    };
    let shell = "'echo none > /sys/block/%k/queue/scheduler'";
    for before in [
        "/usr/bin/systemd-run --no-block /bin/sh -c",
        "/usr/bin/timeout 5 /bin/sh -c",
        "/usr/bin/flock /run/lock/io /bin/bash -c",
        "/usr/bin/flock /run/lock/io -c",
        "/usr/bin/nice -n 5 /bin/sh -c",
        "/usr/bin/sudo -u root /bin/sh -c",
        "/bin/su -c",
        "/bin/su --command",
        "/usr/bin/script -qc",
        "/bin/busybox sh -c",
    ] {
        assert_eq!(of(&format!("{before} {shell}")), [], "{before}");
    }
    for command in [
        "/usr/bin/python3 -c 'if 1 > 0: open(\"/sys/block/%k/queue/scheduler\", \"w\").write(\"none\")'",
        "/usr/bin/perl -e 'open F, \">/sys/block/%k/queue/scheduler\"; print F \"none\"'",
        "/usr/bin/logger 'seen > /sys/block/%k/queue/scheduler'",
    ] {
        assert_eq!(of(command), [], "{command}");
    }
    for (command, sign, inside) in [
        (
            "/bin/echo none | tee /sys/block/%k/queue/scheduler",
            '|',
            "/bin/echo none | tee /sys/block/%k/queue/scheduler",
        ),
        (
            "/usr/bin/timeout 5 /bin/echo 'none' > /sys/block/%k/queue/scheduler",
            '>',
            "/usr/bin/timeout 5 /bin/echo \\\"none\\\" > /sys/block/%k/queue/scheduler",
        ),
    ] {
        let found = of(command);
        let what = format!("so that '{sign}' is an argument of the program: {command}");
        assert!(found.len() == 1 && found[0].0.ends_with(&what), "{found:?}");
        assert!(found[0].1.starts_with(&format!("write RUN+=\"/bin/sh -c '{inside}'\"")), "{found:?}");
    }
}

/// Regression: udev ignores such a line; a comparison with a single `=` was read as one that holds for every disk.
#[test]
fn rules_with_a_key_or_an_operator_that_udev_rejects_are_reported() {
    let system = with_sda("udev-rejects");
    const SETS: &str = "ATTR{queue/scheduler}=\"bfq\"";
    for (part, cause, fix) in [
        ("KERNEL=\"sd*\"", "KERNEL takes only ==, !=", "write KERNEL==\"sd*\""),
        ("SUBSYSTEM=\"block\"", "SUBSYSTEM takes only ==, !=", "write SUBSYSTEM==\"block\""),
        ("ACTION+=\"add\"", "ACTION takes only ==, !=", "write ACTION==\"add\""),
        (
            "ATTRS{queue/scheduler}=\"bfq\"",
            "ATTRS takes only ==, !=",
            "write ATTR{queue/scheduler}=\"bfq\" to set it, or ATTRS{queue/scheduler}==\"bfq\" to compare it",
        ),
        ("TEST=\"queue/x\"", "TEST takes only ==, !=", "write TEST==\"queue/x\""),
        ("ENV{ID_X}-=\"1\"", "ENV takes only =, ==, !=, +=, :=", "write ENV{ID_X}=\"1\""),
        ("RUN==\"/bin/a \\\"b\\\"\"", "RUN takes only +=, =, :=", "write RUN+=\"/bin/a \\\"b\\\"\""),
        (
            "RUN{foo}+=\"/bin/a\"",
            "RUN takes only program, builtin in braces",
            "write RUN{program}+=\"/bin/a\"",
        ),
        (
            "IMPORT{foo}=\"/bin/a\"",
            "IMPORT takes only program, builtin, file, db, cmdline, parent in braces",
            "write IMPORT{program}=\"/bin/a\"",
        ),
        ("GOTO==\"end\"", "GOTO takes only =", "write GOTO=\"end\""),
        ("KERNEL{a}==\"sd*\"", "KERNEL takes no name in braces", "write KERNEL==\"sd*\""),
        ("ATTR==\"1\"", "ATTR needs a name in braces", "write ATTR{NAME}==\"1\""),
        (
            "KERNAL==\"sd*\"",
            "it has no key KERNAL",
            "'man 7 udev' lists the keys, all in capitals; did you mean 'KERNEL'?",
        ),
        (
            "kernel==\"sd*\"",
            "it has no key kernel",
            "'man 7 udev' lists the keys, all in capitals; did you mean 'KERNEL'?",
        ),
        (
            "OPTION+=\"x\"",
            "it has no key OPTION",
            "'man 7 udev' lists the keys, all in capitals; did you mean 'OPTIONS'?",
        ),
    ] {
        let line = format!("{part}, {SETS}");
        system.write("etc/udev/rules.d/60-io.rules", &line);
        let found: Vec<_> =
            system.examined("sda").into_iter().filter(|finding| finding.link == "udev").collect();
        let what =
            format!("/etc/udev/rules.d/60-io.rules:1: udev ignores this line, because {cause}: {line}");
        assert!(found.len() == 1 && found[0].level == Level::Problem, "{line}: {found:?}");
        assert_eq!((&*found[0].what, &*found[0].fix), (&*what, fix));
    }
    // Each accepted form.
    for part in [
        "ACTION!=\"remove\"",
        "TEST{0444}==\"queue\"",
        "ENV{X}:=\"1\"",
        "TAG-=\"systemd\"",
        "SYMLINK+=\"x\"",
        "OPTIONS=\"nowatch\"",
        "RUN{builtin}+=\"kmod load bfq\"",
        "SECLABEL{x}=\"y\"",
        "LABEL=\"here\"",
    ] {
        system.write("etc/udev/rules.d/60-io.rules", &format!("{part}, {SETS}"));
        let found = of_udev(&system);
        assert!(found.len() == 1 && found[0].1.contains(":1 sets bfq for sda"), "{part}: {found:?}");
    }
}
