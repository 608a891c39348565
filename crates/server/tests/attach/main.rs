//! The attached device: FUSE and a loop device, their setup and teardown; and served block devices.

#[path = "../common/mod.rs"]
mod common;
mod disks;
mod ending;
mod filesystems;
mod memory;
mod permissions;
mod recovery;
mod settings;
mod stalls;

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{Directory, Served, can_attach, have, run, try_run};

/// Loop devices are shared by all tests: one test at a time checks for leftovers.
static MACHINE: Mutex<()> = Mutex::new(());

/// Exclusive use of the machine's loop devices, a directory, and in it the servers' runtime directory.
struct Place {
    directory: Directory,
    runtime: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Place {
    /// In memory. `None`, with a SKIPPED message, if devices cannot be attached or a program is missing.
    fn in_memory(programs: &[&str]) -> Option<Self> {
        Self::with(Directory::in_memory, programs)
    }

    /// The same on a disk.
    fn on_disk(programs: &[&str]) -> Option<Self> {
        Self::with(Directory::on_disk, programs)
    }

    fn with(make: fn() -> Directory, programs: &[&str]) -> Option<Self> {
        if !can_attach() || !programs.iter().all(|program| have(program)) {
            return None;
        }
        let alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = make();
        Some(Self { runtime: directory.join("run"), directory, _alone: alone })
    }

    fn join(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The directory of mount points and records.
    fn private(&self) -> PathBuf {
        self.runtime.join("attach")
    }

    /// The arguments of a server that attaches its device, with further ones.
    fn attaching<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["--attach", "--runtime", self.runtime.to_str().unwrap()], more].concat()
    }

    /// Such a server.
    fn serve(&self, arguments: &[&str]) -> Served {
        Served::start(&self.attaching(arguments))
    }

    /// Stops a server and checks that nothing is left.
    fn stop(&self, server: Served) {
        server.stop();
        self.nothing_left();
    }

    /// Checks that the servers have left nothing on the machine.
    fn nothing_left(&self) {
        let runtime = self.runtime.to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(runtime), "mounts are left: {mounts}");
        let loops = run("losetup", &["-l", "-n", "-O", "NAME,BACK-FILE"]);
        assert!(!loops.contains(runtime), "loop devices are left: {loops}");
        let files: Vec<_> = fs::read_dir(self.private()).unwrap().flatten().collect();
        assert!(files.is_empty(), "files are left: {files:?}");
    }

    /// Unmounts a server's file by force.
    fn unmount(&self, server: &Served) {
        let at = self.private().join(format!("{}-0", server.pid()));
        let _ = try_run("umount", &["-f", &at.to_string_lossy()]);
    }

    /// Mounts the file system on a device.
    fn mount(&self, device: &str) -> Mounted {
        let at = self.join("mnt");
        let _ = fs::create_dir(&at);
        run("mount", &[device, &at.to_string_lossy()]);
        Mounted(at)
    }
}

/// A mount that is removed on drop.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = try_run("umount", &[&self.0.to_string_lossy()]);
    }
}
