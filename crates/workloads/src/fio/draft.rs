//! [`Draft`]: from the options of a section and the global ones to a job.

use elevator::{PriorityClass, Random, Span};

use super::job::{Batch, BlockSizes, Distribution, Ends, Job, Pattern, Region, Sequencer, Service};
use super::options::{Support, support};
use super::parse::{JobFileError, Section, Setting};
use super::values::{
    Amount, ByDirection, block, bytes, distribution, flag, lists, number, percentages, position, time,
    whole_sectors,
};

const SECOND: u64 = 1_000_000_000;
/// The most files of a job.
const FILES_MAX: u64 = 100_000;
const MICROSECOND: u64 = 1_000;

/// A job before it is cloned, with the options that depend on others.
pub(super) struct Draft {
    pub(super) job: Job,
    pub(super) line: usize,
    /// The size of the device, if the jobs run on one.
    device_bytes: Option<u64>,
    /// Whether its size is that of the device, or a part of it.
    pub(super) is_of_device: bool,
    /// The names of its files, if it names any.
    pub(super) files: Vec<String>,
    /// The number of its files, if it names none.
    nrfiles: usize,
    open_files: Option<usize>,
    /// An order of files that is not supported, which does not matter for one file.
    other_service: bool,
    numjobs: u64,
    offset_bytes: u64,
    region_bytes: u64,
    pub(super) new_group: bool,
    pub(super) exits: bool,
    pub(super) exit_what: Ends,
    pub(super) wait_for: Option<String>,
    start_delay: (Span, Span),
    offset: Amount,
    offset_increment: Amount,
    offset_align: Option<u64>,
    engine: Engine,
    size: Option<Amount>,
    file_size: Option<u64>,
    io_size: Option<Amount>,
    ramp: Span,
    batch: Batch,
    verify: bool,
    do_verify: bool,
    mixed: bool,
    reads: Option<u64>,
    sizes: [BlockSizes; 3],
    align: ByDirection<u64>,
    percentage_random: ByDirection<u64>,
    rate: ByDirection<u64>,
    rate_iops: ByDirection<u64>,
    distribution: Option<String>,
    think_blocks: Option<u64>,
}

/// The problem of a value with a variable.
fn not_replaced(value: &str) -> String {
    match value.split_once("${").and_then(|(_, rest)| rest.split_once('}')) {
        Some((name, _)) => format!(
            "environment variables are not replaced, so that results depend on the file alone; write the value of {name}, or replace all variables \
             with 'envsubst <JOB.fio >NEW.fio'"
        ),
        None => "fio's keywords ($jobname, $mb_memory, ...) are not replaced; write the value".to_owned(),
    }
}

impl Draft {
    fn new(name: &str) -> Self {
        Self {
            job: Job::new(name),
            line: 0,
            device_bytes: None,
            is_of_device: false,
            files: Vec::new(),
            nrfiles: 1,
            open_files: None,
            other_service: false,
            numjobs: 1,
            offset_bytes: 0,
            region_bytes: 0,
            new_group: false,
            exits: false,
            exit_what: Ends::Group,
            wait_for: None,
            start_delay: (Span::ZERO, Span::ZERO),
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            offset_align: None,
            engine: Engine::Sync,
            size: None,
            file_size: None,
            io_size: None,
            ramp: Span::ZERO,
            batch: Batch::default(),
            verify: false,
            do_verify: true,
            mixed: false,
            reads: None,
            sizes: [BlockSizes::Fixed(4096), BlockSizes::Fixed(4096), BlockSizes::Fixed(4096)],
            align: ByDirection::default(),
            percentage_random: ByDirection::default(),
            rate: ByDirection::default(),
            rate_iops: ByDirection::default(),
            distribution: None,
            think_blocks: None,
        }
    }

    pub(super) fn read(
        file: &str,
        section: &Section,
        settings: &[&Setting],
        device_bytes: Option<u64>,
        notes: &mut Vec<String>,
    ) -> Result<Self, Vec<JobFileError>> {
        let mut draft = Self { line: section.line, device_bytes, ..Self::new(&section.name) };
        let apply = |setting: &&Setting| draft.apply(file, setting, notes).err();
        let problems: Vec<JobFileError> = settings.iter().filter_map(apply).collect();
        if !problems.is_empty() {
            return Err(problems);
        }
        let error = |problem| vec![JobFileError { file: file.to_owned(), line: section.line, problem }];
        draft.complete().map_err(|problem| error(format!("[{}] {problem}", section.name)))?;
        Ok(draft)
    }

    fn apply(&mut self, file: &str, setting: &Setting, notes: &mut Vec<String>) -> Result<(), JobFileError> {
        let Setting { name, line, .. } = setting;
        let value = setting.value.as_deref().unwrap_or("1");
        let applied = match support(name) {
            Ok(Support::NoEffect(reason)) => {
                // The table of options is also documentation, in Markdown.
                let reason = reason.replace('`', "'");
                note(notes, format!("{file}:{line}: '{name}' has no effect: {reason}"));
                Ok(())
            }
            Ok(Support::Only(values, _)) if values.contains(&value) => Ok(()),
            Ok(Support::Only(_, problem) | Support::Rejected(problem)) => Err(problem.replace('`', "'")),
            Ok(Support::Applied(_)) if value.contains('$') && name != "filename" => Err(not_replaced(value)),
            Ok(Support::Applied(_)) => self.set(name, value),
            Err(unknown) => Err(unknown),
        };
        applied.map_err(|problem| JobFileError {
            file: file.to_owned(),
            line: *line,
            problem: format!("option '{name}={value}': {problem}"),
        })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if self.set_amount(name, value)? || self.set_order(name, value)? || self.set_files(name, value)? {
            return Ok(());
        }
        if self.set_start(name, value)? {
            return Ok(());
        }
        let job = &mut self.job;
        match name {
            "numjobs" => self.numjobs = number(value, 1, 4096)?,
            "iodepth" => job.iodepth = number(value, 1, 4096)? as u32,
            "ioengine" => self.engine = engine(value)?,
            "iodepth_batch" | "iodepth_batch_submit" => self.batch.submit = number(value, 0, 4096)? as u32,
            "iodepth_batch_complete" | "iodepth_batch_complete_min" => {
                self.batch.complete = number(value, 0, 4096)? as u32;
            }
            "iodepth_low" => self.batch.low = Some(number(value, 1, 4096)? as u32),
            "ramp_time" => self.ramp = time(value, SECOND)?,
            "verify" => self.verify = verify(value)?,
            "do_verify" => self.do_verify = flag(value)?,
            "direct" => job.direct = flag(value)?,
            "buffered" => job.direct = !flag(value)?,
            "sync" => job.sync = sync(value)?,
            "thinktime" => job.think.span = time(value, MICROSECOND)?,
            // A processor does nothing else meanwhile; fio cuts it to `thinktime`, so it never lengthens the pause.
            "thinktime_spin" => _ = time(value, MICROSECOND)?,
            "thinktime_blocks" => self.think_blocks = Some(number(value, 1, u64::MAX)?),
            "thinktime_iotime" => job.think.every = Some(time(value, SECOND)?).filter(|&t| t > Span::ZERO),
            "rate" => self.rate = ByDirection::parse(value, |rate| positive(bytes(rate)?))?,
            "rate_iops" => self.rate_iops = ByDirection::parse(value, |iops| number(iops, 1, SECOND))?,
            "rate_process" => job.poisson = one_of(value, &[("linear", false), ("poisson", true)])?,
            "rate_ignore_thinktime" => job.rate_ignores_think = flag(value)?,
            "runtime" | "timeout" => {
                job.runtime = Some(time(value, SECOND)?).filter(|&runtime| runtime > Span::ZERO);
            }
            "time_based" => job.time_based = flag(value)?,
            "fsync" => job.fsync = number(value, 0, u64::MAX)?,
            "fdatasync" => job.fdatasync = number(value, 0, u64::MAX)?,
            "end_fsync" | "fsync_on_close" => job.fsync_end = flag(value)?,
            "prio" => job.priority.level = number(value, 0, 7)? as u8,
            "prioclass" => job.priority.class = class(value)?,
            "randseed" => job.seed = number(value, 0, u64::MAX)?,
            _ => return Err("is listed as applied but is not; this is a bug".to_owned()),
        }
        Ok(())
    }

    /// Options of its files; whether `name` is one.
    fn set_files(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "filename" => {
                self.files = names(value);
                if self.files.is_empty() {
                    return Err("expected a file, or several with ':' between them".to_owned());
                }
            }
            "nrfiles" | "nr_files" => self.nrfiles = number(value, 1, FILES_MAX)? as usize,
            // As in fio, 0 is all of them.
            "openfiles" => self.open_files = Some(number(value, 0, u64::MAX)? as usize).filter(|&n| n > 0),
            "file_service_type" => {
                let (order, requests) = value.split_once(':').unwrap_or((value, ""));
                let service = match order {
                    "roundrobin" => Some(Service::RoundRobin),
                    "sequential" => Some(Service::Sequential),
                    "random" => Some(Service::Random),
                    "zipf" | "pareto" | "normal" | "gauss" => None,
                    _ => return Err("expected roundrobin, sequential or random".to_owned()),
                };
                self.other_service = service.is_none();
                if let Some(service) = service {
                    self.job.service = service;
                    let requests = if requests.is_empty() { 1 } else { number(requests, 1, u64::MAX)? };
                    self.job.service_requests = requests;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Options of when it starts, and which jobs end with it; whether `name` is one.
    fn set_start(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "startdelay" | "start_delay" => {
                let (least, most) = value.split_once('-').unwrap_or((value, value));
                self.start_delay = (time(least.trim(), SECOND)?, time(most.trim(), SECOND)?);
                if self.start_delay.0 > self.start_delay.1 {
                    return Err("expected the shorter time first".to_owned());
                }
            }
            "stonewall" | "wait_for_previous" => self.job.stonewall = flag(value)?,
            "wait_for" => self.wait_for = Some(value.to_owned()),
            "new_group" => self.new_group = flag(value)?,
            "exitall" => self.exits = flag(value)?,
            "exit_what" => {
                let known = [("group", Ends::Group), ("stonewall", Ends::Stage), ("all", Ends::All)];
                self.exit_what = one_of(value, &known)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The number of its files.
    pub(super) fn file_count(&self) -> usize {
        if self.files.is_empty() { self.nrfiles } else { self.files.len() }
    }

    /// Options of how much is accessed; whether `name` is one.
    fn set_amount(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "size" => {
                // As in fio, 0 is the whole file.
                self.size = Some(Amount::parse(value)?).filter(|size| *size != Amount::Bytes(0));
                if self.size == Some(Amount::Percent(0)) {
                    return Err("must be above 0%".to_owned());
                }
            }
            "filesize" => self.file_size = Some(bytes(value)?),
            "io_size" | "io_limit" => self.io_size = Some(Amount::parse(value)?),
            "number_ios" => self.job.requests_max = Some(number(value, 1, u64::MAX)?),
            // As in fio, 0 is once.
            "loops" => self.job.loops = number(value, 0, 1_000_000)?.max(1),
            "offset" => self.offset = position(value)?,
            "offset_increment" => self.offset_increment = position(value)?,
            "offset_align" => self.offset_align = Some(block(value)?),
            "bs" | "blocksize" => {
                if value.contains('-') {
                    return Err("use bsrange for a range of sizes".to_owned());
                }
                self.set_sizes(ByDirection::parse(value, block)?, BlockSizes::Fixed);
            }
            "bsrange" | "blocksize_range" => {
                let ranges = ByDirection::parse(value, range)?;
                self.set_sizes(ranges, |(min, max)| BlockSizes::Range { min, max });
            }
            "bssplit" => {
                for (of, split) in lists(value)?.into_iter().enumerate() {
                    if let Some(split) = split {
                        self.sizes[of] = BlockSizes::Split(percentages(split, block)?);
                    }
                }
            }
            "bs_is_seq_rand" => self.job.sizes_by_pattern = flag(value)?,
            "blockalign" | "ba" => self.align = ByDirection::parse(value, block)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_sizes<T: Copy>(&mut self, sizes: ByDirection<T>, make: impl Fn(T) -> BlockSizes) {
        for (of, size) in self.sizes.iter_mut().zip(sizes.0) {
            if let Some(size) = size {
                *of = make(size);
            }
        }
    }

    /// Options of the order of accesses; whether `name` is one.
    fn set_order(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "rw" | "readwrite" => self.set_pattern(value)?,
            "rw_sequencer" => {
                let known = [("sequential", Sequencer::Sequential), ("identical", Sequencer::Identical)];
                self.job.sequencer = one_of(value, &known)?;
            }
            "rwmixread" => self.reads = Some(number(value, 0, 100)?),
            "rwmixwrite" => self.reads = Some(100 - number(value, 0, 100)?),
            "percentage_random" => {
                self.percentage_random = ByDirection::parse(value, |percent| number(percent, 0, 100))?;
            }
            "random_distribution" => {
                // Whether the job trims decides between the two, and may be set by a later line.
                if let (Err(problem), Err(_)) = (distribution(value, false), distribution(value, true)) {
                    return Err(problem);
                }
                self.distribution = Some(value.to_owned());
            }
            "norandommap" => self.job.random_map = !flag(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_pattern(&mut self, value: &str) -> Result<(), String> {
        let (pattern, behind) = value.split_once(':').map_or((value, None), |(rw, n)| (rw, Some(n)));
        let pattern_of =
            |pattern: &str| pattern.strip_suffix("trimwrite").map(|_| pattern.replace("trimwrite", "trim"));
        let both = pattern_of(pattern);
        let (order, reads, trims) = match both.as_deref().unwrap_or(pattern) {
            "read" => (Pattern::Sequential, 100, false),
            "write" => (Pattern::Sequential, 0, false),
            "trim" => (Pattern::Sequential, 0, true),
            "randread" => (Pattern::Random, 100, false),
            "randwrite" => (Pattern::Random, 0, false),
            "randtrim" => (Pattern::Random, 0, true),
            "rw" | "readwrite" => (Pattern::Sequential, 50, false),
            "randrw" => (Pattern::Random, 50, false),
            _ => {
                let known = "expected read, write, trim, rw, trimwrite, or rand before one of these";
                return Err(known.to_owned());
            }
        };
        (self.job.jump_every, self.job.skip) = (1, 0);
        match (order, behind) {
            (Pattern::Random, Some(n)) => self.job.jump_every = number(n, 1, u64::MAX)?,
            (Pattern::Sequential, Some(skip)) => {
                let (sign, skip) = skip.strip_prefix('-').map_or((1, skip), |skip| (-1, skip));
                let skip = whole_sectors(skip)?;
                self.job.skip = sign * i64::try_from(skip).map_err(|_| "is too large".to_owned())?;
            }
            (_, None) => {}
        }
        (self.job.pattern, self.job.reads_percent, self.job.trims) = (order, reads, trims);
        self.job.writes_trimmed = both.is_some();
        self.mixed = reads == 50;
        Ok(())
    }

    /// Works out what depends on several options.
    fn complete(&mut self) -> Result<(), String> {
        let job = &mut self.job;
        if self.mixed {
            job.reads_percent = self.reads.unwrap_or(50);
        }
        match self.engine {
            Engine::Async => {}
            Engine::Sync => job.iodepth = 1,
            Engine::Mapped => (job.iodepth, job.direct) = (1, false),
        }
        job.batch = self.batch;
        job.runtime = job.runtime.map(|runtime| runtime + self.ramp);
        job.verify = self.verify && self.do_verify && !job.trims && job.reads_percent < 100;
        if self.sizes != Self::new("").sizes {
            let [reads, writes, trims] = self.sizes.clone();
            job.blocks = [reads, if job.trims && !job.writes_trimmed { trims } else { writes }];
        }
        let align = self.align.of(job.trims);
        job.align = [0, 1].map(|way| align[way].unwrap_or(job.blocks[way].min()));
        job.percentage_random = self.percentage_random.of(job.trims).map(|percent| percent.unwrap_or(100));
        if self.other_service && self.file_count() > 1 {
            return Err(
                "file_service_type: of several files, only roundrobin, sequential and random are supported"
                    .to_owned(),
            );
        }
        self.limit_rate()?;
        self.pause();
        self.set_distribution()?;
        self.set_region()
    }

    fn limit_rate(&mut self) -> Result<(), String> {
        let job = &mut self.job;
        let (rate, iops) = (self.rate.of(job.trims), self.rate_iops.of(job.trims));
        if self.rate != ByDirection::default() && self.rate_iops != ByDirection::default() {
            return Err("has both rate and rate_iops; remove one".to_owned());
        }
        // fio limits operations by bytes, counting the smallest block size.
        let limit = |way: usize| rate[way].or(iops[way].map(|n| n.saturating_mul(job.blocks[way].min())));
        job.rate = [limit(0), limit(1)];
        Ok(())
    }

    /// Pauses count requests unless only a time is given.
    fn pause(&mut self) {
        let think = &mut self.job.think;
        think.blocks = self.think_blocks.or(if think.every.is_none() { Some(1) } else { None });
    }

    fn set_distribution(&mut self) -> Result<(), String> {
        let Some(value) = &self.distribution else { return Ok(()) };
        self.job.distribution = distribution(value, self.job.trims)
            .map_err(|problem| format!("random_distribution={value}: {problem}"))?;
        let maps = matches!(
            self.job.distribution,
            Distribution::Uniform | Distribution::Zoned(_) | Distribution::ZonedAbsolute(_)
        );
        self.job.random_map &= maps;
        Ok(())
    }

    /// The size of its file, if it depends on it: a given one, or the device's.
    fn total(&self) -> Result<u64, String> {
        let missing = "needs a size in bytes, or filesize: there is no file or device to take it from";
        self.file_size.or(self.device_bytes).ok_or_else(|| missing.to_owned())
    }

    fn set_region(&mut self) -> Result<(), String> {
        let amounts = [self.size, Some(self.offset), Some(self.offset_increment)];
        let is_part = self.size.is_none() || amounts.iter().flatten().any(|amount| amount.is_percentage());
        let count = self.file_count() as u64;
        if is_part && count > 1 && self.file_size.is_none() {
            return Err(format!(
                "has {count} files and needs a size in bytes, or filesize: the modelled device is one file"
            ));
        }
        self.is_of_device = is_part && self.file_size.is_none();
        let total = if is_part { self.total()? } else { 0 };
        let offset = self.aligned(self.offset, total);
        self.offset_bytes = offset;
        let behind = total.saturating_sub(offset);
        let region = match (self.file_size, self.size) {
            (Some(file), _) => file.saturating_sub(offset),
            (None, Some(Amount::Bytes(size))) => size / count,
            (None, Some(part)) => part.of(total).min(behind),
            (None, None) => behind,
        };
        self.region_bytes = region;
        let job = &mut self.job;
        let least = job.block_min();
        // What is left of a region behind its last whole block is never accessed.
        let once = (region - region % least).saturating_mul(count);
        let size = match self.size {
            None => once,
            Some(Amount::Bytes(size)) => size.min(once),
            Some(part) => part.of(total).saturating_mul(count).min(once),
        };
        job.io_bytes = self.io_size.map_or(size, |amount| amount.of(size));
        if region < least {
            let each = if count > 1 { format!(" for each of its {count} files") } else { String::new() };
            return Err(format!("its size of {region} bytes{each} holds no block of {least} bytes"));
        }
        if let Distribution::ZonedAbsolute(zones) = &job.distribution
            && zones.iter().flatten().any(|&(_, end)| end > region)
        {
            return Err(format!("a zone of random_distribution ends beyond its size of {region} bytes"));
        }
        if job.time_based && job.runtime.is_none() {
            return Err("is time_based and has no runtime".to_owned());
        }
        Ok(())
    }

    /// A position in a file of `total` bytes. As in fio, percentages are rounded down to whole blocks.
    fn aligned(&self, amount: Amount, total: u64) -> u64 {
        let unit = self.offset_align.unwrap_or_else(|| self.job.block_min());
        let bytes = amount.of(total);
        if amount.is_percentage() { bytes - bytes % unit } else { bytes }
    }

    pub(super) fn clones(&self, first: u64) -> Result<Vec<Job>, String> {
        let total = if self.is_of_device { self.device_bytes } else { None };
        let increment = self.aligned(self.offset_increment, total.or(self.file_size).unwrap_or(0));
        let count = self.file_count();
        let clone = |n: u64| {
            let mut job = self.job.clone();
            let file_offset = self.offset_bytes.saturating_add(n.saturating_mul(increment));
            job.seed = job.seed.wrapping_add((first + n).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            // Clones wait for others, not for each other.
            job.stonewall &= n == 0;
            let (least, most) = self.start_delay;
            let range = (most - least).as_nanos().saturating_add(1);
            job.start_delay = least + Span::from_nanos(Random::new(!job.seed).below(range));
            let mut bytes = self.region_bytes;
            // The device ends the regions of later clones.
            if let Some(left) = total.map(|total| total.saturating_sub(file_offset))
                && left < bytes
            {
                let least = job.block_min();
                if left < least {
                    return Err(format!("its clone {} begins beyond the end of the device", n + 1));
                }
                bytes = left;
                if self.io_size.is_none() {
                    job.io_bytes = job.io_bytes.min(left - left % least);
                }
            }
            let name = |number: usize| match self.files.get(number) {
                Some(named) => named.clone(),
                None => format!("{}.{n}.{number}", job.name),
            };
            let region = |number| Region { file: name(number), file_offset, bytes, ..Region::default() };
            job.regions = (0..count).map(region).collect();
            job.open_files = self.open_files.unwrap_or(count);
            Ok(job)
        };
        (0..self.numjobs).map(clone).collect()
    }
}

/// The names of a list. As in fio, `:` separates them unless `\` precedes it, and empty ones do not count.
fn names(list: &str) -> Vec<String> {
    let parts = list.replace("\\:", "\0");
    let parts = parts.split(':').map(|part| part.trim().replace('\0', ":"));
    parts.filter(|part| !part.is_empty()).collect()
}

fn note(notes: &mut Vec<String>, text: String) {
    if !notes.contains(&text) {
        notes.push(text);
    }
}

fn positive(number: u64) -> Result<u64, String> {
    if number > 0 { Ok(number) } else { Err("must be above 0".to_owned()) }
}

fn one_of<T: Copy>(value: &str, known: &[(&str, T)]) -> Result<T, String> {
    let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" or ");
    known
        .iter()
        .find(|(name, _)| *name == value)
        .map(|(_, meaning)| *meaning)
        .ok_or_else(|| format!("expected {}", names()))
}

/// `1k-4k`.
fn range(value: &str) -> Result<(u64, u64), String> {
    let (min, max) = value.split_once('-').ok_or("expected a range such as 4k-16k")?;
    let (min, max) = (block(min)?, block(max)?);
    if min <= max { Ok((min, max)) } else { Err("expected the smaller size first".to_owned()) }
}

/// How an engine issues requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// One at a time.
    Sync,
    /// Up to `iodepth`.
    Async,
    /// By page faults: one at a time, through the page cache.
    Mapped,
}

const ENGINES: &[(&str, Engine)] = &[
    ("sync", Engine::Sync),
    ("psync", Engine::Sync),
    ("vsync", Engine::Sync),
    ("pvsync", Engine::Sync),
    ("pvsync2", Engine::Sync),
    ("mmap", Engine::Mapped),
    ("libaio", Engine::Async),
    ("io_uring", Engine::Async),
    ("io_uring_cmd", Engine::Async),
    ("posixaio", Engine::Async),
];

fn engine(value: &str) -> Result<Engine, String> {
    let known = ENGINES.iter().find(|(name, _)| *name == value).map(|&(_, engine)| engine);
    known.ok_or_else(|| {
        let names: Vec<&str> = ENGINES.iter().map(|&(name, _)| name).collect();
        format!("supported engines: {}", names.join(", "))
    })
}

/// The methods of fio's manual. All of them read what was written.
const VERIFY: [&str; 18] = [
    "md5",
    "crc64",
    "crc32c",
    "crc32c-intel",
    "crc32",
    "crc16",
    "crc7",
    "xxhash",
    "sha512",
    "sha256",
    "sha1",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "meta",
    "pattern",
    "pattern_hdr",
];

fn verify(value: &str) -> Result<bool, String> {
    match value {
        "0" | "null" => Ok(false),
        _ if VERIFY.contains(&value) => Ok(true),
        _ => Err(format!("expected null, {}", VERIFY.join(", "))),
    }
}

fn sync(value: &str) -> Result<bool, String> {
    one_of(value, &[("none", false), ("sync", true), ("dsync", true), ("0", false), ("1", true)])
}

fn class(value: &str) -> Result<PriorityClass, String> {
    match value {
        "0" | "2" => Ok(PriorityClass::BestEffort),
        "1" => Ok(PriorityClass::RealTime),
        "3" => Ok(PriorityClass::Idle),
        _ => Err("expected 1 (real time), 2 (best effort) or 3 (idle)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::OPTIONS;
    use super::*;

    #[test]
    fn every_applied_option_is_set() {
        for (name, support) in OPTIONS {
            if matches!(support, Support::Applied(_)) {
                let problem = Draft::new("x").set(name, "1").err().unwrap_or_default();
                assert!(!problem.contains("this is a bug"), "{name}");
            }
        }
    }
}
