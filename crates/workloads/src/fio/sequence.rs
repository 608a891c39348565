//! A job's requests in order: what each one accesses and when it is due, for programs of requests and of system calls alike.

use elevator::Random;
use elevator::{Direction, Span};

use super::distribution::{Blocks, poisson_interval};
use super::job::{BlockSizes, Job, Pattern, Sequencer};
use super::random_map::RandomMap;

/// Where a request begins in the job's region, and its length, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
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
    /// Sizes, intervals, and whether a request is random.
    choices: Random,
    blocks: [Blocks; 2],
    map: Option<RandomMap>,
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
    /// Behind the last request: the next sequential one begins here.
    next: u64,
    /// The beginning of the last request.
    last: u64,
    due: Span,
    /// The time of a Poisson process.
    clock: Span,
}

impl Sequence {
    /// The job that is number `number` of its file.
    pub(crate) fn new(job: &Job, number: u64) -> Self {
        let seed = job.seed ^ number.rotate_left(32);
        let (random, mut choices) = (Random::new(seed), Random::new(!seed));
        let blocks = [0, 1].map(|way| Blocks::new(&job.distribution, way, blocks_of(job, way), &mut choices));
        let unit = job.align[0].min(job.align[1]);
        let maps = job.random_map && job.pattern == Pattern::Random;
        let map = maps.then(|| RandomMap::new((job.region_bytes / unit).max(1)));
        Self {
            random,
            choices,
            blocks,
            map,
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
        if self.job.pattern == Pattern::Random && self.map.is_none() {
            self.written.sort_by_key(|access| (access.at, std::cmp::Reverse(access.bytes)));
            self.written.dedup_by_key(|access| access.at);
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
        let (at, is_random) = self.next_offset(w);
        let mut bytes = self.size(w, at, is_random);
        let unit = self.job.align[0].min(self.job.align[1]);
        if is_random && let Some(map) = &mut self.map {
            // As in fio, a request is cut where it would access a block again.
            bytes = bytes.min(map.mark(at / unit, bytes.div_ceil(unit)).max(1) * unit);
        }
        let progress = &mut self.ways[w];
        (progress.last, progress.next) = (at, at + bytes);
        progress.requests += 1;
        progress.rated_bytes = progress.rated_bytes.saturating_add(bytes);
        self.last_was_write = way == Direction::Write;
        self.set_due(w);
        if self.job.verify && self.last_was_write {
            self.written.push(Access { at, bytes });
        }
        self.count_pass(bytes);
        if self.job.requests_max.is_some_and(|max| self.requests() >= max) {
            self.end_pass();
        }
        Access { at, bytes }
    }

    fn next_offset(&mut self, w: usize) -> (u64, bool) {
        self.to_jump -= 1;
        let jumps = self.to_jump == 0;
        if jumps {
            self.to_jump = self.job.jump_every;
        }
        let percent = self.job.percentage_random[w];
        match (self.job.pattern, self.job.sequencer) {
            (Pattern::Random, _) if jumps && (percent == 100 || self.choices.below(100) < percent) => {
                (self.random_offset(w), true)
            }
            (Pattern::Random, Sequencer::Identical) if !jumps => (self.ways[w].last, false),
            _ => (self.sequential_offset(w), false),
        }
    }

    fn random_offset(&mut self, w: usize) -> u64 {
        let align = self.job.align[w];
        let drawn = self.blocks[w].draw(blocks_of(&self.job, w), align, &mut self.random) * align;
        let Some(map) = &mut self.map else { return drawn };
        let unit = self.job.align[0].min(self.job.align[1]);
        let found = map.next_free(drawn / unit).unwrap_or_else(|| {
            map.clear();
            drawn / unit
        });
        let last = (blocks_of(&self.job, w) - 1) * align;
        (found * unit / align * align).min(last)
    }

    fn sequential_offset(&self, w: usize) -> u64 {
        let (next, skip, region) = (self.ways[w].next, self.job.skip, self.job.region_bytes);
        let least = self.sizes(w, false).min();
        let fits = |at: u64| at.checked_add(least).is_some_and(|end| end <= region);
        let moved = if next == 0 { Some(0) } else { next.checked_add_signed(skip) };
        match moved.filter(|&at| fits(at)) {
            Some(at) => at,
            // Going backwards continues at the region's end.
            None if skip < 0 => region.saturating_add_signed(skip),
            None => 0,
        }
    }

    fn sizes(&self, w: usize, is_random: bool) -> &BlockSizes {
        &self.job.blocks[if self.job.sizes_by_pattern { usize::from(is_random) } else { w }]
    }

    fn size(&mut self, w: usize, at: u64, is_random: bool) -> u64 {
        let left = self.job.region_bytes.saturating_sub(at);
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
            self.map.iter_mut().for_each(RandomMap::clear);
            for progress in &mut self.ways {
                (progress.next, progress.last) = (0, 0);
            }
        }
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

/// Blocks of the region at which a request of a direction may begin.
fn blocks_of(job: &Job, w: usize) -> u64 {
    let (align, min) = (job.align[w], job.blocks[w].min());
    (job.region_bytes.saturating_sub(min.saturating_sub(align)) / align).max(1)
}
