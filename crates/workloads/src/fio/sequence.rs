//! A job's requests in order: what each one accesses and when it is due, for programs of requests and of system calls alike.

use elevator::Random;
use elevator::{Direction, Span};

use super::distribution::{Blocks, poisson_interval};
use super::job::{BlockSizes, Job, Pattern, Sequencer};
use super::random_map::RandomMap;
use super::turns::Turns;

/// A request: the number of the job's file, the position in its region of that file, and the length, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub(crate) file: usize,
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// Whether it discards instead of writing.
    pub(crate) discards: bool,
}

/// A sync that follows a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sync {
    /// `fsync`.
    All,
    /// `fdatasync`.
    Data,
}

/// The progress of a job. Times count from its start.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    job: Job,
    /// Directions and offsets.
    random: Random,
    /// Sizes, intervals, files, and whether a request is random.
    choices: Random,
    files: Vec<File>,
    turns: Turns,
    ways: [Progress; 2],
    /// Requests until a random job jumps.
    to_jump: u64,
    /// Bytes of this pass, and passes finished.
    pass_bytes: u64,
    passes: u64,
    last_was_write: bool,
    /// What this pass has written, if the job verifies it.
    written: Vec<Access>,
    /// The number of the next write to read again, while the job verifies.
    verifying: Option<usize>,
    /// Requests and time at the last pause.
    thought: (u64, Span),
}

/// The progress in one direction.
#[derive(Clone, Copy, Default, Debug)]
struct Progress {
    requests: u64,
    /// Bytes that count for the rate.
    rated_bytes: u64,
    due: Span,
    /// The time of a Poisson process.
    clock: Span,
}

/// The progress in one of the job's files.
#[derive(Clone, Debug)]
struct File {
    /// Length of the job's region.
    bytes: u64,
    blocks: [Blocks; 2],
    map: Option<RandomMap>,
    places: [Place; 2],
    /// What was discarded last and is written next (`rw=trimwrite`).
    discarded: Option<Access>,
}

/// The place of one direction in a file.
#[derive(Clone, Copy, Default, Debug)]
struct Place {
    /// Behind the last request: the next sequential one begins here.
    next: u64,
    /// The beginning of the last request.
    last: u64,
}

impl File {
    fn new(job: &Job, bytes: u64, choices: &mut Random) -> Self {
        let blocks =
            [0, 1].map(|way| Blocks::new(&job.distribution, way, blocks_of(job, bytes, way), choices));
        let maps = job.random_map && job.pattern == Pattern::Random;
        let map = maps.then(|| RandomMap::new((bytes / unit(job)).max(1)));
        Self { bytes, blocks, map, places: [Place::default(); 2], discarded: None }
    }

    /// Begins anew.
    fn reset(&mut self) {
        self.map.iter_mut().for_each(RandomMap::clear);
        self.places = [Place::default(); 2];
    }
}

impl Sequence {
    /// The job that is number `number` of its file.
    pub(crate) fn new(job: &Job, number: u64) -> Self {
        let seed = job.seed ^ number.rotate_left(32);
        let (random, mut choices) = (Random::new(seed), Random::new(!seed));
        let files = job.regions.iter().map(|region| File::new(job, region.bytes, &mut choices)).collect();
        Self {
            random,
            choices,
            files,
            turns: Turns::new(job),
            ways: [Progress::default(); 2],
            to_jump: job.jump_every,
            pass_bytes: 0,
            passes: 0,
            last_was_write: false,
            written: Vec::new(),
            verifying: None,
            thought: (0, Span::ZERO),
            job: job.clone(),
        }
    }

    /// Number of requests.
    fn requests(&self) -> u64 {
        self.ways[0].requests + self.ways[1].requests
    }

    /// Number of writes and discards.
    pub(crate) fn written(&self) -> u64 {
        self.ways[Direction::Write as usize].requests
    }

    pub(crate) fn is_over(&self, passed: Span) -> bool {
        let job = &self.job;
        let out_of_time = job.runtime.is_some_and(|runtime| passed >= runtime);
        let enough = job.requests_max.is_some_and(|max| self.requests() >= max);
        let all = enough || (self.passes >= job.loops && !job.time_based);
        out_of_time || (all && self.verifying.is_none())
    }

    /// Whether the next request is the first one that reads what a pass has written.
    pub(crate) fn begins_to_verify(&self) -> bool {
        self.verifying == Some(0)
    }

    /// The next read of what was written.
    fn verify(&mut self, next: usize) -> Option<Access> {
        let access = self.written.get(next).copied()?;
        self.verifying = Some(next + 1).filter(|&next| next < self.written.len());
        if self.verifying.is_none() {
            self.written.clear();
        }
        self.last_was_write = false;
        Some(access)
    }

    /// Begins to verify at the end of a pass. As in fio, what a map or an order protects from being written twice is read in the order of the
    /// writes, everything else in the order of positions.
    fn end_pass(&mut self) {
        if self.written.is_empty() {
            return;
        }
        if self.job.pattern == Pattern::Random && self.files.iter().all(|file| file.map.is_none()) {
            self.written.sort_by_key(|access| (access.file, access.at, std::cmp::Reverse(access.bytes)));
            self.written.dedup_by_key(|access| (access.file, access.at));
        }
        self.verifying = Some(0);
    }

    /// The direction of the next request, and when it is due. Each direction has a rate of its own; one that is ahead of its rate
    /// lets the other go first.
    pub(crate) fn draw(&mut self, passed: Span) -> (Direction, Span) {
        if self.verifying.is_some() {
            return (Direction::Read, passed);
        }
        let reads = self.random.below(100) < self.job.reads_percent;
        let (drawn, other) = match reads {
            true => (Direction::Read, Direction::Write),
            false => (Direction::Write, Direction::Read),
        };
        let due = |way: Direction| self.ways[way as usize].due;
        let mixed = !matches!(self.job.reads_percent, 0 | 100);
        let way = if mixed && due(drawn) > passed && due(other) < due(drawn) { other } else { drawn };
        (way, self.within_runtime(due(way)))
    }

    /// Makes the next request.
    pub(crate) fn take(&mut self, way: Direction) -> Access {
        if let Some(access) = self.verifying.and_then(|next| self.verify(next)) {
            return access;
        }
        let w = way as usize;
        let (file, place) = self.next_place(w);
        let Some((at, is_random)) = place else { return self.write_discarded(file) };
        let mut bytes = self.size(w, file, at, is_random);
        let unit = unit(&self.job);
        if is_random && let Some(map) = &mut self.files[file].map {
            // As in fio, a request is cut where it would access a block again.
            bytes = bytes.min(map.mark(at / unit, bytes.div_ceil(unit)).max(1) * unit);
        }
        let access = Access { file, at, bytes, discards: w == 1 && self.job.trims };
        self.files[file].places[w] = Place { next: at + bytes, last: at };
        if self.job.writes_trimmed {
            // As in fio, discards before a write count neither for sizes nor for rates.
            self.files[file].discarded = Some(access);
            self.last_was_write = false;
            return access;
        }
        self.count(w, access);
        access
    }

    /// The write of what was discarded.
    fn write_discarded(&mut self, file: usize) -> Access {
        let discarded = self.files[file].discarded.take();
        let access = Access {
            discards: false,
            ..discarded.unwrap_or(Access { file, at: 0, bytes: 512, discards: true })
        };
        self.count(1, access);
        access
    }

    fn count(&mut self, w: usize, access: Access) {
        let progress = &mut self.ways[w];
        progress.requests += 1;
        progress.rated_bytes = progress.rated_bytes.saturating_add(access.bytes);
        self.last_was_write = w == 1;
        self.set_due(w);
        if self.job.verify && self.last_was_write {
            self.written.push(access);
        }
        self.count_pass(access.bytes);
        if self.job.requests_max.is_some_and(|max| self.requests() >= max) {
            self.end_pass();
        }
    }

    /// The file of the next request, its position there, and whether it is random; no position: the file's discarded block is written.
    fn next_place(&mut self, w: usize) -> (usize, Option<(u64, bool)>) {
        self.to_jump -= 1;
        let jumps = self.to_jump == 0;
        if jumps {
            self.to_jump = self.job.jump_every;
        }
        loop {
            let Some(file) = self.turns.next(&mut self.choices) else {
                self.begin_files();
                continue;
            };
            if self.files[file].discarded.is_some() {
                return (file, None);
            }
            match self.next_offset(w, file, jumps) {
                Some(place) => return (file, Some(place)),
                None => self.turns.end(file),
            }
        }
    }

    /// Begins all files anew.
    fn begin_files(&mut self) {
        self.files.iter_mut().for_each(File::reset);
        self.turns.begin();
    }

    /// The next position in a file; `None` at its end.
    fn next_offset(&mut self, w: usize, file: usize, jumps: bool) -> Option<(u64, bool)> {
        let percent = self.job.percentage_random[w];
        match (self.job.pattern, self.job.sequencer) {
            (Pattern::Random, _) if jumps && (percent == 100 || self.choices.below(100) < percent) => {
                self.random_offset(w, file).map(|at| (at, true))
            }
            (Pattern::Random, Sequencer::Identical) if !jumps => {
                Some((self.files[file].places[w].last, false))
            }
            _ => self.sequential_offset(w, file).map(|at| (at, false)),
        }
    }

    /// Whether a file begins anew at its end. Otherwise the job continues with its other files until all have ended, as in fio.
    fn wraps(&self) -> bool {
        self.files.len() == 1 || self.job.time_based
    }

    fn random_offset(&mut self, w: usize, file: usize) -> Option<u64> {
        let (align, unit, wraps) = (self.job.align[w], unit(&self.job), self.wraps());
        let file = &mut self.files[file];
        let blocks = blocks_of(&self.job, file.bytes, w);
        let drawn = file.blocks[w].draw(blocks, align, &mut self.random) * align;
        let Some(map) = &mut file.map else { return Some(drawn) };
        let found = match map.next_free(drawn / unit) {
            Some(found) => found,
            None if wraps => {
                map.clear();
                drawn / unit
            }
            None => return None,
        };
        let last = (blocks - 1) * align;
        Some((found * unit / align * align).min(last))
    }

    fn sequential_offset(&self, w: usize, file: usize) -> Option<u64> {
        let file = &self.files[file];
        let (next, skip, region) = (file.places[w].next, self.job.skip, file.bytes);
        let least = self.sizes(w, false).min();
        let fits = |at: u64| at.checked_add(least).is_some_and(|end| end <= region);
        let moved = if next == 0 { Some(0) } else { next.checked_add_signed(skip) };
        match moved.filter(|&at| fits(at)) {
            Some(at) => Some(at),
            // Going backwards continues at the region's end.
            None if skip < 0 => Some(region.saturating_add_signed(skip)),
            None if next == 0 || skip > 0 || self.wraps() => Some(0),
            None => None,
        }
    }

    fn sizes(&self, w: usize, is_random: bool) -> &BlockSizes {
        &self.job.blocks[if self.job.sizes_by_pattern { usize::from(is_random) } else { w }]
    }

    fn size(&mut self, w: usize, file: usize, at: u64, is_random: bool) -> u64 {
        let left = self.files[file].bytes.saturating_sub(at);
        let drawn = match self.sizes(w, is_random) {
            BlockSizes::Fixed(size) => return *size,
            BlockSizes::Range { min, max } => {
                // As in fio: up to one `max` above `min`, in whole `min`, cut to `max`.
                let (min, max) = (*min, *max);
                let drawn = min + self.choices.below(max);
                (drawn - drawn % min).min(max)
            }
            BlockSizes::Split(sizes) => {
                let sizes = sizes.clone();
                let drawn = self.choices.below(100);
                let mut shares = 0;
                let chosen = sizes.iter().find(|(_, share)| {
                    shares += share;
                    drawn < shares
                });
                chosen.or(sizes.last()).map_or(512, |&(size, _)| size)
            }
        };
        let least = self.sizes(w, is_random).min();
        if drawn <= left { drawn } else { (left - left % least).max(least) }
    }

    /// When the next request of a direction is due at its rate.
    fn set_due(&mut self, w: usize) {
        let Some(rate) = self.job.rate[w] else { return };
        let progress = &mut self.ways[w];
        let nanoseconds = |bytes: u64| (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64;
        progress.due = if self.job.poisson {
            let mean = nanoseconds(self.job.blocks[w].min()) as f64;
            progress.clock += Span::from_nanos((mean * poisson_interval(&mut self.choices)) as u64);
            progress.clock
        } else {
            Span::from_nanos(nanoseconds(progress.rated_bytes))
        };
    }

    /// A pass is over when it has transferred the job's bytes; the next one starts anew.
    fn count_pass(&mut self, bytes: u64) {
        self.pass_bytes = self.pass_bytes.saturating_add(bytes);
        if self.pass_bytes < self.job.io_bytes {
            return;
        }
        (self.passes, self.pass_bytes) = (self.passes + 1, 0);
        if self.job.time_based {
            // As in fio, which verifies after the last write, when the time is over.
            self.written.clear();
        }
        self.end_pass();
        if !self.job.time_based {
            self.begin_files();
        }
    }

    /// The file that a sync is for. As in fio, it is the one whose turn it is, and not the one that was written last.
    pub(crate) fn sync_file(&mut self) -> usize {
        self.turns.next(&mut self.choices).unwrap_or(0)
    }

    /// The sync that is due after the last request.
    pub(crate) fn sync_due(&self) -> Option<Sync> {
        let due = |every: u64| every > 0 && self.last_was_write && self.written().is_multiple_of(every);
        if due(self.job.fsync) { Some(Sync::All) } else { due(self.job.fdatasync).then_some(Sync::Data) }
    }

    /// Whether a pause is due after the last request.
    pub(crate) fn think_due(&self, passed: Span) -> bool {
        let think = &self.job.think;
        let (requests, at) = self.thought;
        let enough = think.blocks.is_some_and(|blocks| self.requests() - requests >= blocks);
        let late = think.every.is_some_and(|every| passed - at >= every);
        think.span > Span::ZERO && (enough || late)
    }

    /// Begins a pause: its length. `passed`: the time now.
    pub(crate) fn think(&mut self, passed: Span) -> Span {
        let span = self.within_runtime(passed + self.job.think.span) - passed;
        self.thought = (self.requests(), passed + span);
        if self.job.rate_ignores_think {
            self.skip_rate(span);
        }
        span
    }

    /// Counts a pause as if requests had been issued at the rate meanwhile. As in fio, the next request follows at once.
    fn skip_rate(&mut self, span: Span) {
        let w = usize::from(self.last_was_write);
        let Some(rate) = self.job.rate[w] else { return };
        let least = self.job.blocks[w].min();
        let missed = (u128::from(rate) * u128::from(span.as_nanos()) / 1_000_000_000) as u64;
        let progress = &mut self.ways[w];
        progress.rated_bytes = progress.rated_bytes.saturating_add(missed.saturating_sub(least));
        progress.clock += span;
    }

    fn within_runtime(&self, span: Span) -> Span {
        self.job.runtime.map_or(span, |runtime| span.min(runtime))
    }
}

/// Blocks of a region of so many bytes at which a request of a direction may begin.
fn blocks_of(job: &Job, region_bytes: u64, w: usize) -> u64 {
    let (align, min) = (job.align[w], job.blocks[w].min());
    (region_bytes.saturating_sub(min.saturating_sub(align)) / align).max(1)
}

/// Bytes of a block of the random map.
fn unit(job: &Job) -> u64 {
    job.align[0].min(job.align[1])
}
