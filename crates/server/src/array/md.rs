//! md's superblocks on the members, and its reports in sysfs.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use ::control::device_number;
use disks::array::superblock::{BYTES, OLD_BYTES, Superblock, SuperblockError, is_old, old_place, places};
use disks::array::{Arrangement, Layout};
use elevator::{SECTOR_BYTES, Sector};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::background::Resync;
use crate::ServeError;

/// What the members' superblocks state together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// No member has a superblock yet: the array is to be created.
    Nothing,
    /// The newest superblock, and for each source its place in the array, if it has one.
    Array(Superblock, Vec<Option<u32>>),
}

/// Reads the superblocks of the members.
///
/// # Errors
/// A member cannot be read, a superblock is damaged or unsupported, or the members are of different arrays.
pub fn find(sources: &[impl AsRef<Path>]) -> Result<Found, ServeError> {
    let mut newest: Option<(Superblock, &Path)> = None;
    let mut roles = Vec::new();
    for source in sources {
        let source = source.as_ref();
        let Some(found) = read(source)? else {
            roles.push(None);
            continue;
        };
        roles.push(found.role);
        match &newest {
            Some((known, first)) if known.array != found.array => {
                return Err(ServeError::refused(
                    source,
                    &format!("its md superblock is of another array than that of {}", first.display()),
                ));
            }
            Some((known, _)) if known.events >= found.events => {}
            _ => newest = Some((found, source)),
        }
    }
    Ok(newest.map_or(Found::Nothing, |(superblock, _)| Found::Array(superblock, roles)))
}

/// The first source whose place in the array is another one than here, and that place. Copies have no order.
pub fn misplaced(layout: &Layout, roles: &[Option<u32>]) -> Option<(u32, u32)> {
    if layout.arrangement() == Arrangement::Mirrored {
        return None;
    }
    (0..).zip(roles).find_map(|(index, role)| role.filter(|&role| role != index).map(|role| (index, role)))
}

/// The superblock of one member; none if it has none.
fn read(source: &Path) -> Result<Option<Superblock>, ServeError> {
    let failed = |error| ServeError::io(format!("reading the md superblock of {}", source.display()), error);
    // The back end rejects it with the reason.
    if source.is_dir() {
        return Ok(None);
    }
    let file = match File::open(source) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let bytes = std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0)).map_err(failed)?;
    for place in places(Sector(bytes / SECTOR_BYTES)) {
        let mut block = [0; BYTES];
        let mut length = 0;
        while length < BYTES {
            match file
                .read_at(&mut block[length..], place.0 * SECTOR_BYTES + length as u64)
                .map_err(failed)?
            {
                0 => break,
                more => length += more,
            }
        }
        match Superblock::parse(&block[..length], place) {
            Err(SuperblockError::Absent) => {}
            Err(error) => return Err(ServeError::refused(source, &error.to_string())),
            Ok(found) => return Ok(Some(found)),
        }
    }
    Ok(None)
}

/// An error if a member has a superblock of version 0.90, which is not read.
///
/// # Errors
/// It has one, or cannot be read.
pub fn refuse_old(sources: &[impl AsRef<Path>]) -> Result<(), ServeError> {
    for source in sources.iter().map(AsRef::as_ref).filter(|source| !source.is_dir()) {
        let failed =
            |error| ServeError::io(format!("reading the md superblock of {}", source.display()), error);
        let file = match File::open(source) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            opened => opened.map_err(failed)?,
        };
        let bytes = std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0)).map_err(failed)?;
        let mut block = [0; OLD_BYTES];
        let Some(at) = old_place(Sector(bytes / SECTOR_BYTES)) else { continue };
        file.read_exact_at(&mut block, at.0 * SECTOR_BYTES).map_err(failed)?;
        if is_old(&block) {
            return Err(ServeError::refused(
                source,
                "its md superblock has version 0.90, which is not read; give the layout, such as --array raid5:64k",
            ));
        }
    }
    Ok(())
}

/// md's device by the name that the user gave: `/dev/md0`, or a link such as `/dev/md/fast`, which exists once the array is assembled.
/// The kernel's name of it (`md0`); none until then, and for what is no block device.
pub fn kernel_name(device: &Path) -> Option<String> {
    let number = device_number::of_node(device)?;
    let link = fs::read_link(device_number::directory(Path::new("/sys"), number)).ok()?;
    link.file_name()?.to_str().map(str::to_owned)
}

/// The identifier of an assembled array, as udev has read it from the members; none if it is not assembled, or without udev.
pub fn identifier(name: &str) -> Option<[u8; 16]> {
    let number = fs::read_to_string(Path::new("/sys/block").join(name).join("dev")).ok()?;
    let text = fs::read_to_string(format!("/run/udev/data/b{}", number.trim())).ok()?;
    identifier_in(&text)
}

/// From udev's record of the device: `E:MD_UUID=`, four groups of eight digits.
fn identifier_in(record: &str) -> Option<[u8; 16]> {
    let text = record.lines().find_map(|line| line.strip_prefix("E:MD_UUID="))?;
    let digits: String = text.chars().filter(|&c| c != ':').collect();
    (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)).flatten()
}

/// Whether a block device with the kernel's name is an array of md.
pub fn is_array(name: &str) -> bool {
    Path::new("/sys/block").join(name).join("md").exists()
}

/// What md reports of its own traffic on these attached members: `sync_action` of the array, which may not be assembled yet. An array on
/// other devices counts for nothing.
pub(super) fn sync<'a>(array: &Path, attached: impl Iterator<Item = &'a Path>) -> Resync {
    let Some(name) = kernel_name(array) else { return Resync::Unknown };
    let sysfs = Path::new("/sys/block").join(name);
    let is_on =
        |device: &Path| device.file_name().is_some_and(|device| sysfs.join("slaves").join(device).exists());
    let mut attached = attached.peekable();
    // Members over NBD have other names.
    if attached.peek().is_some() && !attached.any(is_on) {
        return Resync::Unknown;
    }
    match fs::read_to_string(sysfs.join("md/sync_action")) {
        Ok(action) if action.trim() == "idle" || action.trim() == "frozen" => Resync::Idle,
        Ok(_) => Resync::Active,
        Err(_) => Resync::Unknown,
    }
}

/// The file that reports what md does of its own; none if the array is not assembled, or has no such traffic (RAID 0).
pub(super) fn open_sync_action(array: &Path) -> Option<File> {
    File::open(Path::new("/sys/block").join(kernel_name(array)?).join("md/sync_action")).ok()
}

/// Calls `look` when the file that `open` returns changes, and once in each period in any case, until it returns false. md begins its own traffic
/// right after it has changed `sync_action`: a scrub of a small array would be half done after a period.
pub(super) fn watch(open: impl Fn() -> Option<File>, period: Duration, look: impl Fn() -> bool) {
    let timeout = Timespec { tv_sec: period.as_secs() as i64, tv_nsec: i64::from(period.subsec_nanos()) };
    loop {
        // The kernel reports changes since the file was read.
        let file = open().filter(|file| file.read_at(&mut [0; 64], 0).is_ok());
        if !look() {
            return;
        }
        let waited = file.map(|file| poll(&mut [PollFd::new(&file, PollFlags::PRI)], Some(&timeout)));
        if !matches!(waited, Some(Ok(_))) {
            thread::sleep(period);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identifier_is_read_from_the_record_of_udev() {
        let record = "S:md/fast\nE:MD_LEVEL=raid5\nE:MD_UUID=00112233:44556677:8899aabb:ccddeeff\n";
        let expected =
            [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
        assert_eq!(identifier_in(record), Some(expected));
        assert_eq!(identifier_in("E:MD_UUID=0011:2233\n"), None);
        assert_eq!(identifier_in(""), None);
    }

    /// Regression: md's traffic was foreground until the next look. The kernel reports changes of mounts in the same manner as those of `sync_action`.
    #[test]
    fn a_change_of_the_watched_file_is_seen_at_once() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("SKIPPED: only root can mount");
        }
        let place = std::env::temp_dir().join(format!("dwell-md-watch-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let (send, looks) = std::sync::mpsc::channel();
        let open = || File::open("/proc/self/mounts").ok();
        thread::spawn(move || watch(open, Duration::from_secs(600), || send.send(()).is_ok()));
        let is_seen = || looks.recv_timeout(Duration::from_secs(10)).is_ok();
        let at_first = is_seen();
        rustix::mount::mount("dwell", &place, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        let mounted = is_seen();
        rustix::mount::unmount(&place, rustix::mount::UnmountFlags::DETACH).unwrap();
        let unmounted = is_seen();
        fs::remove_dir(&place).unwrap();
        assert_eq!((at_first, mounted, unmounted), (true, true, true));
    }

    /// Without md, a look in each period remains.
    #[test]
    fn a_file_that_is_absent_is_looked_for_in_each_period() {
        let looks = std::cell::Cell::new(3);
        watch(|| None, Duration::from_millis(1), || looks.replace(looks.get() - 1) > 1);
        assert_eq!(looks.get(), 0);
    }

    #[test]
    fn a_regular_file_is_no_device() {
        assert_eq!(kernel_name(Path::new("/proc/self/exe")), None);
        assert_eq!(kernel_name(Path::new("/nonexistent/md0")), None);
    }
}
