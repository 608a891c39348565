//! Building a kernel from a description and an image.

use std::cell::RefCell;
use std::rc::Rc;

use elevator::{CauseSet, Sector, Sectors, Time};
use hashbrown::HashMap;

use super::cache::{CachedFiles, Lru, Pages};
use super::description::{Description, Partition};
use super::error::BootError;
use super::fs::{BLOCK_BYTES, BLOCK_SECTORS, Block, FileSystem, ImageError};
use super::image::{Image, Step};
use super::journal::Journal;
use super::state::{Bios, Dirtiers, Hooks, Rules, Sleepers, State, Swap, Tagging, Watch};
use super::{Causes, Kernel, flusher};

/// Blocks of a MiB.
const MIB: u64 = (1 << 20) / BLOCK_BYTES;

impl Kernel {
    /// A kernel for the described machine, with a device of `capacity` whose file system holds `image`.
    ///
    /// # Errors
    /// The description has values out of range; the image repeats a directory or places a file in a directory that does not
    /// exist; the file system is too small for the image.
    pub fn new(description: &Description, capacity: Sector, image: &Image) -> Result<Self, BootError> {
        description.check()?;
        let rules = Rules::new(description);
        let (device, slots) = (capacity.0 / BLOCK_SECTORS, u64::from(description.memory.swap_mib) * MIB);
        let end = device.saturating_sub(slots);
        if end == 0 {
            return Err(BootError::Description {
                machine: description.name.clone(),
                field: "memory.swap-mib",
                problem: format!("the device has only {} MiB", device / MIB),
            });
        }
        let (start, blocks) = area(description, end)?;
        let made = FileSystem::new(&description.file_system.layout, start, blocks);
        let mut fs =
            made.map_err(|problem| BootError::FileSystem { machine: description.name.clone(), problem })?;
        lay_out(&mut fs, image)?;
        let journal =
            fs.journal_area().map(|area| Journal::new(description.file_system.journal.clone(), area));
        let state = State {
            now: Time::ZERO,
            dirtiers: Dirtiers::new(rules.capacity),
            rules,
            causes: Causes::default(),
            hooks: Hooks::default(),
            tagging: Tagging::default(),
            fs,
            journal,
            journal_work: std::collections::VecDeque::new(),
            journal_deadline: None,
            durable: None,
            pages: Pages::default(),
            lru: Lru::default(),
            files: CachedFiles::default(),
            dirty: 0,
            writing: 0,
            swap: Swap::new(Block(end), device - end),
            bios: Bios::default(),
            congested: false,
            flush_least: 0,
            tasks: Vec::new(),
            sleepers: Sleepers::default(),
            watch: Watch::default(),
            touched: Vec::new(),
            runs: Vec::new(),
            homes: HashMap::new(),
        };
        let state = Rc::new(RefCell::new(state));
        let jobs = flusher::start(&state);
        let mut kernel = Self { state, jobs: Vec::new() };
        for (task, job) in jobs {
            kernel.put_job(task, job);
            // The thread runs until it sleeps; without work it submits nothing.
            let _ = kernel.poll(task);
        }
        Ok(kernel)
    }

    /// Makes reads end at multiples of `boundary` sectors of the device.
    pub(crate) fn cut_reads_at(&mut self, boundary: Sectors) {
        let pages = u64::from(boundary.0) / BLOCK_SECTORS;
        self.state.borrow_mut().rules.read_boundary = (pages > 0).then_some(pages);
    }

    /// Dirty pages that are not under writeback.
    pub fn dirty_pages(&self) -> u64 {
        self.state.borrow().dirty as u64
    }

    /// The process numbers of a cause set.
    pub fn members(&self, causes: CauseSet) -> Vec<u32> {
        self.state.borrow().causes.members(causes).to_vec()
    }

    /// Drops all clean pages, as `echo 3 > /proc/sys/vm/drop_caches` does.
    pub fn drop_caches(&mut self) {
        let mut state = self.state.borrow_mut();
        let clean: Vec<_> = state.pages.iter().filter(|(_, page)| page.is_idle()).map(|(id, _)| id).collect();
        clean.into_iter().for_each(|id| state.drop_page(id));
    }
}

/// Start and length in blocks of the file system on a device that ends at `end`, the swap area excluded.
fn area(description: &Description, end: u64) -> Result<(Block, u64), BootError> {
    let Some(Partition { at_mib, mib }) = description.file_system.partition else {
        return Ok((Block(0), end));
    };
    let blocks = |mib: u64| mib.saturating_mul(MIB);
    if blocks(at_mib).saturating_add(blocks(mib)) > end {
        let ends = end / MIB;
        return Err(BootError::Description {
            machine: description.name.clone(),
            field: "file-system.partition",
            problem: format!(
                "{mib} MiB from {at_mib} MiB on reach beyond the end of the device, which has {ends} MiB"
            ),
        });
    }
    Ok((Block(blocks(at_mib)), blocks(mib)))
}

fn lay_out(fs: &mut FileSystem, image: &Image) -> Result<(), ImageError> {
    let mut writer = super::fs::Image::new(fs);
    for step in &image.steps {
        match step {
            Step::Place(byte) => writer.place(*byte)?,
            Step::Directory(path) => drop(writer.mkdir(path)?),
            Step::File(path, bytes) => drop(writer.file(path, *bytes)?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_beyond_the_device_is_rejected() {
        let mut description = Description::named("linux-6").expect("built in");
        let mut boot = |at_mib, mib| {
            description.file_system.partition = Some(Partition { at_mib, mib });
            Kernel::new(&description, Sector(8 << 21), &Image::new())
        };
        let journal = boot(1024, 2048).expect("it fits").state.borrow().fs.journal_area().expect("ext4");
        // In the middle of the partition: between 1.5 and 2.5 GiB of the device.
        assert!((1536 * MIB..2560 * MIB).contains(&journal.start.0), "{journal:?}");
        let refused = boot(7000, 2048).err().expect("it ends behind the device").to_string();
        assert!(
            refused.contains("file-system.partition")
                && refused.contains("beyond the end of the device, which has 8192 MiB"),
            "{refused}"
        );
        assert!(boot(u64::MAX, 1).is_err() && boot(0, 0).is_err());
    }
}
