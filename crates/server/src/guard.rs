//! Protection of data: a server claims its file or device, and rejects those in use by others.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ::control::mounts::{Mount, unescaped};
use elevator::SECTOR_BYTES;
use rustix::fs::{OFlags, major, minor};
use rustix::io::Errno;

use crate::ServeError;
use crate::backend::FileOptions;
use crate::locks::{AFTERLIFE, lock};
use crate::loop_device::{LoopDevice, backing_file};
use crate::names::Names;

/// File systems in memory: `TMPFS_MAGIC` and `RAMFS_MAGIC` of `statfs(2)`.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// A file claimed for this server until it is dropped.
pub(crate) struct Claim {
    file: Arc<File>,
    bytes: u64,
    block_bytes: u32,
    /// Its directory in sysfs, if it is a block device.
    sysfs: Option<PathBuf>,
    rotational: bool,
    read_only: bool,
    discards: bool,
    /// The file of a loop device, which is locked too.
    _below: Option<File>,
}

impl Claim {
    pub(crate) fn file(&self) -> Arc<File> {
        self.file.clone()
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) const fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    pub(crate) fn sysfs(&self) -> Option<&Path> {
        self.sysfs.as_deref()
    }

    pub(crate) const fn is_rotational(&self) -> bool {
        self.rotational
    }

    pub(crate) const fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) const fn discards(&self) -> bool {
        self.discards
    }
}

/// Opens and claims the file or device of `options`.
pub(crate) fn claim(options: &FileOptions) -> Result<Claim, ServeError> {
    let path = &options.path;
    let existing = match fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(ServeError::io(format!("looking at {}", path.display()), error)),
    };
    match existing {
        Some(metadata) if metadata.file_type().is_block_device() => claim_device(options, metadata.rdev()),
        Some(metadata) if metadata.is_file() => claim_file(options, false),
        Some(_) => Err(ServeError::unfit(path, "it is neither a file nor a block device")),
        None if options.size.is_some() && !options.read_only => claim_file(options, true),
        None if options.read_only => {
            Err(ServeError::unfit(path, "it does not exist, and a read-only server does not create it"))
        }
        None => Err(ServeError::unfit(path, "it does not exist, and without a size it cannot be created")),
    }
}

fn open(options: &FileOptions, create: bool, flags: OFlags) -> Result<File, ServeError> {
    let direct = if options.direct { OFlags::DIRECT } else { OFlags::empty() };
    OpenOptions::new()
        .read(true)
        .write(!options.read_only)
        // Not through a symbolic link, which may be somebody else's.
        .create_new(create)
        .mode(0o600)
        .custom_flags((flags | direct).bits() as i32)
        .open(&options.path)
        .map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::INVAL) if options.direct => {
                if create {
                    // The kernel creates the file before it rejects direct I/O.
                    let _ = fs::remove_file(&options.path);
                }
                ServeError::unfit(&options.path, "its file system does not support direct I/O (O_DIRECT); use a file on ext4, xfs or btrfs")
            }
            Some(Errno::NOENT | Errno::NOTDIR) => {
                ServeError::unfit(&options.path, "the directory that it is to be made in does not exist")
            }
            Some(Errno::EXIST) => {
                let problem = "a symbolic link to no file is there, or another program has just created it";
                ServeError::unfit(&options.path, problem)
            }
            Some(Errno::BUSY) => {
                in_use(&options.path, "it is mounted, swapped to, or held by another device")
            }
            _ => ServeError::io(format!("opening {}", options.path.display()), error),
        })
}

fn claim_file(options: &FileOptions, create: bool) -> Result<Claim, ServeError> {
    let claimed = sized(options, open(options, create, OFlags::empty())?);
    if claimed.is_err() && create && fs::metadata(&options.path).is_ok_and(|made| made.len() == 0) {
        let _ = fs::remove_file(&options.path);
    }
    if claimed.is_ok() && create {
        keep_name(&options.path)?;
    }
    claimed
}

/// Makes the name of a new file durable; otherwise a crash could lose the file with its durable data.
fn keep_name(path: &Path) -> Result<(), ServeError> {
    let directory = fs::canonicalize(path).map(|path| path.parent().map(Path::to_path_buf).unwrap_or(path));
    match directory.and_then(File::open).and_then(|directory| directory.sync_all()) {
        // Some file systems do not support this.
        Err(error) if Errno::from_io_error(&error) != Some(Errno::INVAL) => {
            Err(ServeError::io(format!("making {} durable in its directory", path.display()), error))
        }
        _ => Ok(()),
    }
}

fn sized(options: &FileOptions, file: File) -> Result<Claim, ServeError> {
    let path = &options.path;
    if !options.even_if_used
        && let Some(user) = looped(path).or_else(|| swapped(path))
    {
        return Err(in_use(path, &user));
    }
    lock(path, &file, options.read_only)?;
    let io = |source| ServeError::io(format!("sizing {}", path.display()), source);
    let has = file.metadata().map_err(io)?.len();
    let bytes = match options.size {
        Some(size) if has != 0 && size != has => {
            return Err(ServeError::unfit(path, &format!("it has {has} bytes, not {size}")));
        }
        size => size.unwrap_or(has),
    };
    let block_bytes = if options.direct { direct_alignment(&file) } else { SECTOR_BYTES as u32 };
    check_size(path, bytes, block_bytes)?;
    if has != bytes && options.read_only {
        return Err(ServeError::unfit(path, "it is empty, and a read-only server does not extend it"));
    }
    if has != bytes {
        file.set_len(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => {
                ServeError::unfit(path, &format!("{bytes} bytes are more than a file there can have"))
            }
            _ => io(error),
        })?;
    }
    Ok(Claim {
        file: Arc::new(file),
        bytes,
        block_bytes,
        sysfs: None,
        rotational: false,
        read_only: options.read_only,
        discards: true,
        _below: None,
    })
}

/// The granularity that direct I/O on this file needs, if the kernel reports it.
fn direct_alignment(file: &File) -> u32 {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let mask = StatxFlags::from_bits_retain(libc::STATX_DIOALIGN);
    match statx(file, c"", AtFlags::EMPTY_PATH, mask) {
        Ok(found) if found.stx_mask & libc::STATX_DIOALIGN != 0 && found.stx_dio_offset_align > 0 => {
            // Some file systems report 1; the unit of a device is a sector.
            found.stx_dio_offset_align.max(SECTOR_BYTES as u32)
        }
        _ => SECTOR_BYTES as u32,
    }
}

fn check_size(path: &Path, bytes: u64, block_bytes: u32) -> Result<(), ServeError> {
    if bytes == 0 {
        return Err(ServeError::unfit(path, "it is empty"));
    }
    let block_bytes = u64::from(block_bytes);
    if !bytes.is_multiple_of(block_bytes) {
        let next = (bytes / block_bytes).saturating_add(1).saturating_mul(block_bytes);
        let problem =
            format!("{bytes} bytes are no multiple of its {block_bytes}-byte blocks; {next} are one");
        return Err(ServeError::unfit(path, &problem));
    }
    Ok(())
}

fn claim_device(options: &FileOptions, device: u64) -> Result<Claim, ServeError> {
    let path = &options.path;
    let sysfs = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
    if !options.even_if_used
        && let Some(user) = user_of(device, path, &sysfs)
    {
        return Err(in_use(path, &user));
    }
    // The kernel rejects O_EXCL on mounted or held devices, also in cases that the checks above miss.
    let exclusive = if options.even_if_used { OFlags::empty() } else { OFlags::EXCL };
    let file = open_exclusively(options, exclusive)?;
    lock(path, &file, options.read_only)?;
    let below = if options.even_if_used { None } else { lock_file_below(&sysfs, options.read_only)? };
    let is_read_only = || fs::read_to_string(sysfs.join("ro")).is_ok_and(|text| text.trim() == "1");
    let read_only = options.read_only || is_read_only();
    let has = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))
        .map_err(|error| ServeError::io(format!("sizing {}", path.display()), error.into()))?;
    let bytes = options.size.unwrap_or(has);
    if bytes > has {
        return Err(ServeError::unfit(
            path,
            &format!("it has {has} bytes, fewer than the {bytes} asked for"),
        ));
    }
    let number = |name: &str| queue_attribute(&sysfs, name);
    let block_bytes = number("logical_block_size").unwrap_or(SECTOR_BYTES) as u32;
    check_size(path, bytes, block_bytes)?;
    let rotational = number("rotational") == Some(1);
    let discards = number("discard_max_bytes").is_some_and(|most| most > 0);
    let file = Arc::new(file);
    Ok(Claim { file, bytes, block_bytes, sysfs: Some(sysfs), rotational, read_only, discards, _below: below })
}

/// Locks the file of a loop device, or of the one of which the device is a partition: it may be served by its own name, or through another loop device.
/// Loop devices for parts of a file share it. Attached devices have files in FUSE, which their servers do not lock.
fn lock_file_below(sysfs: &Path, read_only: bool) -> Result<Option<File>, ServeError> {
    let is_partition = sysfs.join("partition").exists();
    let disk = if is_partition { sysfs.join("..") } else { sysfs.to_path_buf() };
    let Some(path) = backing_file(&disk) else { return Ok(None) };
    if Mount::above(&Mount::seen_by("self"), &path).is_none_or(|mount| mount.kind.starts_with("fuse")) {
        return Ok(None);
    }
    let file = fs::metadata(&path).is_ok_and(|found| found.is_file()).then(|| File::open(&path));
    let Some(Ok(file)) = file else { return Ok(None) };
    let is_whole = |name: &&str| {
        fs::read_to_string(disk.join("loop").join(name)).is_ok_and(|text| text.trim_end() == "0")
    };
    let is_part = !["offset", "sizelimit"].iter().all(is_whole);
    lock(&path, &file, read_only || is_partition || is_part)?;
    Ok(Some(file))
}

/// The exclusive use and the lock of a killed server end when its unfinished requests end.
fn open_exclusively(options: &FileOptions, exclusive: OFlags) -> Result<File, ServeError> {
    let began = Instant::now();
    loop {
        match open(options, false, exclusive) {
            Err(ServeError::Refused { .. }) if began.elapsed() < AFTERLIFE => {
                thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

/// A number from a device's queue directory; for a partition, its disk's.
fn queue_attribute(sysfs: &Path, name: &str) -> Option<u64> {
    let own = sysfs.join("queue").join(name);
    let disk = sysfs.join("../queue").join(name);
    fs::read_to_string(own).or_else(|_| fs::read_to_string(disk)).ok()?.trim().parse().ok()
}

/// The user of a block device or one of its partitions, as text.
fn user_of(device: u64, path: &Path, sysfs: &Path) -> Option<String> {
    let mut names = vec![(format!("{}:{}", major(device), minor(device)), sysfs.to_path_buf())];
    for entry in fs::read_dir(sysfs).into_iter().flatten().flatten() {
        if let Ok(number) = fs::read_to_string(entry.path().join("dev")) {
            names.push((number.trim().to_string(), entry.path()));
        }
    }
    let mounts = Mount::seen_by("self");
    let used = names.iter().find_map(|(number, sysfs)| mounted_at(&mounts, number).or_else(|| holder(sysfs)));
    // Kernel names of the device, its partitions, and the disk of which it is a partition.
    let node = |sysfs: &Path| Some(Path::new("/dev").join(fs::canonicalize(sysfs).ok()?.file_name()?));
    let disk = sysfs.join("partition").exists().then(|| sysfs.join(".."));
    let mut nodes = names.iter().map(|(_, sysfs)| sysfs.as_path()).chain(disk.as_deref()).filter_map(node);
    used.or_else(|| looped(path)).or_else(|| nodes.find_map(|node| looped(&node)))
}

/// The loop device that is attached to this file or device, as text.
fn looped(path: &Path) -> Option<String> {
    let names = Names::of(path)?;
    let is_on_it =
        |device: &LoopDevice| names.has(device.file()) || names.had(device.file(), || device.backing_node());
    let device = LoopDevice::all().find(is_on_it)?;
    Some(format!("{} is attached to it", device.path().display()))
}

/// Whether the kernel swaps to this file, as text. (It opens swap devices exclusively.)
fn swapped(path: &Path) -> Option<String> {
    let swaps = fs::read("/proc/swaps").ok()?;
    let names = Names::of(path)?;
    swap_files(&swaps).any(|file| names.has(&file)).then(|| "the kernel swaps to it".to_string())
}

/// The swap files in `/proc/swaps`: the first field of each line after the heading.
fn swap_files(swaps: &[u8]) -> impl Iterator<Item = PathBuf> {
    let lines = swaps.split(|&byte| byte == b'\n').skip(1);
    lines.filter_map(|line| line.split(u8::is_ascii_whitespace).next()).map(unescaped)
}

/// The error for a file or device in use, with the option that overrides it.
fn in_use(path: &Path, by: &str) -> ServeError {
    let way = "end that first, or give --even-if-used twice and risk what is on it";
    ServeError::refused(path, &format!("{by}; {way}"))
}

fn mounted_at(mounts: &[Mount], number: &str) -> Option<String> {
    let is_it = |mount: &&Mount| format!("{}:{}", mount.number.0, mount.number.1) == number;
    let mount = mounts.iter().find(is_it)?;
    Some(format!("it, or a part of it, is mounted at {}", mount.place.display()))
}

fn holder(sysfs: &Path) -> Option<String> {
    let holder = fs::read_dir(sysfs.join("holders")).ok()?.flatten().next()?;
    Some(format!("it is held by {}", holder.file_name().to_string_lossy()))
}

/// Whether a file is in memory, so that accesses never wait for a disk. A device's node is in memory (devtmpfs), but not
/// its data.
pub(crate) fn is_in_memory(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.is_file())
        && rustix::fs::fstatfs(file.as_fd()).is_ok_and(|fs| IN_MEMORY.contains(&(fs.f_type as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"22 1 8:0 / /srv/data rw,relatime - ext4 /dev/sda rw\n\
                          23 1 0:5 / /proc rw - proc proc rw\n";

    #[test]
    fn a_mount_is_found_by_its_device_number() {
        let mounts: Vec<Mount> = Mount::all(MOUNTS).collect();
        assert!(mounted_at(&mounts, "8:0").unwrap().contains("/srv/data"));
        assert_eq!(mounted_at(&mounts, "8:1"), None);
    }

    #[test]
    fn a_second_server_and_a_wrong_size_are_rejected() {
        let path = std::env::temp_dir().join(format!("dwell-guard-{}", std::process::id()));
        let options = FileOptions { direct: false, size: Some(1 << 20), ..FileOptions::new(&path) };
        let first = claim(&options).unwrap();
        assert_eq!(first.bytes(), 1 << 20);
        assert!(claim(&options).is_err_and(|error| error.to_string().contains("locked")));
        drop(first);
        let larger = FileOptions { size: Some(2 << 20), ..options };
        assert!(claim(&larger).is_err_and(|error| error.to_string().contains("has 1048576 bytes")));
        fs::remove_file(path).unwrap();
    }

    /// A regression: root created the target of a link that another user had left in a shared directory.
    #[test]
    fn no_file_is_created_through_a_symbolic_link() {
        let path = std::env::temp_dir().join(format!("dwell-link-{}", std::process::id()));
        let target = path.with_extension("target");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let options = FileOptions { direct: false, size: Some(1 << 20), ..FileOptions::new(&path) };
        assert!(claim(&options).is_err_and(|error| error.to_string().contains("symbolic link")));
        assert!(!target.exists() && path.is_symlink());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_error_for_a_device_in_use_names_the_user_and_the_override() {
        let message = in_use(Path::new("/dev/sdx"), "it is held by dm-0").to_string();
        assert!(
            message.contains("/dev/sdx") && message.contains("dm-0") && message.contains("--even-if-used"),
            "{message}"
        );
        assert_eq!(looped(&std::env::temp_dir()), None);
    }

    #[test]
    fn swap_files_are_found() {
        const SWAPS: &[u8] = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                               /dev/sda2                               partition\t4194300\t\t0\t\t-2\n\
                               /swap\\040file                           file\t\t4194300\t\t0\t\t-3\n";
        let files: Vec<_> = swap_files(SWAPS).filter(|file| !file.as_os_str().is_empty()).collect();
        assert_eq!(files, [Path::new("/dev/sda2"), Path::new("/swap file")]);
    }

    #[test]
    fn only_files_and_devices_are_accepted() {
        assert!(claim(&FileOptions::new("/proc")).is_err());
        assert!(claim(&FileOptions::new("/nonexistent/file")).is_err());
    }

    #[test]
    fn a_device_is_not_in_memory_although_its_node_is() {
        assert!(!is_in_memory(&File::open("/dev/null").unwrap()));
    }

    #[test]
    fn an_unsuitable_size_creates_no_file() {
        let path = std::env::temp_dir().join(format!("dwell-guard-size-{}", std::process::id()));
        let of = |size| FileOptions { direct: false, size: Some(size), ..FileOptions::new(&path) };
        let refused = claim(&of(1000)).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("512-byte blocks; 1024 are one"), "{refused}");
        assert!(!path.exists(), "the rejected file is removed");
        fs::write(&path, "").unwrap();
        assert!(claim(&of(1000)).is_err() && path.exists(), "an existing file is kept");
        let empty = claim(&FileOptions { size: None, ..of(0) }).err().map(|error| error.to_string());
        assert!(empty.is_some_and(|message| message.ends_with("it is empty")));
        assert_eq!(
            claim(&of(1024)).map(|claim| claim.bytes()).ok(),
            Some(1024),
            "the failed attempt holds no lock"
        );
        fs::remove_file(path).unwrap();
    }
}
