//! Tests with directories in place of a system's trees.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tuner_live::status::Status;

use super::*;

/// A system, removed when this is dropped.
pub(super) struct System(pub(super) PathBuf);

impl System {
    pub(super) fn new(test: &str) -> Self {
        let root = std::env::temp_dir().join(format!("dwell-doctor-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let system = Self(root);
        system.write("proc/cpuinfo", "flags\t\t: fpu sse");
        system.write("sys/fs/cgroup/cgroup.controllers", "cpu io memory");
        system.write("sys/fs/cgroup/cgroup.subtree_control", "cpu io memory");
        system
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let file = self.0.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{text}\n")).unwrap();
    }

    /// A disk below `bus`.
    pub(super) fn disk(&self, bus: &str, name: &str, number: &str, scheduler: &str) {
        let directory = format!("sys/devices/{bus}/{name}");
        self.write(&format!("{directory}/dev"), number);
        self.write(&format!("{directory}/queue/scheduler"), scheduler);
        self.write(&format!("{directory}/queue/wbt_lat_usec"), "75000");
        self.write(&format!("{directory}/queue/rotational"), "1");
        self.write(&format!("{directory}/queue/iostats"), "1");
        for (place, link) in [("dev/block", number), ("block", name), ("class/block", name)] {
            fs::create_dir_all(self.0.join("sys").join(place)).unwrap();
            symlink(self.0.join(&directory), self.0.join("sys").join(place).join(link)).unwrap();
        }
    }

    /// A unit's control group that used sda.
    fn unit(&self, settings: &str) {
        self.write("usr/lib/systemd/system/db.service", &format!("[Service]\n{settings}"));
        let group = "sys/fs/cgroup/system.slice";
        self.write(&format!("{group}/cgroup.procs"), "");
        self.write(&format!("{group}/cgroup.subtree_control"), "io");
        self.write(&format!("{group}/other.service/cgroup.procs"), "");
        self.write(&format!("{group}/db.service/cgroup.procs"), "42");
        self.write(&format!("{group}/db.service/io.stat"), "8:0 rbytes=1 wbytes=2");
    }

    pub(super) fn examined(&self, target: &str) -> Vec<Finding> {
        // Files on sda, on a partition of it, and on another disk.
        let home = |file: &Path| match file.to_str() {
            Some("/" | "/srv") => Some((8, 0)),
            Some("/part") => Some((8, 1)),
            Some("/other") => Some((8, 16)),
            _ => None,
        };
        let examined = examine(&Roots::at(&self.0), Some(target), &home);
        examined.map_err(|error| error.to_string()).unwrap().remove(0).findings
    }

    /// The problems and notes of the unit `db.service` with this link, with their remedies.
    fn of_link(&self, link: &str, settings: &str) -> Vec<(Level, String, String)> {
        self.unit(settings);
        let found = self.examined("db.service").into_iter();
        found.filter(|one| one.link == link).map(|one| (one.level, one.what, one.fix)).collect()
    }

    /// The links of the findings of at least this level.
    pub(super) fn links(&self, target: &str, level: Level) -> Vec<&'static str> {
        let found = self.examined(target);
        found.iter().filter(|finding| finding.level <= level).map(|finding| finding.link).collect()
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const BFQ: &str = "none mq-deadline [bfq]";
pub(super) const NONE: &str = "[none] mq-deadline bfq";

#[test]
fn a_sound_disk_has_no_findings() {
    let system = System::new("sound");
    system.disk("ata1/block", "sda", "8:0", "none mq-deadline [bfq]");
    system.write("sys/devices/ata1/block/sda/queue/wbt_lat_usec", "0");
    assert_eq!(system.examined("sda"), []);
    assert_eq!(system.examined("/dev/sda"), []);
}

#[test]
fn a_directory_or_file_is_examined_on_its_device() {
    let system = System::new("directory");
    let Ok((major, minor)) = device_below(&system.0) else {
        return eprintln!("SKIPPED: the directory of temporary files has no block device");
    };
    system.disk("ata1/block", "sda", &format!("{major}:{minor}"), NONE);
    let expected = system.examined("sda");
    for place in ["", "proc/cpuinfo"] {
        assert_eq!(system.examined(system.0.join(place).to_str().unwrap()), expected);
    }
    let problem = |target: &str| {
        let examined = examine(&Roots::at(&system.0), Some(target), &|_| None);
        examined.map(drop).map_err(|error| error.to_string()).unwrap_err()
    };
    assert!(problem("/proc/self").contains("is on proc (/proc), which has no block device"));
    assert!(problem("/dev/null").contains("is no block device, directory or file"));
    assert!(problem("/no/where").contains("no such device or file, and no control group"));
}

#[test]
fn ionice_without_effect_is_reported() {
    let system = System::new("ionice");
    system.disk("ata1/block", "sda", "8:0", NONE);
    let found = system.examined("sda");
    assert_eq!(found[0].what, "sda has the scheduler none, which ignores ionice");
    system.unit("IOSchedulingClass=idle");
    let found = system.examined("db.service");
    assert_eq!(
        (found[0].level, &*found[0].what),
        (
            Level::Problem,
            "/usr/lib/systemd/system/db.service: IOSchedulingClass=idle has no effect: none on sda ignores I/O priorities"
        )
    );
}

#[test]
fn guest_and_host_that_both_schedule_are_reported() {
    let system = System::new("guest");
    system.disk("pci/virtio0/block", "vda", "254:0", "none [mq-deadline] bfq");
    assert_eq!(system.links("vda", Level::Warning), ["virtualization"]);
    system.disk("ata1/block", "sda", "8:0", "none [mq-deadline] bfq");
    assert_eq!(system.links("sda", Level::Warning), [""; 0]);
    system.write("proc/cpuinfo", "flags\t\t: fpu hypervisor sse");
    assert_eq!(system.links("sda", Level::Warning), ["virtualization"], "an emulated SATA disk");
}

#[test]
fn a_weight_needs_a_scheduler_or_a_controller_that_uses_it() {
    let system = System::new("weight");
    system.disk("ata1/block", "sda", "8:0", "none [mq-deadline] bfq");
    system.unit("IOWeight=500");
    let group = "sys/fs/cgroup/system.slice/db.service";
    system.write(&format!("{group}/io.weight"), "default 500");
    assert_eq!(system.links("db.service", Level::Problem), ["weight"]);
    system.write("sys/fs/cgroup/io.cost.qos", "8:0 enable=1 ctrl=auto");
    assert_eq!(system.links("db.service", Level::Problem), [""; 0]);
    // As crun wrote it: the weight of the cost controller, which bfq ignores.
    system.write("sys/devices/ata1/block/sda/queue/scheduler", BFQ);
    assert!(system.examined("db.service")[0].what.contains("io.bfq.weight"));
    system.write(&format!("{group}/io.bfq.weight"), "default 500");
    assert_eq!(system.links("db.service", Level::Problem), [""; 0]);
}

#[test]
fn a_weight_at_the_wrong_level_is_reported() {
    let system = System::new("level");
    system.disk("ata1/block", "sda", "8:0", BFQ);
    system.unit("IOWeight=500");
    system.write("sys/fs/cgroup/system.slice/db.service/io.bfq.weight", "500");
    fs::remove_dir_all(system.0.join("sys/fs/cgroup/system.slice/other.service")).unwrap();
    let found = system.examined("db.service");
    assert!(found[0].what.contains("is the only group in system.slice"), "{found:?}");
    system.write("sys/fs/cgroup/system.slice/cgroup.subtree_control", "cpu");
    let found = system.examined("db.service");
    let finding = found.iter().find(|finding| finding.what.contains("the io controller is not enabled"));
    let one = "; IOWeight=500 in /usr/lib/systemd/system/db.service has no effect";
    assert!(finding.is_some_and(|finding| finding.fix.contains("IOAccounting=yes")), "{found:?}");
    assert!(finding.is_some_and(|finding| finding.what.ends_with(one)), "{found:?}");
    system
        .write("etc/systemd/system/db.service.d/a.conf", "[Service]\nIODeviceLatencyTargetSec=/dev/sda 20ms");
    let both = "; without effect: IOWeight=500 in /usr/lib/systemd/system/db.service, IODeviceLatencyTargetSec=/dev/sda 20ms in \
                /etc/systemd/system/db.service.d/a.conf";
    let found = system.examined("db.service");
    assert!(found.iter().any(|finding| finding.what.ends_with(both)), "{found:?}");
    system.write("etc/systemd/system/system.slice.d/off.conf", "[Slice]\nDisableControllers=cpu io");
    let found = system.examined("db.service");
    assert!(found[0].fix.ends_with("remove DisableControllers=io of system.slice"), "{found:?}");
}

/// crun wrote the weight of a podman container into a group inside the container's own (crun#1572).
#[test]
fn a_containers_weight_one_level_too_deep_is_reported() {
    let system = System::new("deep");
    system.disk("ata1/block", "sda", "8:0", BFQ);
    let group = "sys/fs/cgroup/machine.slice";
    system.write(&format!("{group}/cgroup.subtree_control"), "io");
    for name in ["", "/libpod-conmon-dead01.scope", "/libpod-dead01.scope", "/libpod-dead01.scope/container"]
    {
        system.write(&format!("{group}{name}/cgroup.procs"), "");
    }
    system.write(&format!("{group}/libpod-dead01.scope/io.stat"), "8:0 rbytes=1");
    system.write(&format!("{group}/libpod-dead01.scope/container/io.bfq.weight"), "default 500");
    let found = system.examined("dead01");
    assert!(
        found[0].what.starts_with(
            "the weight is set for machine.slice/libpod-dead01.scope/container, which has no siblings"
        ),
        "{found:?}"
    );
    system.write(&format!("{group}/libpod-dead01.scope/io.bfq.weight"), "default 500");
    assert_eq!(system.links("dead01", Level::Problem), [""; 0]);
}

/// `systemd-run` and `systemctl set-property` write to directories of their own.
#[test]
fn the_last_setting_of_a_unit_counts() {
    let system = System::new("precedence");
    system.disk("ata1/block", "sda", "8:0", NONE);
    system.unit("IOSchedulingClass=idle\nIODeviceLatencyTargetSec=/ 25ms");
    system.write("etc/systemd/system/db.service.d/10-io.conf", "[Service]\nIODeviceLatencyTargetSec=");
    system.write("etc/systemd/system.control/db.service.d/50-IOWeight.conf", "[Service]\nIOWeight=300");
    let words = system.examined("db.service").iter().map(|of| of.what.clone() + "\n").collect::<String>();
    assert!(words.contains("its weight has no effect on sda"), "{words}");
    assert!(words.contains("IOSchedulingClass=idle has no effect"), "{words}");
    assert!(!words.contains("io.latency"), "it is reset: {words}");
    system.write("run/systemd/transient/db.service", "[Service]\nIOWeight=200");
    let words = system.examined("db.service").iter().map(|of| of.what.clone()).collect::<String>();
    assert!(!words.contains("IOSchedulingClass"), "another file of the unit counts: {words}");
}

/// Of a unit on device mapper the kernel counts the requests for the disk as well.
#[test]
fn a_unit_on_a_mapped_device_has_one_path() {
    let system = System::new("mapped");
    system.disk("ata1/block", "sda", "8:0", NONE);
    system.disk("virtual/block", "dm-0", "254:0", "none");
    system.write("sys/devices/virtual/block/dm-0/dm/name", "group-data");
    system.write("sys/devices/virtual/block/dm-0/dm/uuid", "LVM-1");
    fs::create_dir_all(system.0.join("sys/devices/virtual/block/dm-0/slaves")).unwrap();
    symlink("../../../../ata1/block/sda", system.0.join("sys/devices/virtual/block/dm-0/slaves/sda"))
        .unwrap();
    system.write("proc/self/mountinfo", "36 35 254:0 / /srv rw - ext4 /dev/dm-0 rw");
    system.unit("IOWeight=500");
    system.write(
        "sys/fs/cgroup/system.slice/db.service/io.stat",
        "254:0 rbytes=1 wbytes=2\n8:0 rbytes=1 wbytes=2",
    );
    let examined =
        examine(&Roots::at(&system.0), Some("db.service"), &|_| None).map_err(|e| e.to_string()).unwrap();
    let paths: Vec<&str> = examined.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    assert!(
        paths[0].starts_with("cgroup system.slice/db.service > /srv (ext4) > dm-0")
            && paths[0].ends_with("sda (none)"),
        "{paths:?}"
    );
}

#[test]
fn a_missing_io_latency_is_reported() {
    let system = System::new("latency");
    system.disk("ata1/block", "sda", "8:0", BFQ);
    system.unit("IODeviceLatencyTargetSec=/ 25ms");
    assert_eq!(system.links("db.service", Level::Problem), ["latency"]);
    let file = "sys/fs/cgroup/system.slice/db.service/io.latency";
    system.write(file, "8:0 target=25000");
    assert_eq!(system.links("db.service", Level::Problem), [""; 0]);
    system.write(file, "");
    let found = system.of_link("latency", "IODeviceLatencyTargetSec=/ 25ms");
    assert!(found[0].1.contains("is not applied: io.latency of system.slice/db.service has no latency"));
}

const UNIT: &str = "/usr/lib/systemd/system/db.service";

#[test]
fn a_limit_for_a_device_that_is_absent_or_not_used_is_reported() {
    let system = System::new("limit-device");
    system.disk("ata1/block", "sda", "8:0", NONE);
    system.disk("ata2/block", "sdb", "8:16", NONE);
    system.write("sys/fs/cgroup/system.slice/db.service/io.max", "");
    for key in ["IOReadBandwidthMax", "IOWriteBandwidthMax", "IOReadIOPSMax", "IOWriteIOPSMax"] {
        let found = system.of_link("limit", &format!("{key}=/dev/nosuch 5M"));
        let expected = format!(
            "{UNIT}: {key}=/dev/nosuch 5M has no effect: /dev/nosuch: there is no such device or file; 'lsblk -p' lists the devices"
        );
        assert_eq!(found, [(Level::Problem, expected, "write /dev/sda instead of /dev/nosuch".to_owned())]);
        let found = system.of_link("limit", &format!("{key}=/other 5M"));
        let expected = format!(
            "{UNIT}: {key}=/other 5M has no effect on sda: it is for sdb, which system.slice/db.service has not used since it started"
        );
        assert_eq!(found, [(Level::Problem, expected, "write /dev/sda instead of /other".to_owned())]);
    }
    // Regression: a second value was read as part of the path.
    for (setting, value) in
        [("/dev/sda 5M 6M", "5M 6M"), ("\"/dev/sda\" fast", "fast"), ("/dev/sda 5M 1G", "5M 1G")]
    {
        let expected = format!("{UNIT}: systemd ignores IOReadBandwidthMax={setting}: '{value}' is no limit");
        let fix = "write one value, such as 5M or infinity".to_owned();
        let found = system.of_link("limit", &format!("IOReadBandwidthMax={setting}"));
        assert_eq!(found, [(Level::Problem, expected, fix)]);
    }
    // Regression: the remedy for a line that is not for this device was a copy of the line that is.
    let both = "IOReadBandwidthMax=/srv 5M\nIOReadBandwidthMax=/other 5M";
    let fixes: Vec<String> = system.of_link("limit", both).into_iter().map(|(.., fix)| fix).collect();
    assert!(fixes.contains(&"remove it, if /srv is the only device of the unit".to_owned()), "{fixes:?}");
    // It removes a limit; the directory of a specifier is unknown.
    let without = "IOWriteBandwidthMax=/dev/nosuch infinity\nIOReadBandwidthMax=%h 5M";
    assert_eq!(system.of_link("limit", without), []);
    // The unit used both disks: each limit is compared for its own.
    system.unit("IOWriteBandwidthMax=/other 5M");
    system.write("sys/fs/cgroup/system.slice/db.service/io.stat", "8:0 rbytes=1\n8:16 rbytes=1");
    let home = |file: &Path| (file == Path::new("/other")).then_some((8, 16));
    let both = examine(&Roots::at(&system.0), Some("db.service"), &home).unwrap();
    let limits = |one: &Examined| one.findings.iter().filter(|one| one.link == "limit").count();
    assert_eq!(both.iter().map(limits).collect::<Vec<_>>(), [0, 1]);
}

/// Regression: the section of a line was not read, and misspelt names and values had no finding.
#[test]
fn lines_that_systemd_ignores_are_reported() {
    let system = System::new("ignored");
    system.disk("ata1/block", "sda", "8:0", BFQ);
    system.write("sys/fs/cgroup/system.slice/db.service/io.bfq.weight", "default 100");
    let found = |file: &str| {
        system.unit("");
        system.write("usr/lib/systemd/system/db.service", file);
        let found = system.examined("db.service").into_iter().filter(|one| one.level == Level::Problem);
        found.map(|one| (one.link, one.what, one.fix)).collect::<Vec<_>>()
    };
    for (file, line, cause, fix) in [
        ("[Unit]\nIOWeight=500", "IOWeight=500", "it is in [Unit]", "write it below [Service]"),
        ("[service]\nIOWeight=500", "IOWeight=500", "it is in [service]", "write it below [Service]"),
        ("IOWeight=500", "IOWeight=500", "it is in no section", "write it below [Service]"),
        (
            "[Service]\nIOWieght=500",
            "IOWieght=500",
            "it has no such setting",
            "systemd.resource-control(5) and systemd.exec(5) have all names; did you mean 'IOWeight'?",
        ),
        (
            "[Service]\nIOReadBandwidthMax=5M",
            "IOReadBandwidthMax=5M",
            "it needs a device and a value",
            "write a device and a value, such as IOReadBandwidthMax=/dev/sda 5M",
        ),
        (
            "[Service]\nIOReadIOPSMax=/dev/sda",
            "IOReadIOPSMax=/dev/sda",
            "it needs a device and a value",
            "write a device and a value, such as IOReadIOPSMax=/dev/sda 1000",
        ),
        (
            "[Service]\nIODeviceWeight=sda 200",
            "IODeviceWeight=sda 200",
            "'sda' is no absolute path",
            "write /dev/sda, if that is the device",
        ),
        (
            "[Service]\nIOSchedulingClass=besteffort",
            "IOSchedulingClass=besteffort",
            "there is no class 'besteffort'",
            "write realtime, best-effort or idle; did you mean 'best-effort'?",
        ),
        (
            "[Service]\nIOSchedulingPriority=8",
            "IOSchedulingPriority=8",
            "'8' is no priority",
            "write a number from 0 (the highest) to 7",
        ),
        (
            "[Service]\nIOWeight=20000",
            "IOWeight=20000",
            "'20000' is no weight",
            "write a number from 1 to 10000",
        ),
    ] {
        let found = found(file);
        let expected = format!("{UNIT}: systemd ignores {line}: {cause}");
        assert!(found.len() == 1 && found[0].1 == expected && found[0].2 == fix, "{file}: {found:?}");
    }
    // Regression: percents were read as specifiers, and some values that systemd rejects as limits.
    for (line, cause) in [
        ("IOWeight=50%", "'50%' is no weight"),
        ("IODeviceWeight=/srv 50%", "'50%' is no weight"),
        ("IOReadBandwidthMax=/srv 5%", "'5%' is no limit"),
        ("IOReadBandwidthMax=/srv 5MB", "'5MB' is no limit"),
        ("IOReadBandwidthMax=/srv 0", "'0' is no limit"),
        ("IOReadBandwidthMax=/srv -5", "'-5' is no limit"),
        ("IODeviceLatencyTargetSec=/srv 25mx", "'25mx' is no time"),
        ("IODeviceLatencyTargetSec=/srv abc", "'abc' is no time"),
    ] {
        let found = found(&format!("[Service]\n{line}"));
        let expected = format!("{UNIT}: systemd ignores {line}: {cause}");
        assert!(found.len() == 1 && found[0].1 == expected, "{line}: {found:?}");
    }
    // An ignored line replaces no earlier one.
    let both = found("[Service]\nIOSchedulingClass=idle\nIOSchedulingClass=idel");
    assert!(both.len() == 1 && both[0].0 == "ionice", "{both:?}");
    for fits in
        ["[X-Other]\nIOWeight=0", "[Service]\n#IOWieght=1\nIOSchedulingClass=2\nIOSchedulingPriority=7"]
    {
        assert_eq!(found(fits), [], "{fits}");
    }
}

/// Regression: a line that continues another was read as a setting, and the backslash as a value.
#[test]
fn continued_lines_are_joined() {
    let system = System::new("continued");
    system.disk("ata1/block", "sda", "8:0", BFQ);
    let group = "sys/fs/cgroup/system.slice/db.service";
    system.write(&format!("{group}/io.bfq.weight"), "default 100");
    system.write(&format!("{group}/io.max"), "8:0 rbps=5000000 wbps=max riops=max wiops=max");
    let problems = |settings: &str| {
        system.unit(settings);
        let found = system.examined("db.service").into_iter().filter(|one| one.level == Level::Problem);
        found.map(|one| one.what).collect::<Vec<_>>()
    };
    for fits in [
        "Environment=FOO=1 \\\n    IO_THREADS=4",
        "ExecStart=/usr/bin/env \\\n# IOPOLL=3 \\\n  ; IOPOLL=3\n  IOPOLL=4 \\\n  IOSchedulingClass=idel \\\n  /bin/true",
        "IOReadBandwidthMax=/srv \\\n  5M",
        "IOReadBandwidthMax=/srv \\\r\n  5M\r",
        "IOWeight=\\\n 100",
        "IOWeight=100\\",
    ] {
        assert_eq!(problems(fits), [""; 0], "{fits}");
    }
    let found = problems("IOWeight=\\\n# comment\n 0");
    assert!(found.len() == 1 && found[0].contains("'0' is no weight"), "{found:?}");
    // A backslash that is escaped ends the line.
    let found = problems("Environment=A=\\\\\nIOWieght=5");
    assert!(found.len() == 1 && found[0].contains("systemd ignores IOWieght=5"), "{found:?}");
    system.unit("IOReadBandwidthMax=/srv \\\n  5M");
    let found = system.examined("db.service");
    let note = found.iter().find(|one| one.link == "limit").unwrap();
    assert_eq!(note.fix, "'systemctl set-property db.service IOReadBandwidthMax=' removes the limit");
}

#[test]
fn a_limit_is_compared_with_io_max() {
    let system = System::new("limit-applied");
    system.disk("ata1/block", "sda", "8:0", NONE);
    system.write("sys/devices/ata1/block/sda/sda1/dev", "8:1");
    system.write("sys/devices/ata1/block/sda/sda1/partition", "1");
    symlink(system.0.join("sys/devices/ata1/block/sda/sda1"), system.0.join("sys/dev/block/8:1")).unwrap();
    let group = "sys/fs/cgroup/system.slice/db.service";
    let limit = "IOWriteBandwidthMax=/part 1.5M";
    let found = system.of_link("limit", limit);
    assert!(found[0].1.ends_with("has no effect: this kernel has no io.max (CONFIG_BLK_DEV_THROTTLING)"));
    let not_applied = |has: &str| {
        let what =
            format!("{UNIT}: {limit} is not applied: io.max of system.slice/db.service has {has} for sda");
        let fix =
            "systemctl daemon-reload; if io.max remains so, 'journalctl -b _PID=1' has systemd's reason";
        (Level::Problem, what, fix.to_owned())
    };
    for others in [
        "",
        "8:16 rbps=max wbps=1500000 riops=max wiops=max",
        "8:0 rbps=1500000 wbps=max riops=max wiops=max",
    ] {
        system.write(&format!("{group}/io.max"), others);
        assert_eq!(system.of_link("limit", limit)[0], not_applied("no limit"));
    }
    system.write(&format!("{group}/io.max"), "8:0 rbps=max wbps=5000000 riops=max wiops=max");
    assert_eq!(system.of_link("limit", limit)[0], not_applied("wbps=5000000"));
    // In effect, with one for reads that no file of the unit has, and one of the slice.
    system.write(&format!("{group}/io.max"), "8:0 rbps=max wbps=1500000 riops=120 wiops=max");
    system.write("sys/fs/cgroup/system.slice/io.max", "8:0 rbps=max wbps=max riops=max wiops=900");
    let stated = |what: &str, fix: &str| (Level::Note, what.to_owned(), fix.to_owned());
    let expected = [
        stated(
            "system.slice: write requests on sda are limited to 900/s (wiops=900 in io.max)",
            "echo '8:0 wiops=max' > /sys/fs/cgroup/system.slice/io.max removes the limit",
        ),
        stated(
            "system.slice/db.service: writes on sda are limited to 1.50 MB/s (wbps=1500000 in io.max)",
            "'systemctl set-property db.service IOWriteBandwidthMax=' removes the limit",
        ),
        stated(
            "system.slice/db.service: read requests on sda are limited to 120/s (riops=120 in io.max)",
            "echo '8:0 riops=max' > /sys/fs/cgroup/system.slice/db.service/io.max removes the limit",
        ),
    ];
    assert_eq!(system.of_link("limit", limit), expected);
    // Regression: a blank before the suffix.
    assert_eq!(system.of_link("limit", "IOWriteBandwidthMax=/part 1.5 M"), expected);
    let roots = Roots::at(&system.0);
    let examined = examine(&roots, Some("db.service"), &|_| None).unwrap();
    let file = system.0.join(group).join("io.max").display().to_string();
    assert_eq!(bundle(&roots, &examined)["files"][file], "8:0 rbps=max wbps=1500000 riops=120 wiops=max");
    // The last value for a path counts.
    assert_eq!(system.of_link("limit", &format!("IOWriteBandwidthMax=/part 9M\n{limit}")), expected);
    // Without the controller one finding has all settings.
    system.unit(limit);
    system.write("sys/fs/cgroup/system.slice/cgroup.subtree_control", "cpu");
    fs::remove_file(system.0.join(group).join("io.max")).unwrap();
    let found = system.examined("db.service");
    let limits = found.iter().filter(|one| one.link == "limit" && one.level == Level::Problem);
    assert_eq!(limits.count(), 0, "{found:?}");
}

/// Regression: a limit for a device that was not used made it one of the unit's.
#[test]
fn a_device_without_requests_is_not_used() {
    let system = System::new("limit-unused");
    system.disk("ata1/block", "sda", "8:0", NONE);
    system.disk("ata2/block", "sdb", "8:16", NONE);
    system.write(
        "sys/fs/cgroup/system.slice/db.service/io.max",
        "8:16 rbps=max wbps=5000000 riops=max wiops=max",
    );
    for stat in ["8:16 8:0 rbytes=1 wbytes=0", "8:16 \n8:0 rios=1", "8:16 rbytes=0 wbytes=0\n8:0 dbytes=4096"]
    {
        system.unit("IOWriteBandwidthMax=/other 5M");
        system.write("sys/fs/cgroup/system.slice/db.service/io.stat", stat);
        let home = |file: &Path| (file == Path::new("/other")).then_some((8, 16));
        let examined = examine(&Roots::at(&system.0), Some("db.service"), &home).unwrap();
        let paths: Vec<&str> = examined.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["cgroup system.slice/db.service > sda (none)"], "{stat}");
        let what = &examined[0].findings[0].what;
        assert!(what.contains("has no effect on sda: it is for sdb"), "{what}");
    }
}

/// systemd sets the limit of a file on LVM for the disk below.
#[test]
fn a_limit_for_a_mapped_device_is_that_of_its_disk() {
    let system = System::new("limit-mapped");
    system.disk("ata1/block", "sda", "8:0", NONE);
    system.disk("virtual/block", "dm-0", "254:0", "none");
    system.write("sys/devices/virtual/block/dm-0/dm/uuid", "LVM-1");
    fs::create_dir_all(system.0.join("sys/devices/virtual/block/dm-0/slaves")).unwrap();
    symlink("../../../../ata1/block/sda", system.0.join("sys/devices/virtual/block/dm-0/slaves/sda"))
        .unwrap();
    system.unit("IOWriteIOPSMax=/volume 100");
    let group = "sys/fs/cgroup/system.slice/db.service";
    system.write(&format!("{group}/io.stat"), "254:0 rbytes=1\n8:0 rbytes=1");
    let home = |file: &Path| (file == Path::new("/volume")).then_some((254, 0));
    for (text, level) in
        [("", Level::Problem), ("8:0 wiops=100", Level::Note), ("254:0 wiops=100", Level::Note)]
    {
        system.write(&format!("{group}/io.max"), text);
        let found = examine(&Roots::at(&system.0), Some("db.service"), &home).unwrap().remove(0).findings;
        let limits: Vec<_> = found.iter().filter(|one| one.link == "limit").map(|one| one.level).collect();
        assert_eq!(limits, [level], "{found:?}");
    }
}

/// As in systemd#34219.
#[test]
fn a_weight_that_the_group_does_not_have_is_reported() {
    let system = System::new("weight-applied");
    system.disk("ata1/block", "sda", "8:0", NONE);
    system.disk("ata2/block", "sdb", "8:16", NONE);
    system.write("sys/fs/cgroup/io.cost.qos", "8:0 enable=1 ctrl=auto");
    let file = "sys/fs/cgroup/system.slice/db.service/io.weight";
    let what = |settings: &str, contents: &str| {
        system.write(file, contents);
        let found = system.of_link("weight", settings);
        found.into_iter().map(|(_, what, _)| what.replace(&format!("{UNIT}: "), "")).collect::<Vec<_>>()
    };
    let of_group = "is not applied: io.weight of system.slice/db.service has";
    assert_eq!(what("IOWeight=300", "default 100"), [format!("IOWeight=300 {of_group} default 100")]);
    assert_eq!(
        what("IOWeight=300", "default 200\n8:0 300"),
        [format!("IOWeight=300 {of_group} default 200")]
    );
    // Regression: the other bases of systemd, and a sign, were no weight or another one.
    for same in ["IOWeight=300", "IOWeight=+300", "IOWeight=0x12c", "IOWeight=0454"] {
        assert_eq!(what(same, "default 300"), [""; 0], "{same}");
    }
    assert_eq!(what("IODeviceWeight=/srv 0x12c", "default 100\n8:0 300"), [""; 0]);
    let device = "IODeviceWeight=/srv 300";
    assert_eq!(what(device, "default 100"), [format!("{device} {of_group} no weight for sda")]);
    assert_eq!(what(device, "default 100\n8:0 200"), [format!("{device} {of_group} 200 for sda")]);
    assert_eq!(what(device, "default 100\n8:0 300"), [""; 0]);
    let found = what("IODeviceWeight=/dev/nosuch 200", "default 100");
    assert!(found[0].starts_with("IODeviceWeight=/dev/nosuch 200 has no effect: /dev/nosuch"), "{found:?}");
    let found = what("IODeviceWeight=/other 200", "default 100\n8:16 200");
    assert!(found[0].contains("has no effect on sda: it is for sdb"), "{found:?}");
    // Of bfq, systemd converts the value.
    system.write("sys/devices/ata1/block/sda/queue/scheduler", BFQ);
    let bfq = "sys/fs/cgroup/system.slice/db.service/io.bfq.weight";
    system.write(bfq, "default 100");
    for settings in [device, "IOWeight=300"] {
        let found = what(settings, "default 100");
        assert!(found.len() == 1 && found[0].contains("not in io.bfq.weight"), "{found:?}");
    }
    // Regression: the default is in effect.
    for settings in [
        "IOWeight=100",
        "IOWeight=+100",
        "IOWeight=0x64",
        "IOWeight=300\nIOWeight=100",
        "IODeviceWeight=/srv 100",
    ] {
        assert_eq!(what(settings, "default 100"), [""; 0], "{settings}");
    }
    system.write(bfq, "default 118");
    assert_eq!(what("IOWeight=300", "default 100"), [""; 0]);
    let not_of_sda = "is not applied: io.bfq.weight of system.slice/db.service has no weight for sda";
    assert_eq!(what(device, "default 100"), [format!("{device} {not_of_sda}")]);
    system.write(bfq, "default 100\n8:0 118");
    assert_eq!(what(device, "default 100"), [""; 0]);
}

/// Regression: the remedies named files of the tree of version 1.
#[test]
fn remedies_name_the_tree_of_version_2() {
    let system = System::new("hybrid");
    system.disk("ata1/block", "sda", "8:0", NONE);
    system.unit("IOWeight=300");
    fs::rename(system.0.join("sys/fs/cgroup"), system.0.join("sys/fs/unified")).unwrap();
    fs::create_dir(system.0.join("sys/fs/cgroup")).unwrap();
    fs::rename(system.0.join("sys/fs/unified"), system.0.join("sys/fs/cgroup/unified")).unwrap();
    assert!(system.examined("db.service")[0].fix.ends_with("> /sys/fs/cgroup/unified/io.cost.qos"));
    system.write("sys/devices/ata1/block/sda/queue/scheduler", BFQ);
    let fix = system.examined("db.service")[0].fix.clone();
    assert!(fix.contains("> /sys/fs/cgroup/unified/system.slice/db.service/io.bfq.weight"), "{fix}");
}

#[test]
fn writeback_and_boot_options_are_reported() {
    let system = System::new("writeback");
    system.disk("ata1/block", "sda", "8:0", "none [mq-deadline]");
    system.write("sys/devices/ata1/block/sda/queue/wbt_lat_usec", "0");
    system.write("proc/cmdline", "quiet elevator=deadline");
    system.write("proc/self/mountinfo", "36 35 8:0 / /srv rw - vfat /dev/sda rw");
    assert_eq!(system.links("sda", Level::Warning), ["scheduler", "writeback"]);
    system.unit("");
    assert!(system.examined("db.service").iter().any(|finding| finding.what.starts_with("/srv is vfat")));
}

/// Regression: mounts of one file system looked like a stack of several.
#[test]
fn a_file_system_is_named_once_and_partitions_beside_each_other() {
    let system = System::new("mounts");
    system.disk("ata1/block", "sda", "8:0", "none [mq-deadline]");
    let mounts = "40 35 8:0 /netns /run/netns rw - ext4 /dev/sda rw\n36 35 8:0 / /srv rw - ext4 /dev/sda rw\n\
                  41 35 8:0 / /data rw - ext4 /dev/sda rw\n42 35 8:0 /a /srv rw - ext4 /dev/sda rw\n\
                  43 35 8:0 /b /x rw - ext4 /dev/sda rw\n44 35 8:0 /c /y rw - ext4 /dev/sda rw";
    system.write("proc/self/mountinfo", mounts);
    let path = || {
        let examined = examine(&Roots::at(&system.0), Some("sda"), &|_| None);
        examined.map_err(|error| error.to_string()).unwrap().remove(0).path
    };
    assert_eq!(path(), "/srv (ext4, also at /data, /run/netns, /x and 1 more) > sda (mq-deadline)");
    for (name, number) in [("sda1", "8:1"), ("sda2", "8:2")] {
        let directory = format!("sys/devices/ata1/block/sda/{name}");
        system.write(&format!("{directory}/dev"), number);
        system.write(&format!("{directory}/partition"), &name[3..]);
        symlink(system.0.join(&directory), system.0.join("sys/dev/block").join(number)).unwrap();
    }
    let of_partitions = "36 35 8:2 / / rw - ext4 /dev/sda2 rw\n37 36 8:1 / /boot rw - vfat /dev/sda1 rw";
    system.write("proc/self/mountinfo", of_partitions);
    assert_eq!(path(), "{/ (ext4), /boot (vfat)} > sda (mq-deadline)");
}

#[test]
fn a_running_tuner_explains_another_scheduler_than_the_rules() {
    let system = System::new("tuned");
    system.disk("ata1/block", "sda", "8:0", "none [mq-deadline] bfq");
    system.write("etc/udev/rules.d/90-io.rules", "KERNEL==\"sda\", ATTR{queue/scheduler}=\"bfq\"");
    assert_eq!(system.links("sda", Level::Problem), ["udev"]);
    let (pid, started) = capture::this_process();
    let status = |dry_run| Status {
        device: "sda".to_owned(),
        pid,
        started,
        dry_run,
        current: "mq-deadline".to_owned(),
        before: "bfq".to_owned(),
        ..Status::default()
    };
    tuner_live::status::write(&system.0.join("run/dwell"), &status(true)).unwrap();
    assert_eq!(system.links("sda", Level::Problem), ["udev"], "a dry run changes nothing");
    tuner_live::status::write(&system.0.join("run/dwell"), &status(false)).unwrap();
    assert_eq!(system.links("sda", Level::Problem), [""; 0]);
    let found = system.examined("sda");
    let expected = format!(
        "sda: process {pid} ('dwell tune') chooses the scheduler, at present mq-deadline; before: bfq"
    );
    assert!(found.iter().any(|finding| finding.what == expected), "{found:?}");
}

#[test]
fn settings_of_a_killed_tuner_are_reported() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let system = System::new("killed");
    system.disk("ata1/block", "sda", "8:0", "none [mq-deadline] bfq");
    let inode = fs::metadata(system.0.join("sys/block/sda/queue")).unwrap().ino();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let record = serde_json::json!({
        "pid": 1, "started": 1, "boot": boot.trim(), "device": "sda", "inode": inode,
        "before": [["scheduler", "none"]], "set": {"scheduler": ["mq-deadline"]}
    });
    system.write("run/dwell/tune/sda.json", &record.to_string());
    let private = |path: &str, mode| {
        fs::set_permissions(system.0.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    private("run/dwell/tune", 0o700);
    private("run/dwell/tune/sda.json", 0o600);
    let found = system.examined("sda");
    assert!(
        found[0].level == Level::Problem
            && found[0]
                .what
                .starts_with("sda: process 1 changed its settings and was killed; before: scheduler=none"),
        "{found:?}"
    );
    system.write("sys/devices/ata1/block/sda/queue/scheduler", NONE);
    assert_eq!(system.links("sda", Level::Problem), [""; 0], "it is as before");
    // Regression: a damaged file was ignored.
    system.write("run/dwell/tune/sda.json", "{\"pid\": 1, ");
    let found = system.examined("sda");
    let path = system.0.join("run/dwell/tune/sda.json").display().to_string();
    assert!(found[0].what.starts_with(&format!("{path}: is damaged")), "{found:?}");
    assert!(found[0].fix.ends_with(&format!("; then rm {path}")), "{found:?}");
}

#[test]
fn a_container_is_found_by_its_identifier() {
    let system = System::new("container");
    system.disk("ata1/block", "sda", "8:0", BFQ);
    let group = "sys/fs/cgroup/machine.slice";
    system.write(&format!("{group}/cgroup.procs"), "");
    system.write(&format!("{group}/cgroup.subtree_control"), "io");
    system.write(&format!("{group}/docker-0123456789ab.scope/cgroup.procs"), "7");
    let stat = format!("{group}/docker-0123456789ab.scope/io.stat");
    system.write(&stat, "8:0 rbytes=1");
    let path =
        |target| examine(&Roots::at(&system.0), Some(target), &|_| None).map(|found| found[0].path.clone());
    assert_eq!(path("012345").unwrap(), "cgroup machine.slice/docker-0123456789ab.scope > sda (bfq)");
    assert!(path("01234").unwrap_err().to_string().contains("at least six digits"));
    system.write(&stat, "");
    assert!(path("012345").unwrap_err().to_string().contains("used no device"));
    // Without the io controller: by its open files, or by what version 1 counted.
    system.write(&format!("{group}/docker-0123456789ab.scope/cgroup.procs"), "7");
    system.write("proc/7/fdinfo/3", "pos:\t0\nflags:\t0100002\nmnt_id:\t36\n");
    system.write(
        "proc/7/mountinfo",
        "22 1 0:5 / /proc rw - proc proc rw\n36 35 8:0 / /srv rw - ext4 /dev/sda rw",
    );
    assert_eq!(path("012345").unwrap(), "cgroup machine.slice/docker-0123456789ab.scope > sda (bfq)");
    system.write("proc/7/fdinfo/3", "mnt_id:\t22\n");
    assert!(path("012345").is_err(), "a file system without a device");
    let counted = "8:0 Read 4096\n8:0 Write 0\nTotal 4096";
    let of_version_1 = "sys/fs/cgroup/blkio/machine.slice/docker-0123456789ab.scope";
    system.write(&format!("{of_version_1}/blkio.throttle.io_service_bytes"), counted);
    assert_eq!(path("012345").unwrap(), "cgroup machine.slice/docker-0123456789ab.scope > sda (bfq)");
}

#[test]
fn a_bundle_has_the_files_that_were_read() {
    let system = System::new("bundle");
    system.disk("ata1/block", "sda", "8:0", NONE);
    let roots = Roots::at(&system.0);
    let examined = examine(&roots, None, &|_| None).unwrap();
    let bundle = bundle(&roots, &examined);
    let file = system.0.join("sys/block/sda/queue/wbt_lat_usec").display().to_string();
    assert_eq!(bundle["files"][file], "75000");
    assert_eq!(bundle["examined"][0]["findings"][0]["link"], "ionice");
}

/// Regression: only the disk below was examined.
#[test]
fn every_queue_of_the_chain_is_examined() {
    let system = System::new("chain");
    system.disk("ata1/block", "sda", "8:0", "none [mq-deadline] bfq");
    system.disk("virtual/block", "loop7", "7:7", NONE);
    system.write("sys/devices/virtual/block/loop7/loop/backing_file", "/srv/disk.img");
    system.write("etc/udev/rules.d/60-io.rules", "KERNEL==\"loop7\", ATTR{queue/scheduler}=\"bfq\"");
    let examine = || {
        let found = examine(&Roots::at(&system.0), Some("/dev/loop7"), &|_| Some((8, 0)));
        found.map_err(|error| error.to_string()).unwrap().remove(0)
    };
    let one = examine();
    assert_eq!(one.path, "loop7 (none) > sda (mq-deadline)");
    let names: Vec<&str> =
        one.settings.lines().map(|line| line.split(':').next().unwrap_or_default()).collect();
    assert_eq!(names, ["loop7", "sda"]);
    let rule = "/etc/udev/rules.d/60-io.rules:1 sets bfq for loop7, which has none";
    assert!(one.findings[0].what.starts_with(rule), "{:?}", one.findings);
    let whats = |one: &Examined| {
        one.findings.iter().map(|finding| finding.what.clone()).collect::<Vec<_>>().join("\n")
    };
    assert!(
        !whats(&one).contains("both order") && !whats(&one).contains("ignores ionice"),
        "{}",
        whats(&one)
    );
    system.write("sys/devices/virtual/block/loop7/queue/scheduler", BFQ);
    let both = "loop7 has bfq and sda below it has mq-deadline: both order the same requests";
    assert!(whats(&examine()).contains(both), "{}", whats(&examine()));
}
