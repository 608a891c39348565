//! A job: what its options add up to.

use elevator::{Priority, Sector, Span};

/// The order in which a job visits its region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// One block after the other.
    Sequential,
    /// Random blocks.
    Random,
}

/// Sizes of a direction's requests, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockSizes {
    /// One size.
    Fixed(u64),
    /// Multiples of `min` up to `max`, each as likely as the others.
    Range {
        /// The smallest size.
        min: u64,
        /// The largest size.
        max: u64,
    },
    /// Sizes with their shares of the requests in percent. The last one also has what is missing from 100.
    Split(Vec<(u64, u64)>),
}

impl BlockSizes {
    /// The smallest size.
    #[must_use]
    pub fn min(&self) -> u64 {
        match self {
            Self::Fixed(size) => *size,
            Self::Range { min, .. } => *min,
            Self::Split(sizes) => sizes.iter().map(|&(size, _)| size).min().unwrap_or(512),
        }
    }

    /// The largest size.
    #[must_use]
    pub fn max(&self) -> u64 {
        match self {
            Self::Fixed(size) => *size,
            Self::Range { max, .. } => *max,
            Self::Split(sizes) => sizes.iter().map(|&(size, _)| size).max().unwrap_or(512),
        }
    }
}

/// The distribution of random offsets (`random_distribution`).
#[derive(Clone, PartialEq, Debug)]
pub enum Distribution {
    /// Every block is as likely as the others.
    Uniform,
    /// Zipf's law.
    Zipf {
        /// The exponent; above 0, not 1.
        theta: f64,
        /// Where the most likely block lies, from 0 to 1; at random if `None`.
        center: Option<f64>,
    },
    /// Pareto's law.
    Pareto {
        /// The power, between 0 and 1.
        power: f64,
        /// Where the most likely block lies, from 0 to 1; at random if `None`.
        center: Option<f64>,
    },
    /// The normal distribution, spread over the region by a hash.
    Normal {
        /// Deviation in percent of the region.
        deviation: f64,
        /// Where the middle lies, from 0 to 1; 0.5 if `None`.
        center: Option<f64>,
    },
    /// Zones of the region by direction: (share of the accesses, end of the zone), both in percent.
    Zoned([Vec<(u64, u64)>; 2]),
    /// Zones by direction: (share of the accesses in percent, end of the zone in bytes).
    ZonedAbsolute([Vec<(u64, u64)>; 2]),
}

/// What a job does between two jumps (`rw=randread:8`, `rw_sequencer`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sequencer {
    /// It goes on after the last request.
    Sequential,
    /// It repeats the last request's offset.
    Identical,
}

/// When a job pauses (`thinktime` and its relatives).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThinkTime {
    /// Length of a pause.
    pub span: Span,
    /// Requests from one pause to the next; `None` if only time counts.
    pub blocks: Option<u64>,
    /// Time from one pause to the next.
    pub every: Option<Span>,
}

/// Requests that are submitted and reaped together (`iodepth_batch` and its relatives).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch {
    /// Requests that are submitted together; 0 for as many as `iodepth`.
    pub submit: u32,
    /// Completions for which a full queue waits.
    pub complete: u32,
    /// Requests in flight to which a full queue drains before more are submitted.
    pub low: Option<u32>,
}

impl Default for Batch {
    fn default() -> Self {
        Self { submit: 1, complete: 1, low: None }
    }
}

impl Batch {
    /// Requests in flight, of at most `depth`, at which a queue that was full takes more.
    pub(super) fn rest(&self, depth: u32) -> u32 {
        let rest = depth.saturating_sub(self.complete.max(1));
        self.low.map_or(rest, |low| rest.min(low))
    }
}

/// The part of a file that a job accesses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Region {
    /// The file: one that its section names, or, as in fio, `section.clone.number`.
    pub file: String,
    /// Its beginning in the file, in bytes.
    pub file_offset: u64,
    /// Its first sector, if files lie one after the other on the device.
    pub offset: Sector,
    /// Its length in bytes.
    pub bytes: u64,
}

impl Region {
    /// The sector after it.
    fn end(&self) -> Sector {
        Sector(self.offset.0.saturating_add(self.bytes.div_ceil(512)))
    }
}

/// The order in which a job with several files accesses them (`file_service_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// One after the other, in turns.
    RoundRobin,
    /// One to its end, then the next.
    Sequential,
    /// Drawn at random.
    Random,
}

/// The jobs that end with a job (`exitall`, `exit_what`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// Those of its group (`new_group`).
    Group,
    /// All that run, up to the next `stonewall`.
    Stage,
    /// All.
    All,
}

/// A job, one for each of `numjobs`. Fields in pairs are for reads, and for writes or discards.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Its name. Jobs of one name, clones included, have a number appended.
    pub name: String,
    /// Sequential or random.
    pub pattern: Pattern,
    /// Percentage of random requests of a random job.
    pub percentage_random: [u64; 2],
    /// A random job jumps at every n-th request; 1 for every one.
    pub jump_every: u64,
    /// What it does between two jumps.
    pub sequencer: Sequencer,
    /// Bytes that a sequential job skips after every request; negative to go backwards.
    pub skip: i64,
    /// Distribution of random offsets.
    pub distribution: Distribution,
    /// Every block of the region is accessed once before any is accessed again.
    pub random_map: bool,
    /// Percentage of reads; 100 for readers, 0 for writers.
    pub reads_percent: u64,
    /// Whether it discards instead of writing.
    pub trims: bool,
    /// Whether it then writes what it has discarded (`rw=trimwrite`).
    pub writes_trimmed: bool,
    /// Request sizes.
    pub blocks: [BlockSizes; 2],
    /// The first of the sizes is for sequential, the second for random requests (`bs_is_seq_rand`).
    pub sizes_by_pattern: bool,
    /// Random offsets are multiples of these many bytes.
    pub align: [u64; 2],
    /// What it accesses: a part of each of its files.
    pub regions: Vec<Region>,
    /// The order of its files.
    pub service: Service,
    /// Requests to a file before the next one's turn.
    pub service_requests: u64,
    /// Files that are open at the same time; further ones follow when one has ended.
    pub open_files: usize,
    /// Bytes that a pass transfers.
    pub io_bytes: u64,
    /// Number of passes.
    pub loops: u64,
    /// Requests after which it ends.
    pub requests_max: Option<u64>,
    /// Requests kept in flight; 1 for synchronous engines.
    pub iodepth: u32,
    /// Which of them are submitted and reaped together.
    pub batch: Batch,
    /// Whether it reads what it has written after each pass (`verify`).
    pub verify: bool,
    /// Pauses.
    pub think: ThinkTime,
    /// Limits in bytes a second.
    pub rate: [Option<u64>; 2],
    /// Requests under a limit are issued as a Poisson process, not at equal intervals.
    pub poisson: bool,
    /// A limited job does not make up for pauses.
    pub rate_ignores_think: bool,
    /// It ends after this time at the latest.
    pub runtime: Option<Span>,
    /// It starts again until `runtime`.
    pub time_based: bool,
    /// It starts when all jobs before it have ended.
    pub stonewall: bool,
    /// It starts at this time after the start of the first job at the earliest.
    pub start_delay: Span,
    /// The number of its section, which its clones share.
    pub section: usize,
    /// It starts when the jobs of this section have ended (`wait_for`).
    pub waits_for: Option<usize>,
    /// The number of its group (`new_group`, `stonewall`).
    pub group: u32,
    /// Which jobs end with it.
    pub ends: Option<Ends>,
    /// Writes from one `fsync` to the next; 0 for none.
    pub fsync: u64,
    /// Writes from one `fdatasync` to the next; 0 for none.
    pub fdatasync: u64,
    /// Whether its writes are made durable at its end (`end_fsync`, `fsync_on_close`).
    pub fsync_end: bool,
    /// Whether every write is durable when it completes (`sync`).
    pub sync: bool,
    /// Its I/O priority.
    pub priority: Priority,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Whether it bypasses the page cache.
    pub direct: bool,
}

impl Job {
    /// A job without options.
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            pattern: Pattern::Sequential,
            percentage_random: [100; 2],
            jump_every: 1,
            sequencer: Sequencer::Sequential,
            skip: 0,
            distribution: Distribution::Uniform,
            random_map: true,
            reads_percent: 100,
            trims: false,
            writes_trimmed: false,
            blocks: [BlockSizes::Fixed(4096), BlockSizes::Fixed(4096)],
            sizes_by_pattern: false,
            align: [4096; 2],
            regions: vec![Region::default()],
            service: Service::RoundRobin,
            service_requests: 1,
            open_files: 1,
            io_bytes: 0,
            loops: 1,
            requests_max: None,
            iodepth: 1,
            batch: Batch::default(),
            verify: false,
            think: ThinkTime::default(),
            rate: [None; 2],
            poisson: false,
            rate_ignores_think: false,
            runtime: None,
            time_based: false,
            stonewall: false,
            start_delay: Span::ZERO,
            section: 0,
            waits_for: None,
            group: 0,
            ends: None,
            fsync: 0,
            fdatasync: 0,
            fsync_end: false,
            sync: false,
            priority: Priority::default(),
            seed: 1,
            direct: false,
        }
    }

    /// The smallest request.
    pub(super) fn block_min(&self) -> u64 {
        let used = self.blocks.iter().enumerate().filter(|(way, _)| self.uses(*way));
        used.map(|(_, sizes)| sizes.min()).min().unwrap_or(512)
    }

    /// Whether it has requests of a direction; `bs_is_seq_rand` makes the sizes of both count.
    fn uses(&self, way: usize) -> bool {
        self.sizes_by_pattern || if way == 0 { self.reads_percent > 0 } else { self.reads_percent < 100 }
    }

    pub(super) fn describe(&self) -> String {
        let pattern = match self.pattern {
            Pattern::Sequential => "sequential",
            Pattern::Random => "random",
        };
        let what = match (self.trims, self.writes_trimmed) {
            (true, true) => "discards and writes".to_owned(),
            (true, false) => "discards".to_owned(),
            (false, _) => format!("{}% reads", self.reads_percent),
        };
        let used =
            || self.blocks.iter().enumerate().filter(|(way, _)| self.uses(*way)).map(|(_, sizes)| sizes);
        let (min, max) = (self.block_min(), used().map(BlockSizes::max).max().unwrap_or(512));
        let sizes = if min == max { min.to_string() } else { format!("{min}-{max}") };
        let files = match self.regions.len() {
            0 | 1 => String::new(),
            several => format!("{several} files, "),
        };
        format!("{} ({pattern}, {what}, {sizes} bytes, {files}depth {})", self.name, self.iodepth)
    }

    /// The sector after its last region.
    pub(super) fn end(&self) -> Sector {
        self.regions.iter().map(Region::end).max().unwrap_or_default()
    }
}
