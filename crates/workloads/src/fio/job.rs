//! What a job does, from its options and the global ones.

use std::collections::{BTreeMap, BTreeSet};

use elevator::text::did_you_mean;
use elevator::{Priority, PriorityClass, Sector, Sectors, Span};

use super::parse::{JobFileError, Section, Setting, size, span};

/// The order in which a job goes over its region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// One block behind the other.
    Sequential,
    /// Blocks drawn at random, with repetition (fio's `norandommap`).
    Random,
}

/// A job, one for each of `numjobs`.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Its name; jobs of one name, clones included, carry a number behind it.
    pub name: String,
    /// Sequential or random.
    pub pattern: Pattern,
    /// Percentage of reads; 100 for readers, 0 for writers.
    pub reads_percent: u64,
    /// Whether it discards instead of writing.
    pub trims: bool,
    /// Block size.
    pub block: Sectors,
    /// Where its region begins.
    pub offset: Sector,
    /// Length of its region in bytes.
    pub region_bytes: u64,
    /// Bytes that it transfers before it ends.
    pub io_bytes: u64,
    /// Requests kept in flight; 1 for synchronous engines.
    pub iodepth: u32,
    /// Think time after each `thinktime_blocks` requests.
    pub think: Span,
    /// Requests between think times.
    pub think_every: u64,
    /// When it ends at the latest, since its start.
    pub runtime: Option<Span>,
    /// Whether it begins again until `runtime`.
    pub time_based: bool,
    /// Whether it starts only when all those before it have ended (`stonewall`).
    pub stonewall: bool,
    /// When it starts, since it may.
    pub start_delay: Span,
    /// Writes between flushes; 0 for none.
    pub fsync: u64,
    /// Whether these make the data durable alone (`fdatasync`), which only a file tells apart.
    pub fsync_data: bool,
    /// Whether what it wrote is made durable at its end (`end_fsync`, `fsync_on_close`).
    pub fsync_end: bool,
    /// Its I/O priority.
    pub priority: Priority,
    /// Least time between its requests (`rate_iops`).
    pub pace: Span,
    /// Seed of its random offsets.
    pub seed: u64,
    /// Its file: the one that it names, or one of its section and clone, which fio calls `section.clone.0`.
    pub filename: String,
    /// Whether it goes past the page cache.
    pub direct: bool,
    /// Where in its file its region begins, in bytes.
    pub file_offset: u64,
}

impl Job {
    pub(super) fn describe(&self) -> String {
        let pattern = match self.pattern {
            Pattern::Sequential => "sequential",
            Pattern::Random => "random",
        };
        let what = if self.trims { "discards".to_owned() } else { format!("{}% reads", self.reads_percent) };
        format!("{} ({pattern}, {what}, {} bytes, depth {})", self.name, self.block.bytes(), self.iodepth)
    }

    /// The sector behind its region.
    pub(super) fn end(&self) -> Sector {
        Sector(self.offset.0.saturating_add(self.region_bytes.div_ceil(512)))
    }
}

/// Options that [`Draft::set`] knows.
const HONOURED: &[&str] = &[
    "filename",
    "rw",
    "readwrite",
    "bs",
    "blocksize",
    "size",
    "filesize",
    "io_size",
    "io_limit",
    "offset",
    "offset_increment",
    "numjobs",
    "iodepth",
    "ioengine",
    "direct",
    "buffered",
    "thinktime",
    "thinktime_blocks",
    "rwmixread",
    "rwmixwrite",
    "runtime",
    "timeout",
    "time_based",
    "startdelay",
    "fsync",
    "fdatasync",
    "end_fsync",
    "fsync_on_close",
    "prio",
    "prioclass",
    "rate_iops",
    "randseed",
    "number_ios",
    "stonewall",
    "wait_for_previous",
    "wait_for",
];

/// Options that make no difference to the requests that a job makes, or only to how fio reports.
const NO_DIFFERENCE: &[&str] = &[
    "group_reporting",
    "thread",
    "directory",
    "name",
    "description",
    "norandommap",
    "randrepeat",
    "invalidate",
    "create_on_open",
    "create_serialize",
    "overwrite",
    "fallocate",
    "unlink",
    "refill_buffers",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "lat_percentiles",
    "clat_percentiles",
    "percentile_list",
    "log_avg_msec",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "buffer_compress_percentage",
    "gtod_reduce",
    "cpus_allowed",
    "allow_file_create",
    "fadvise_hint",
    "nice",
    "unit_base",
    "zero_buffers",
    "scramble_buffers",
    "random_generator",
    "hipri",
    "registerfiles",
    "fixedbufs",
    "sqthread_poll",
    "status-interval",
    "eta",
];

/// Options that are passed over although they say something, and what it is.
const PASSED_OVER: &[(&str, &str)] =
    &[("ramp_time", "is passed over: a job runs for its runtime alone, and all of that is measured")];

const ONE_FILE: &str = "one file a job is honoured; make a job of each";
const ONE_BY_ONE: &str = "requests are submitted and reaped one by one; only 1 is honoured";
const MAY_MATTER: &str = "is not honoured at the level of requests, and may matter; remove it if it does not";

/// Options that say with these values what happens anyway, and what is wrong with any other.
const NO_DIFFERENCE_IF: &[(&str, &[&str], &str)] = &[
    ("nrfiles", &["1"], ONE_FILE),
    ("iodepth_batch", &["0", "1"], ONE_BY_ONE),
    ("iodepth_batch_submit", &["0", "1"], ONE_BY_ONE),
    ("iodepth_batch_complete", &["0", "1"], ONE_BY_ONE),
    ("iodepth_batch_complete_min", &["0", "1"], ONE_BY_ONE),
    ("kb_base", &["1024"], "only 1024 is honoured; write the sizes in bytes"),
];

pub(super) fn jobs(
    file: &str,
    sections: &[Section],
    notes: &mut Vec<String>,
) -> Result<Vec<Job>, JobFileError> {
    let mut globals: Vec<Setting> = Vec::new();
    let mut drafts = Vec::new();
    for section in sections {
        // fio looks at the first six letters.
        if section.name.starts_with("global") {
            globals.extend(section.settings.iter().cloned());
            continue;
        }
        let settings: Vec<&Setting> = globals.iter().chain(&section.settings).collect();
        drafts.push(Draft::read(file, section, &settings, notes)?);
    }
    if drafts.is_empty() {
        let problem = "has no job: a section beside [global] is needed".to_owned();
        return Err(JobFileError { file: file.to_owned(), line: 1, problem });
    }
    let mut jobs = Vec::new();
    for draft in drafts {
        jobs.extend(draft.clones(jobs.len() as u64));
    }
    place(&mut jobs);
    tell_apart(&mut jobs);
    Ok(jobs)
}

/// Jobs of one name, whether clones or sections, get numbers: fio reports each by itself, and so does whoever measures by name.
fn tell_apart(jobs: &mut [Job]) {
    let mut named: BTreeMap<String, u64> = BTreeMap::new();
    for job in &*jobs {
        *named.entry(job.name.clone()).or_default() += 1;
    }
    let single: BTreeSet<String> =
        named.iter().filter(|&(_, &jobs)| jobs == 1).map(|(name, _)| name.clone()).collect();
    // From here on the number that each name had last.
    named.values_mut().for_each(|jobs| *jobs = 0);
    for job in jobs.iter_mut().filter(|job| !single.contains(&job.name)) {
        let Some(number) = named.get_mut(&job.name) else { continue };
        *number += 1;
        while single.contains(&format!("{}-{number}", job.name)) {
            *number += 1;
        }
        job.name = format!("{}-{number}", job.name);
    }
}

/// Where files lie: one behind the other. Jobs of the same file share it.
fn place(jobs: &mut [Job]) {
    let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
    for job in &*jobs {
        let length = lengths.entry(job.filename.clone()).or_default();
        *length = (job.file_offset / 512 + job.region_bytes.div_ceil(512)).max(*length);
    }
    let (mut bases, mut end) = (BTreeMap::new(), 0_u64);
    for job in jobs {
        let base = *bases.entry(job.filename.clone()).or_insert_with_key(|file| {
            let base = end;
            end = end.saturating_add(lengths[file]);
            base
        });
        job.offset = Sector(base.saturating_add(job.file_offset / 512));
    }
}

/// A job before it is cloned.
struct Draft {
    job: Job,
    filename: Option<String>,
    numjobs: u64,
    offset_increment: u64,
    engine_is_sync: bool,
    size: Option<u64>,
    file_size: Option<u64>,
    io_size: Option<u64>,
    reads: Option<u64>,
    fsync: u64,
    fdatasync: u64,
}

impl Draft {
    fn new(name: &str) -> Self {
        let job = Job {
            name: name.to_owned(),
            pattern: Pattern::Sequential,
            reads_percent: 100,
            trims: false,
            block: Sectors(8),
            offset: Sector(0),
            region_bytes: 0,
            io_bytes: 0,
            iodepth: 1,
            think: Span::ZERO,
            think_every: 1,
            runtime: None,
            time_based: false,
            stonewall: false,
            start_delay: Span::ZERO,
            fsync: 0,
            fsync_data: false,
            fsync_end: false,
            priority: Priority::default(),
            pace: Span::ZERO,
            seed: 1,
            filename: String::new(),
            direct: false,
            file_offset: 0,
        };
        Self {
            job,
            filename: None,
            numjobs: 1,
            offset_increment: 0,
            engine_is_sync: true,
            size: None,
            file_size: None,
            io_size: None,
            reads: None,
            fsync: 0,
            fdatasync: 0,
        }
    }

    fn read(
        file: &str,
        section: &Section,
        settings: &[&Setting],
        notes: &mut Vec<String>,
    ) -> Result<Self, JobFileError> {
        let mut draft = Self::new(&section.name);
        let problems = settings.iter().filter_map(|setting| draft.hear(file, setting, notes).err());
        if let Some(all) = JobFileError::together(problems) {
            return Err(all);
        }
        let error = |problem| JobFileError { file: file.to_owned(), line: section.line, problem };
        draft.complete().map_err(|problem| error(format!("[{}] {problem}", section.name)))?;
        Ok(draft)
    }

    fn hear(&mut self, file: &str, setting: &Setting, notes: &mut Vec<String>) -> Result<(), JobFileError> {
        let Setting { name, line, .. } = setting;
        if NO_DIFFERENCE.contains(&name.as_str()) {
            note(notes, format!("{file}:{line}: '{name}' makes no difference here"));
            return Ok(());
        }
        if let Some((name, word)) = PASSED_OVER.iter().find(|(passed_over, _)| passed_over == name) {
            note(notes, format!("{file}:{line}: '{name}' {word}"));
            return Ok(());
        }
        let value = setting.value.as_deref().unwrap_or("1");
        let set = if value.contains('$') && name != "filename" {
            Err("neither variables nor fio's keywords are replaced: write what they stand for".to_owned())
        } else {
            self.set(name, value)
        };
        set.map_err(|problem| JobFileError {
            file: file.to_owned(),
            line: *line,
            problem: format!("option '{name}={value}': {problem}"),
        })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let job = &mut self.job;
        match name {
            "filename" if value.replace("\\:", "").contains(':') => return Err(ONE_FILE.to_owned()),
            "filename" => self.filename = Some(value.to_owned()),
            "rw" | "readwrite" => return self.set_pattern(value),
            "bs" | "blocksize" => job.block = Sectors::from_bytes(block(value)?),
            "size" => self.size = Some(bytes(value)?),
            "filesize" => self.file_size = Some(bytes(value)?),
            "io_size" | "io_limit" => self.io_size = Some(bytes(value)?),
            "offset" => job.file_offset = whole_sectors(value)?,
            "offset_increment" => self.offset_increment = whole_sectors(value)?,
            "numjobs" => self.numjobs = number(value, 1, 4096)?,
            "iodepth" => job.iodepth = number(value, 1, 4096)? as u32,
            "ioengine" => self.engine_is_sync = engine_is_sync(value)?,
            "direct" => job.direct = value != "0",
            "buffered" => job.direct = value == "0",
            "thinktime" => job.think = time(value, 1_000)?,
            "thinktime_blocks" => job.think_every = number(value, 1, u64::MAX)?,
            "rwmixread" => self.reads = Some(number(value, 0, 100)?),
            "rwmixwrite" => self.reads = Some(100 - number(value, 0, 100)?),
            "runtime" | "timeout" => {
                job.runtime = Some(time(value, 1_000_000_000)?).filter(|&runtime| runtime > Span::ZERO);
            }
            "time_based" => job.time_based = value != "0",
            "startdelay" => job.start_delay = time(value, 1_000_000_000)?,
            "fsync" => self.fsync = number(value, 0, u64::MAX)?,
            "fdatasync" => self.fdatasync = number(value, 0, u64::MAX)?,
            "end_fsync" | "fsync_on_close" => job.fsync_end = value != "0",
            "prio" => job.priority.level = number(value, 0, 7)? as u8,
            "prioclass" => job.priority.class = class(value)?,
            "rate_iops" => job.pace = Span::from_nanos(1_000_000_000 / number(value, 1, 1_000_000_000)?),
            "randseed" => job.seed = number(value, 0, u64::MAX)?,
            "number_ios" => return Err("is not honoured; set io_size instead".to_owned()),
            "stonewall" | "wait_for_previous" => job.stonewall = value != "0",
            "wait_for" => {
                return Err(
                    "to wait for some jobs is not honoured; stonewall waits for all before".to_owned()
                );
            }
            _ => {
                return match NO_DIFFERENCE_IF.iter().find(|(known, ..)| *known == name) {
                    Some((_, so, _)) if so.contains(&value) => Ok(()),
                    Some((_, _, problem)) => Err((*problem).to_owned()),
                    None => Err(not_honoured(name)),
                };
            }
        }
        Ok(())
    }

    fn set_pattern(&mut self, value: &str) -> Result<(), String> {
        let (pattern, reads, trims) = match value {
            "read" => (Pattern::Sequential, 100, false),
            "write" => (Pattern::Sequential, 0, false),
            "trim" => (Pattern::Sequential, 0, true),
            "randread" => (Pattern::Random, 100, false),
            "randwrite" => (Pattern::Random, 0, false),
            "randtrim" => (Pattern::Random, 0, true),
            "rw" | "readwrite" => (Pattern::Sequential, 50, false),
            "randrw" => (Pattern::Random, 50, false),
            _ => {
                let known = "expected read, write, trim, randread, randwrite, randtrim, rw or randrw";
                let more = if value.contains(':') {
                    "; what fio does with a number behind it is not honoured"
                } else {
                    ""
                };
                return Err(format!("{known}{more}"));
            }
        };
        (self.job.pattern, self.job.reads_percent, self.job.trims) = (pattern, reads, trims);
        Ok(())
    }

    /// Works out what depends on several options.
    fn complete(&mut self) -> Result<(), String> {
        let job = &mut self.job;
        if job.reads_percent == 50 {
            job.reads_percent = self.reads.unwrap_or(50);
        }
        if self.engine_is_sync {
            job.iodepth = 1;
        }
        (job.fsync, job.fsync_data) = match (self.fsync, self.fdatasync) {
            (fsync, 0) => (fsync, false),
            (0, fdatasync) => (fdatasync, true),
            _ => {
                return Err(
                    "has both fsync and fdatasync, of which one is honoured; remove the other".to_owned()
                );
            }
        };
        let region = match (self.file_size, self.size) {
            (Some(file), _) => file.saturating_sub(job.file_offset),
            (None, Some(size)) => size,
            (None, None) => {
                return Err("needs a size: there is no file here whose size could be taken".to_owned());
            }
        };
        job.region_bytes = region;
        // What is left of the region behind its last whole block is never asked for.
        let once = region - region % job.block.bytes();
        job.io_bytes = self.io_size.unwrap_or_else(|| self.size.unwrap_or(once).min(once));
        if region < job.block.bytes() {
            return Err(format!("its size of {region} bytes holds no block of {} bytes", job.block.bytes()));
        }
        if job.time_based && job.runtime.is_none() {
            return Err("is time_based and has no runtime".to_owned());
        }
        Ok(())
    }

    fn clones(self, first: u64) -> impl Iterator<Item = Job> {
        (0..self.numjobs).map(move |n| {
            let mut job = self.job.clone();
            job.filename = self.filename.clone().unwrap_or_else(|| format!("{}.{n}.0", job.name));
            job.file_offset = job.file_offset.saturating_add(n.saturating_mul(self.offset_increment));
            job.seed = job.seed.wrapping_add((first + n).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            // Clones wait for others, and not for each other.
            job.stonewall &= n == 0;
            job
        })
    }
}

/// What is said of an option that is not known here: it may be one of fio's all the same.
fn not_honoured(name: &str) -> String {
    let passed_over = PASSED_OVER.iter().map(|(name, _)| name);
    let without_effect = NO_DIFFERENCE_IF.iter().map(|(name, ..)| name);
    let known = HONOURED.iter().chain(NO_DIFFERENCE).chain(passed_over).chain(without_effect);
    MAY_MATTER.to_owned() + &did_you_mean(name, known.copied())
}

fn note(notes: &mut Vec<String>, text: String) {
    if !notes.contains(&text) {
        notes.push(text);
    }
}

fn bytes(value: &str) -> Result<u64, String> {
    if value.ends_with('%') {
        return Err("a percentage needs a device or file to be a part of; give bytes".to_owned());
    }
    size(value).ok_or_else(|| "expected a size such as 4k or 1g".to_owned())
}

/// A place, of which the level of requests knows whole sectors only.
fn whole_sectors(value: &str) -> Result<u64, String> {
    let bytes = bytes(value)?;
    if bytes.is_multiple_of(512) { Ok(bytes) } else { Err("must be a multiple of 512 bytes".to_owned()) }
}

fn block(value: &str) -> Result<u64, String> {
    let bytes = bytes(value).map_err(|e| {
        if value.contains([',', '-']) {
            "one block size for all is honoured, no ranges or splits".to_owned()
        } else {
            e
        }
    })?;
    if bytes == 0 || !bytes.is_multiple_of(512) || bytes > 1 << 30 {
        let problem = "must be a multiple of 512 bytes, at most 2^30 (fio's k is 1024 bytes, its KiB 1000)";
        return Err(problem.to_owned());
    }
    Ok(bytes)
}

fn time(value: &str, unit: u64) -> Result<Span, String> {
    span(value, unit).map(Span::from_nanos).ok_or_else(|| "expected a time such as 200us or 10s".to_owned())
}

fn number(value: &str, min: u64, max: u64) -> Result<u64, String> {
    value
        .parse()
        .ok()
        .filter(|n| (min..=max).contains(n))
        .ok_or_else(|| format!("expected a number from {min} to {max}"))
}

fn engine_is_sync(value: &str) -> Result<bool, String> {
    match value {
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => Ok(true),
        "libaio" | "io_uring" | "posixaio" | "io_uring_cmd" => Ok(false),
        _ => {
            Err("engines honoured: sync, psync, vsync, pvsync, pvsync2, libaio, io_uring, posixaio"
                .to_owned())
        }
    }
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
    use super::*;

    #[test]
    fn what_is_honoured_is_known_and_may_be_meant() {
        for name in HONOURED {
            let said = Draft::new("x").set(name, "1").err().unwrap_or_default();
            assert!(!said.starts_with(MAY_MATTER), "{name}");
            let mistyped = format!("{name}x");
            assert!(not_honoured(&mistyped).contains("; did you mean '"), "{mistyped}");
        }
        assert_eq!(not_honoured("verify"), MAY_MATTER);
    }
}
