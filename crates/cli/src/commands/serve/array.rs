//! `dwell serve --member … --array …`.

use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use disks::array::{Arrangement, Layout};
use elevator::Sectors;
use elevator::text::counted;
use schedulers::registry::Catalogue;
use server::array::{
    Array, ArrayConfiguration, ArrayServer, Found, find, identifier, is_array, kernel_name, misplaced,
    refuse_old, run_array,
};
use server::{AttachOptions, Configuration, Report, ServeError, supervisor};

use super::environment::DeviceEnvironment;
use super::{ServeArguments, configuration_for, failed, in_words, not_supervised};
use crate::error::Error;
use crate::input::quantity::size;
use crate::input::scheduler_arg;
use crate::service_manager;
use evaluation::device::Device;
use evaluation::report::format::object;
use server::say;

/// Below it a single request of a resynchronisation could wait longer than the kernel's limit for hung tasks.
const LEAST_RATE: u64 = 64_000;

/// Where the layout comes from.
enum Origin {
    Given(Arrangement, Sectors),
    /// md's device, which need not exist yet.
    Md(PathBuf),
}

pub(super) fn run(arguments: &ServeArguments, layout: &str, catalogue: Catalogue) -> Result<(), Error> {
    let origin = origin(layout)?;
    let members = u32::try_from(arguments.member.len()).unwrap_or(u32::MAX);
    refuse_twice(&arguments.member)?;
    if arguments.causes {
        return Err(Error::Usage("--causes observes one device, and an array has several".to_owned()));
    }
    let given = scheduler_arg::without_split_hooks(scheduler_arg::spec(catalogue, &arguments.scheduler)?)?;
    let spec = scheduler_arg::coordinated(catalogue, &given)?.unwrap_or(given);
    let device = arguments.drive.as_deref().map(Device::open).transpose()?;
    // Of the first member: the coordinator has one set of service times for all.
    let first = arguments.member.first().map(PathBuf::as_path);
    let environment =
        DeviceEnvironment::of(arguments.profile.as_deref(), device.as_ref(), first)?.environment;
    let wrong = |error: schedulers::SpecError| Error::Usage(error.to_string());
    let coordinator = spec.build_coordinator(&environment, members).map_err(wrong)?;
    let schedulers = move |name: &str| {
        let words = |error: Error| error.to_string();
        let given = scheduler_arg::for_member(catalogue, name).map_err(words)?;
        let coordinated = scheduler_arg::coordinated(catalogue, &given).map_err(words)?;
        let spec = coordinated.as_ref().unwrap_or(&given);
        let coordinator = spec.build_coordinator(&environment, members).map_err(|error| error.to_string())?;
        Ok((coordinated.as_ref().map_or_else(|| name.to_owned(), ToString::to_string), coordinator))
    };
    let background = size(&arguments.background_rate)?;
    if background < LEAST_RATE {
        return Err(Error::Usage(format!(
            "--background-rate {}: the least rate is 64k; md's requests would wait for minutes",
            arguments.background_rate
        )));
    }
    let is_coordinated = coordinator.is_some();
    let array = Array::new(coordinator, members, arguments.speed, background);
    let md = match origin {
        Origin::Given(arrangement, unit) => {
            let layout = Layout::new(arrangement, members, unit, 0, u64::MAX / 2)
                .map_err(|error| Error::Usage(format!("--array {layout}: {error}")))?;
            // Behind md's superblock, if there is one: the rotation of parity begins with the data.
            let layout = data_of(&arguments.member, layout)?;
            array.set_layout(layout).map_err(|error| failed(&error))?;
            None
        }
        Origin::Md(device) => {
            check_array(&device, &arguments.member)?;
            Some(device)
        }
    };
    let attached = arguments.attach && !arguments.discard_data;
    if attached {
        // Reads every input file, also for the servers that a supervisor starts later.
        for (index, source) in (0..).zip(&arguments.member) {
            configured(arguments, index, Some(source), &spec.to_string(), catalogue)?;
        }
        let runtime = AttachOptions::default().runtime;
        if let Some(code) = supervisor::supervise(&runtime).map_err(not_supervised)? {
            std::process::exit(code);
        }
    }
    let arguments = arguments.clone();
    let what = format!(
        "{members} members of an array under {spec}{}",
        if is_coordinated {
            ""
        } else {
            ", not coordinated: stream(...) and dwell are, such as --scheduler 'stream(deadline)'"
        }
    );
    let json = arguments.json;
    let sources = arguments.member.iter().cloned().map(Some).collect();
    let control = arguments.control.clone();
    let scheduler = spec.to_string();
    let member = move |index: u32, source: Option<&Path>| {
        member(&arguments, index, source, &scheduler, catalogue)
            .map_err(|error| ServeError::Configuration(error.to_string()))
    };
    let runtime = attached.then(|| AttachOptions::default().runtime);
    let (member, schedulers) = (Box::new(member), Box::new(schedulers));
    let configuration = ArrayConfiguration { array, sources, member, schedulers, md, control, runtime };
    let reports =
        run_array(configuration, |server| announce(server, &what, json)).map_err(|error| failed(&error))?;
    print(&reports, json)
}

/// Rejects one file or device as two members, also under two names.
fn refuse_twice(members: &[PathBuf]) -> Result<(), Error> {
    // By the node, as a disk has several, and a file several names.
    let nodes: Vec<_> = members.iter().map(|path| std::fs::metadata(path).ok()).collect();
    let is_same = |first: usize, second: usize| match (&nodes[first], &nodes[second]) {
        (Some(a), Some(b)) if a.file_type().is_block_device() && b.file_type().is_block_device() => {
            a.rdev() == b.rdev()
        }
        (Some(a), Some(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => members[first] == members[second],
    };
    for (second, member) in members.iter().enumerate() {
        if let Some(first) = (0..second).find(|&first| is_same(first, second)) {
            return Err(Error::Usage(format!(
                "--member {}: members {first} and {second} are the same; name each device once",
                member.display()
            )));
        }
    }
    Ok(())
}

fn announce(server: &ArrayServer, what: &str, json: bool) {
    for (device, addresses) in server.members() {
        let device = device.filter(|_| !server.is_resumed()).map(|path| path.display().to_string());
        let addresses = addresses.iter().map(ToString::to_string);
        super::announce(device.into_iter().chain(addresses), json);
    }
    let layout = server.array().layout();
    let layout =
        layout.map_or_else(|| "its layout is read once md has written it".to_owned(), |l| l.to_string());
    let serving = format!("serving {what}: {layout}");
    say!("{serving}; Ctrl-C ends it");
    service_manager::notify(&[service_manager::State::Ready, service_manager::State::Status(&serving)]);
}

fn print(reports: &[Option<Report>], json: bool) -> Result<(), Error> {
    if json {
        return Ok(writeln!(std::io::stdout(), "{}", object(&serde_json::json!({"members": reports}))?)?);
    }
    for (index, report) in reports.iter().enumerate() {
        match report {
            Some(report) => say!("member {index}: {}", in_words(&report.state)),
            None => say!("member {index}: no report; its server failed"),
        }
    }
    Ok(())
}

/// A member's server.
fn member(
    arguments: &ServeArguments,
    index: u32,
    source: Option<&Path>,
    scheduler: &str,
    catalogue: Catalogue,
) -> Result<Configuration, Error> {
    let (configuration, found) = configured(arguments, index, source, scheduler, catalogue)?;
    say!("member {index}: {found}");
    Ok(configuration)
}

/// The configuration of a member's server, and its service times in words.
fn configured(
    arguments: &ServeArguments,
    index: u32,
    source: Option<&Path>,
    scheduler: &str,
    catalogue: Catalogue,
) -> Result<(Configuration, String), Error> {
    let one = ServeArguments {
        path: source.map(Path::to_path_buf),
        control: arguments.control.as_deref().map(|path| numbered(path, index)),
        nbd: arguments.nbd.iter().map(|address| address_of(address, index)).collect::<Result<_, _>>()?,
        scheduler: scheduler.to_owned(),
        ..arguments.clone()
    };
    let (mut configuration, found) = configuration_for(&one, None, catalogue, scheduler_arg::for_member)?;
    if let Some(nbd) = &mut configuration.nbd {
        // Every member has clients of its own.
        nbd.servers = arguments.member.len().max(1) as u64;
    }
    if let Some(attach) = &mut configuration.attach {
        attach.member = Some(index);
    }
    Ok((configuration, found))
}

/// `PATH.N`.
fn numbered(path: &Path, index: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{index}"));
    PathBuf::from(name)
}

/// A unix socket gets `.N` at its end, a TCP port is counted up.
fn address_of(address: &str, index: u32) -> Result<String, Error> {
    if address.starts_with("unix:") {
        return Ok(format!("{address}.{index}"));
    }
    let wrong = || Error::Usage(format!("--nbd {address}: no port for member {index}"));
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse::<u16>().ok().ok_or_else(wrong)?;
    // Port 0 is the system's choice, for each member anew.
    let port = if port == 0 { Some(0) } else { port.checked_add(u16::try_from(index).unwrap_or(u16::MAX)) };
    Ok(format!("{host}:{}", port.ok_or_else(wrong)?))
}

fn origin(text: &str) -> Result<Origin, Error> {
    let wrong = |problem: &str| {
        Error::Usage(format!(
            "--array {text}: {problem}; examples: raid0:64k, raid1, raid5:64k, raid6:64k, raid10:64k, md:/dev/md0"
        ))
    };
    let (level, unit) = text.split_once(':').map_or((text, None), |(level, unit)| (level, Some(unit)));
    let level = &*level.to_ascii_lowercase();
    if level == "md" {
        let node = unit.filter(|node| !node.is_empty()).ok_or_else(|| wrong("md's device is missing"))?;
        return Ok(Origin::Md(Path::new("/dev").join(node)));
    }
    let arrangement = match level {
        "raid0" => Arrangement::Striped,
        "raid1" => Arrangement::Mirrored,
        "raid5" => Arrangement::Parity(1),
        "raid6" => Arrangement::Parity(2),
        "raid10" => Arrangement::Near(2),
        _ => return Err(wrong("the level is unknown")),
    };
    let unit = match (arrangement, unit) {
        (Arrangement::Mirrored, None) => return Ok(Origin::Given(arrangement, Sectors(8))),
        (Arrangement::Mirrored, Some(_)) => return Err(wrong("mirrors have no stripe unit")),
        (_, None) => return Err(wrong("the stripe unit is missing")),
        (_, Some(unit)) => unit,
    };
    // Stripe units are powers of two: 64k is 64 KiB here, as for mdadm's --chunk; 64KiB is the same.
    let lower = unit.to_ascii_lowercase();
    let unit = lower.strip_suffix("ib").unwrap_or(&lower);
    let (digits, shift) = match unit.strip_suffix('k') {
        Some(digits) => (digits, 10),
        None => (unit.strip_suffix('m').ok_or_else(|| wrong("end the stripe unit with k or m"))?, 20),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    let sectors = bytes.filter(|bytes| (4096..=64 << 20).contains(bytes) && bytes % 4096 == 0);
    let sectors = sectors.ok_or_else(|| wrong("a stripe unit is a multiple of 4k, at most 64m"))? / 512;
    Ok(Origin::Given(arrangement, Sectors(sectors as u32)))
}

/// Whether md can make a device of this name (mdadm(8), "DEVICE NAMES"), or udev a link to one.
fn is_name_of_md(node: &Path) -> bool {
    let name = node.strip_prefix("/dev").ok().and_then(Path::to_str).unwrap_or_default();
    let is_made = match name.strip_prefix("md") {
        Some(rest) => match rest.strip_prefix(['/', '_']) {
            Some(name) => !name.is_empty() && !name.contains('/') && name != "." && name != "..",
            None => !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()),
        },
        None => false,
    };
    is_made || name.starts_with("disk/")
}

/// The given layout with the start of data from md's superblock, if the members have one. The superblock must not contradict it. A server that
/// continues attached members cannot refuse them: md may have written a superblock since, or a disk that was replaced may have another one.
fn data_of(members: &[PathBuf], given: Layout) -> Result<Layout, Error> {
    let found = find(members).map_err(|error| failed(&error));
    match found.and_then(|found| agreed(given, &found, members)) {
        Err(error) if supervisor::is_server() => {
            say!("warning: {error}; continuing with {given}");
            Ok(given)
        }
        result => result,
    }
}

/// Rejects a name that is another device, and members whose superblocks cannot be one array in this order. Members without superblocks are to
/// be created. A server that continues attached members refuses none, as above; it schedules them alone.
fn check_array(array: &Path, members: &[PathBuf]) -> Result<(), Error> {
    if supervisor::is_server() {
        return Ok(());
    }
    let name = kernel_name(array);
    if array.exists() && !name.as_deref().is_some_and(is_array) {
        return Err(Error::Usage(format!(
            "--array md:{0}: {0} is no array of md; name the array, which need not exist yet (md:/dev/md0)",
            array.display()
        )));
    }
    if !array.exists() && !is_name_of_md(array) {
        return Err(Error::Usage(format!(
            "--array md:{}: md has no device of this name; its devices are /dev/mdNUMBER, /dev/md_NAME and /dev/md/NAME",
            array.display()
        )));
    }
    let found = find(members).map_err(|error| failed(&error))?;
    let assembled = name.and_then(|name| identifier(&name));
    check_same_array(array, assembled, &found)?;
    match found {
        Found::Array(superblock, _) if superblock.layout.members() as usize != members.len() => {
            Err(Error::Usage(format!(
                "--member: {} given, but md's superblock on them is of {}; name all members",
                counted(members.len() as u64, "member"),
                superblock.layout
            )))
        }
        Found::Array(superblock, roles) => check_order(&superblock.layout, &roles, members),
        Found::Nothing => refuse_old(members).map_err(|error| failed(&error)),
    }
}

/// Rejects the name of an assembled array with another identifier than that of the members' superblocks.
fn check_same_array(array: &Path, assembled: Option<[u8; 16]>, found: &Found) -> Result<(), Error> {
    let problem = match (assembled, found) {
        (Some(assembled), Found::Array(superblock, _)) if superblock.array != assembled => {
            format!("the members' superblocks are of {}, another array", superblock.name)
        }
        (Some(_), Found::Nothing) => "it is assembled, and the members have no superblock".to_owned(),
        _ => return Ok(()),
    };
    Err(Error::Usage(format!(
        "--array md:{}: {problem}; name the array of the members, which need not be assembled yet",
        array.display()
    )))
}

/// Rejects members in another order than md's.
fn check_order(layout: &Layout, roles: &[Option<u32>], members: &[PathBuf]) -> Result<(), Error> {
    match misplaced(layout, roles) {
        Some((place, role)) => Err(Error::Usage(format!(
            "--member {}: it is number {place} here, but {role} in md's superblock; name the members in md's order, or remove a \
             superblock that is not used any more ('mdadm --zero-superblock')",
            members[place as usize].display()
        ))),
        None => Ok(()),
    }
}

/// The layout of md's superblock, if it is the given one with the members in the given order.
fn agreed(given: Layout, found: &Found, members: &[PathBuf]) -> Result<Layout, Error> {
    let Found::Array(superblock, roles) = found else { return Ok(given) };
    let found = superblock.layout;
    if (found.arrangement(), found.members()) != (given.arrangement(), given.members())
        || (given.arrangement() != Arrangement::Mirrored && found.unit() != given.unit())
    {
        return Err(Error::Usage(format!(
            "--array: {given}, but md's superblock on the members has {found}; leave the choice to it with md:/dev/mdX"
        )));
    }
    check_order(&found, roles, members).map(|()| found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use disks::array::superblock::Superblock;

    #[test]
    fn layouts_are_read_and_wrong_ones_are_refused_with_the_reason() {
        let given = |text: &str| match origin(text) {
            Ok(Origin::Given(arrangement, unit)) => format!("{arrangement} {}", unit.0),
            Ok(Origin::Md(device)) => format!("md {}", device.display()),
            Err(error) => error.to_string(),
        };
        assert_eq!(given("raid0:64k"), "raid0 128");
        assert_eq!(given("raid6:1M"), "raid6 2048");
        for same in ["raid5:64k", "RAID5:64K", "Raid5:64KiB", "raid5:64kib"] {
            assert_eq!(given(same), "raid5 128");
        }
        assert_eq!(given("RAID10:1MiB"), "raid10 2048");
        assert_eq!(given("raid1"), "raid1 8");
        assert_eq!(given("md:/dev/md/not-yet"), "md /dev/md/not-yet");
        assert_eq!(given("md:md127"), "md /dev/md127");
        assert_eq!(given("md:/dev/md_fast"), "md /dev/md_fast");
        for (text, reason) in [
            ("raid0", "the stripe unit is missing"),
            ("raid0:64", "end the stripe unit with k or m"),
            ("raid5:3k", "a multiple of 4k"),
            ("raid5:99999999999999999999k", "a multiple of 4k"),
            ("raid1:64k", "mirrors have no stripe unit"),
            ("raid3:64k", "the level is unknown"),
            ("md:", "md's device is missing"),
        ] {
            assert!(given(text).contains(reason), "{text}: {}", given(text));
        }
    }

    #[test]
    fn the_layout_must_agree_with_the_superblock() {
        let layout =
            |arrangement, unit, start| Layout::new(arrangement, 2, Sectors(unit), start, 1 << 30).unwrap();
        let paths = ["a".into(), "b".into()];
        let found = |layout, roles: &[Option<u32>]| {
            let superblock = Superblock {
                array: [1; 16],
                device: [2; 16],
                name: "x".into(),
                role: Some(0),
                events: 1,
                layout,
            };
            Found::Array(superblock, roles.to_vec())
        };
        let given = layout(Arrangement::Striped, 128, 0);
        let behind = layout(Arrangement::Striped, 128, 2048);
        assert_eq!(agreed(given, &Found::Nothing, &paths).unwrap(), given);
        assert_eq!(agreed(given, &found(behind, &[Some(0), Some(1)]), &paths).unwrap(), behind);
        assert_eq!(agreed(given, &found(behind, &[Some(0), None]), &paths).unwrap(), behind);
        let refused = |found| agreed(given, &found, &paths).unwrap_err().to_string();
        let order = refused(found(behind, &[Some(1), Some(0)]));
        assert!(order.contains("--member a: it is number 0 here, but 1"), "{order}");
        let unit = refused(found(layout(Arrangement::Striped, 1024, 2048), &[Some(0), Some(1)]));
        assert!(unit.contains("leave the choice to it"), "{unit}");
        let mirror = layout(Arrangement::Mirrored, 8, 0);
        assert!(agreed(mirror, &found(mirror, &[Some(1), Some(0)]), &paths).is_ok(), "copies have no order");
    }

    #[test]
    fn the_array_of_md_need_not_exist_but_may_be_nothing_else() {
        let none: [PathBuf; 2] = ["/nonexistent/a".into(), "/nonexistent/b".into()];
        for name in
            ["/dev/md/not-yet", "/dev/md_not-yet", "/dev/md1234567", "/dev/disk/by-id/md-name-not-yet"]
        {
            assert!(check_array(Path::new(name), &none).is_ok(), "{name}");
        }
        for name in ["/dev/fast", "/dev/mdX", "/dev/md_", "/dev/md/a/b", "/tmp/not/there"] {
            let refused = check_array(Path::new(name), &none).unwrap_err().to_string();
            assert!(refused.contains("md has no device of this name"), "{name}: {refused}");
        }
        let refused = check_array(Path::new("/dev/null"), &none).unwrap_err().to_string();
        assert!(refused.contains("null is no array of md"), "{refused}");
        let refused = check_array(Path::new("/proc/self/exe"), &none).unwrap_err().to_string();
        assert!(refused.contains("exe is no array of md"), "a regular file: {refused}");
    }

    #[test]
    fn the_assembled_array_must_be_that_of_the_members() {
        let layout = Layout::new(Arrangement::Striped, 2, Sectors(128), 0, 1 << 30).unwrap();
        let superblock = Superblock {
            array: [1; 16],
            device: [2; 16],
            name: "host:fast".into(),
            role: Some(0),
            events: 1,
            layout,
        };
        let found = Found::Array(superblock, vec![Some(0), Some(1)]);
        let check = |assembled, found: &Found| {
            check_same_array(Path::new("/dev/md0"), assembled, found).map_err(|error| error.to_string())
        };
        assert_eq!(check(Some([1; 16]), &found), Ok(()));
        assert_eq!(check(None, &found), Ok(()));
        assert_eq!(check(None, &Found::Nothing), Ok(()));
        let refused = check(Some([3; 16]), &found).unwrap_err();
        assert!(
            refused.contains("md:/dev/md0: the members' superblocks are of host:fast, another array"),
            "{refused}"
        );
        let refused = check(Some([3; 16]), &Found::Nothing).unwrap_err();
        assert!(refused.contains("assembled, and the members have no superblock"), "{refused}");
    }

    #[test]
    fn a_superblock_of_version_0_90_is_an_error_with_the_remedy() {
        use std::io::{Seek, SeekFrom, Write};
        let path = std::env::temp_dir().join(format!("dwell-old-{}", std::process::id()));
        let mut file = std::fs::File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        file.seek(SeekFrom::Start((1 << 20) - (64 << 10))).unwrap();
        for word in [0xa92b_4efc_u32, 0, 90] {
            file.write_all(&word.to_le_bytes()).unwrap();
        }
        let refused = check_array(Path::new("/dev/md/not-yet"), std::slice::from_ref(&path));
        std::fs::remove_file(&path).unwrap();
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("version 0.90") && refused.contains("--array raid5:64k"), "{refused}");
    }

    #[test]
    fn a_device_cannot_be_two_members() {
        let link = std::env::temp_dir().join(format!("dwell-twice-{}", std::process::id()));
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let refused = refuse_twice(&["a".into(), "/dev/null".into(), link.clone()]);
        std::fs::remove_file(&link).unwrap();
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("members 1 and 2 are the same"), "{refused}");
        let [file, same] =
            ["", "-linked"].map(|name| PathBuf::from(format!("{}-file{name}", link.display())));
        std::fs::write(&file, "").unwrap();
        std::fs::hard_link(&file, &same).unwrap();
        let refused = refuse_twice(&["a".into(), file.clone(), same.clone()]);
        [file, same].iter().for_each(|path| std::fs::remove_file(path).unwrap());
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("members 1 and 2 are the same"), "a hard link: {refused}");
        assert!(refuse_twice(&["a".into(), "b".into()]).is_ok());
    }

    #[test]
    fn each_member_has_an_address_of_its_own() {
        assert_eq!(address_of("unix:/run/a.sock", 2).unwrap(), "unix:/run/a.sock.2");
        assert_eq!(address_of("tcp:[::1]:10809", 2).unwrap(), "tcp:[::1]:10811");
        assert_eq!(address_of("tcp:127.0.0.1:0", 2).unwrap(), "tcp:127.0.0.1:0");
        assert!(address_of("tcp:127.0.0.1:65535", 1).is_err());
    }
}
