//! From a description and an image to a kernel that runs.

use std::cell::RefCell;
use std::rc::Rc;

use elevator::text::did_you_mean;
use elevator::{CauseSet, Sector, Sectors, Span, Time};
use hashbrown::HashMap;

use super::cache::{CachedFiles, Lru, Pages};
use super::description::{Description, Partition};
use super::fs::{BLOCK_BYTES, BLOCK_SECTORS, Block, FileSystem, ImageError, Unmakeable};
use super::hooks::Hooks;
use super::image::{Image, Step};
use super::io::Bios;
use super::journal::Journal;
use super::memory::Swap;
use super::state::{Rules, State};
use super::tagging::Tagging;
use super::tasks::Sleepers;
use super::throttle::Dirtiers;
use super::watch::{Sample, Watch};
use super::{Causes, Kernel, threads};

/// Why there is no such machine.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BootError {
    /// A machine description that says what cannot be.
    #[error("machine `{machine}`: {field}: {problem}")]
    Description {
        /// Its name.
        machine: String,
        /// What is wrong: section and field.
        field: &'static str,
        /// Why, and what would do.
        problem: String,
    },
    /// A machine description that cannot be read.
    #[error("machine description: {0}")]
    Syntax(String),
    /// No built-in machine has this name.
    #[error("no machine is called `{name}`; there are {}{}", .known.join(", "), did_you_mean(name, .known.iter().copied()))]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<&'static str>,
    },
    /// The file system cannot be made on this device.
    #[error("machine `{machine}`: file-system: {problem}")]
    FileSystem {
        /// The machine's name.
        machine: String,
        /// Why.
        problem: Unmakeable,
    },
    /// A step of the image failed.
    #[error("the image: {0}")]
    Image(#[from] ImageError),
}

/// Blocks of a MiB.
const MIB: u64 = (1 << 20) / BLOCK_BYTES;

impl Rules {
    fn new(description: &Description) -> Self {
        let Description { memory, processor, read_ahead, dirty, file_system, block, .. } = description;
        let pages = |mib: u32| mib as usize * (1 << 20) / BLOCK_BYTES as usize;
        let capacity = pages(memory.mib - memory.taken_mib);
        let nr_requests = block.nr_requests;
        Self {
            capacity,
            read_ahead_max: u64::from(read_ahead.max_kib) * 1024 / BLOCK_BYTES,
            request_pages: (u64::from(block.max_kib) * 1024 / BLOCK_BYTES) as usize,
            read_boundary: None,
            background: capacity * dirty.background_percent as usize / 100,
            limit: capacity * dirty.percent as usize / 100,
            // `queue_congestion_on_threshold` and `_off_threshold`.
            congestion_on: (nr_requests - nr_requests / 8 + 1).min(nr_requests),
            congestion_off: nr_requests - nr_requests / 8 - nr_requests / 16 - 1,
            call: Span::from_nanos(processor.call_ns),
            page: Span::from_nanos(processor.page_ns),
            name: Span::from_nanos(processor.name_ns),
            delayed: file_system.delayed_allocation,
            orders_overwrites: file_system.orders_overwrites,
            stamp: Span::from_millis(file_system.stamp_ms),
            sync_writes: block.sync_writes,
            description: description.clone(),
        }
    }
}

impl Kernel {
    /// A kernel on a machine as described, with a device of this capacity that holds the image.
    ///
    /// # Errors
    /// A description that cannot be; an image that names a directory twice or puts something where no directory is; a file
    /// system too small for its files.
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
        let jobs = threads::start(&state);
        let mut kernel = Self { state, jobs: Vec::new() };
        for (task, job) in jobs {
            kernel.put_job(task, job);
            // Until it sleeps; there is nothing to do yet, so none of them submits anything.
            let _ = kernel.poll(task);
        }
        Ok(kernel)
    }

    /// Has reads end at multiples of so many sectors of the device.
    pub(crate) fn cut_reads_at(&mut self, boundary: Sectors) {
        let pages = u64::from(boundary.0) / BLOCK_SECTORS;
        self.state.borrow_mut().rules.read_boundary = (pages > 0).then_some(pages);
    }

    /// The machine's state, once a second of virtual time.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        self.state.borrow().watch.samples().to_vec()
    }

    /// Pages that are dirty and not on their way to the device.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.state.borrow().dirty as u64
    }

    /// Who is behind a set of causes, as process numbers.
    #[must_use]
    pub fn members(&self, causes: CauseSet) -> Vec<u32> {
        self.state.borrow().causes.members(causes).to_vec()
    }

    /// Forgets every page that is clean, as `echo 3 > /proc/sys/vm/drop_caches` does.
    pub fn drop_caches(&mut self) {
        let mut state = self.state.borrow_mut();
        let clean: Vec<_> = state.pages.iter().filter(|(_, page)| page.is_idle()).map(|(id, _)| id).collect();
        clean.into_iter().for_each(|id| state.drop_page(id));
    }
}

/// Where the file system begins, and how many blocks it has, on a device that ends, but for its swap area, at `end`.
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
    fn a_file_system_has_its_partition_or_says_that_there_is_no_such_place() {
        let mut description = Description::named("linux-6").expect("built in");
        let mut boot = |at_mib, mib| {
            description.file_system.partition = Some(Partition { at_mib, mib });
            Kernel::new(&description, Sector(8 << 21), &Image::new())
        };
        let journal = boot(1024, 2048).expect("it fits").state.borrow().fs.journal_area().expect("ext4");
        // In the middle: between 1.5 and 2.5 GiB of the device.
        assert!((1536 * MIB..2560 * MIB).contains(&journal.start.0), "{journal:?}");
        let refused = boot(7000, 2048).err().expect("it ends behind the device").to_string();
        assert!(
            refused.contains("file-system.partition")
                && refused.contains("beyond the end of the device, which has 8192 MiB"),
            "{refused}"
        );
        assert!(boot(u64::MAX, 1).is_err() && boot(0, 0).is_err());
    }

    /// `blk_queue_congestion_threshold`: a queue can always become congested.
    #[test]
    fn a_short_queue_becomes_congested_when_it_is_full() {
        let mut description = Description::named("pc-2004").expect("built in");
        let mut thresholds = |nr_requests| {
            description.block.nr_requests = nr_requests;
            let rules = Rules::new(&description);
            (rules.congestion_on, rules.congestion_off)
        };
        assert_eq!([4, 7, 8, 128].map(&mut thresholds), [(4, 3), (7, 6), (8, 6), (113, 103)]);
    }
}
