//! The array's own traffic: resynchronisation, rebuild and scrub, recognised by its pattern and served behind foreground requests.
//!
//! md reads every member from its first to its last sector, all members at about the same place, the parity included; a rebuild writes
//! one of them instead. A reader of the array leaves the parity out, or reads one copy of several, so no member is read without gaps.
//! RAID 0 has no such traffic. Each member divides itself into zones of some rows and counts what is transferred in each: a zone of
//! which nearly everything was read is *dense*. Two readers of one file on RAID 1 may read both copies, but at different places: of
//! copies, only what is read in step with another member counts.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};

use disks::array::{Arrangement, Layout};
use elevator::array::{Directive, Member};
use elevator::{Op, Sector, Sectors, Span, Time};

/// How near the members of one sweep are, in zones.
const NEAR: u64 = 2;

/// How near reads of two copies by one scrub are, in sectors: md submits them together, and a member's thread may be late.
const STEP: u64 = 1024;

/// The ends of sequential reads that a member publishes, by zone.
const ENDS: usize = 32;

/// A sweep that has not moved for so long is over.
const FORGOTTEN: Span = Span::from_secs(20);

/// How long there must be no foreground request on any member before nothing restrains the background.
const IDLE: Span = Span::from_millis(500);

/// How long there must be none on any member, if the member's last foreground request continued a sequence: its reader may compute.
const QUIET: Span = Span::from_millis(20);

/// How long there must be none on the member itself, if its last one was at a random place. The background costs about this time, for the
/// head's way to the sweep.
const GAP: Span = Span::from_millis(10);

/// For how long a sequence without a further request restrains the background.
const SEQUENCE_FORGOTTEN: Span = Span::from_millis(100);

/// Sectors of the background's reads that may be in flight on a member while the array has a foreground: a foreground request waits for no
/// more of them. Enough that the drive reads in order without a pause.
const BURST: u64 = 256;

/// How often a member looks whether the others have become quiet.
const LOOK: Span = Span::from_millis(5);

/// Bytes that the background reads of each member in a turn beside requests at random places. Each turn costs the foreground the head's way to the sweep
/// and back; md has no more in flight for each member of RAID 5 and 6.
const TURN: u64 = 1 << 20;

/// The same beside requests in order, which lose more by a turn, because all members serve one stream. The foreground waits until md has submitted
/// the rest of the turn.
const LONG_TURN: u64 = 4 << 20;

/// The foreground waits for a long turn at most for so long.
const LONG_TURN_LIMIT: Span = Span::from_millis(200);

/// A member that has answered its requests of a long turn waits for the next ones for so long. md submits them when the slowest member has answered,
/// whose drive may have a queue of other requests.
const TURN_WAIT: Span = Span::from_millis(50);

/// A long turn that may begin waits for the end of the service of a stream, after which the heads move in any case: at most for this part of the time
/// between turns, 131 ms. A slice of `stream` takes 124 ms.
const SLICE_WAIT: u64 = 4;

/// The least of a turn, one of md's requests.
const TURN_MIN: u64 = 64 << 10;

/// The longest time between turns: at a low rate they are smaller. md keeps programs' requests for the same sectors waiting.
const TURNS: Span = Span::from_millis(500);

/// The share of foreground requests that continue a sequence is an average over about so many.
const MIX_OF: u64 = 64;

/// All foreground requests continue a sequence.
const ALL_IN_ORDER: u64 = 1 << 16;

/// The least rate is that of such a period. A background that was faster may be slower for so long: no foreground request waits for it meanwhile.
/// One that was slower, because its requests waited in the queue or the drive, may be faster until it has caught up.
const PERIOD: Span = Span::from_secs(1);

/// A background that had no request, neither in flight nor held, for so long has nothing to catch up with.
const PAUSE: Span = Span::from_millis(100);

/// Sequences of the foreground that a member distinguishes.
const SEQUENCES_MAX: usize = 8;

/// The smallest zone, in sectors.
const ZONE_MIN: u64 = 2048;

/// Zones that a member distinguishes: the zones of the foreground's streams, too.
const ZONES: usize = 64;

/// Of a sequence through the zones a member keeps so many. A sweep's late requests are in its last two zones, and those of a program that passes it
/// count as the sweep's up to two zones ahead.
const KEPT: u64 = 4;

/// The greatest number of ranges that a zone keeps. A reader of whole stripe units needs fewer.
const RANGES: usize = 128;

/// A zone that this many requests of the member have left alone is given up first.
const STALE: u64 = 10_000;

fn time_of(bytes: u64, rate: u64) -> Span {
    let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
    Span::from_nanos(nanoseconds.min(u128::from(u64::MAX / 4)) as u64)
}

/// The size of a zone.
fn zone_sectors(layout: &Layout) -> u64 {
    (u64::from(layout.unit().0) * u64::from(layout.members())).max(ZONE_MIN)
}

/// What md reports of its own traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resync {
    /// Unknown: md's name was not given, or it is not assembled.
    Unknown = 0,
    /// There is none.
    Idle = 1,
    /// It checks, resynchronises or rebuilds.
    Active = 2,
}

/// A member's sweep, for the other members.
#[derive(Default)]
struct Sweep {
    /// The zone, counted from 1; 0 for none.
    zone: AtomicU64,
    at: AtomicU64,
    reads: AtomicU8,
    /// The ends of its latest sequential reads: that of zone `z` at `z` modulo [`ENDS`].
    ends: [AtomicU64; ENDS],
}

impl Sweep {
    fn end_of(&self, zone: u64) -> &AtomicU64 {
        &self.ends[(zone % ENDS as u64) as usize]
    }

    /// The member sweeps this zone. A program that passes the sweep does not move it: behind the sweep it is in a zone that the sweep has left, before
    /// it in a zone after one that is not dense.
    fn reaches(&self, zone: u64, follows_dense: bool) {
        let is_behind = (1..=KEPT).contains(&self.zone.load(Ordering::Relaxed).saturating_sub(zone + 1));
        if follows_dense && !is_behind {
            self.zone.store(zone + 1, Ordering::Relaxed);
        }
    }

    /// Whether a sequence of reads of this member ends near this range of a zone.
    fn is_in_step(&self, zone: u64, start: u64, end: u64) -> bool {
        (zone.saturating_sub(1)..=zone + 1).any(|zone| {
            let other = self.end_of(zone).load(Ordering::Relaxed);
            other > 0 && (other.abs_diff(start) <= STEP || other.abs_diff(end) <= STEP)
        })
    }

    /// Whether this member is written near this zone: a copy is rebuilt there.
    fn is_written(&self, zone: u64) -> bool {
        let written = self.zone.load(Ordering::Relaxed);
        written > 0 && written.abs_diff(zone + 1) <= NEAR && self.reads.load(Ordering::Relaxed) == 0
    }
}

/// The turns of the background.
#[derive(Clone, Copy, Default)]
struct Turns {
    bytes: u64,
    /// The time in which the least rate transfers them.
    every: Span,
}

impl Turns {
    fn new(least: u64, most: u64) -> Self {
        let in_turns = u128::from(least) * u128::from(TURNS.as_nanos()) / 1_000_000_000;
        let bytes = in_turns.clamp(TURN_MIN.into(), most.into()) as u64;
        Self { bytes, every: time_of(bytes, least) }
    }
}

/// What members share about foreground and background.
pub(crate) struct Activity {
    /// Bytes a second that the background of each member may transfer at least.
    least: u64,
    turns: Turns,
    long_turns: Turns,
    foreground: AtomicI64,
    /// The share of foreground requests that continue a sequence, of [`ALL_IN_ORDER`].
    in_order: AtomicU64,
    /// All members serve one stream.
    is_serving: AtomicBool,
    /// When that ended last.
    served: AtomicU64,
    /// When the latest long turn began on a member, and the sector at which it ends on all members.
    turn_began: AtomicU64,
    turn_end: AtomicU64,
    touched: AtomicU64,
    sync: AtomicU8,
    /// The zone, counted from 1, in which md has begun its own traffic, as it reported; 0 for none, and once the traffic has left it.
    begins: AtomicU64,
    sweeps: Vec<Sweep>,
    pub(super) held: AtomicU64,
    pub(super) recognised: AtomicU64,
}

impl Activity {
    pub(crate) fn new(members: u32, least: u64) -> Self {
        let mut sweeps = Vec::new();
        sweeps.resize_with(members as usize, Sweep::default);
        let least = least.max(1);
        Self {
            least,
            turns: Turns::new(least, TURN),
            long_turns: Turns::new(least, LONG_TURN),
            foreground: AtomicI64::new(0),
            in_order: AtomicU64::new(0),
            is_serving: AtomicBool::new(false),
            served: AtomicU64::new(0),
            turn_began: AtomicU64::new(0),
            turn_end: AtomicU64::new(0),
            touched: AtomicU64::new(0),
            sync: AtomicU8::new(Resync::Unknown as u8),
            begins: AtomicU64::new(0),
            sweeps,
            held: AtomicU64::new(0),
            recognised: AtomicU64::new(0),
        }
    }

    /// A foreground request arrived that continues a sequence or does not. Members at the same time may lose a part of the average.
    pub(super) fn mix(&self, is_in_order: bool) {
        let share = self.in_order.load(Ordering::Relaxed);
        let add = if is_in_order { ALL_IN_ORDER / MIX_OF } else { 0 };
        self.in_order.store(share - share / MIX_OF + add, Ordering::Relaxed);
    }

    /// Whether nearly all foreground requests continue sequences.
    fn is_in_order(&self) -> bool {
        self.in_order.load(Ordering::Relaxed) >= ALL_IN_ORDER / 4 * 3
    }

    /// The coordinator directs a member.
    pub(super) fn directed(&self, now: Time, directive: Directive) {
        let serves = match directive {
            Directive::Slice(until) => until > now,
            Directive::Waiting(_) => false,
            _ => return,
        };
        if self.is_serving.swap(serves, Ordering::Relaxed) && !serves {
            self.served.store(now.as_nanos(), Ordering::Relaxed);
        }
    }

    fn slice_wait(&self) -> Span {
        self.turns().every / SLICE_WAIT
    }

    /// Whether a turn begins that may begin from `due` on: a long one between two slices.
    fn begins(&self, due: Time, now: Time) -> bool {
        let waits = || {
            self.is_in_order()
                && now < due + self.slice_wait()
                && self.is_serving.load(Ordering::Relaxed)
                && self.served.load(Ordering::Relaxed) < due.as_nanos()
        };
        now >= due && !waits()
    }

    /// A long turn begins at this sector.
    fn begin_turn(&self, Sector(start): Sector, now: Time) {
        let sectors = u64::from(Sectors::from_bytes(self.long_turns.bytes).0);
        self.turn_end.store(start.saturating_add(sectors), Ordering::Relaxed);
        self.turn_began.store(now.as_nanos(), Ordering::Release);
    }

    /// When the long turn began in which a request at this sector may go, and the bytes from there to its end. Members have transferred different
    /// numbers of requests that count, and a scrub waits for the slowest one: if they did not end a turn at the same sector, the next one would begin with
    /// the heads of those that are behind, and the others would get requests when these have answered.
    fn turn_at(&self, Sector(start): Sector, now: Time) -> Option<(Time, u64)> {
        let began = Time::from_nanos(self.turn_began.load(Ordering::Acquire));
        let sectors =
            self.turn_end.load(Ordering::Relaxed).checked_sub(start).filter(|&sectors| sectors > 0)?;
        (began > Time::ZERO && now < began + LONG_TURN_LIMIT).then_some((began, sectors * 512))
    }

    fn turns(&self) -> Turns {
        if self.is_in_order() { self.long_turns } else { self.turns }
    }

    /// The time that the least rate takes for so many bytes.
    fn time_of(&self, bytes: u64) -> Span {
        time_of(bytes, self.least)
    }

    /// When a turn begins that may begin at `allowed`. It does so at the same time on all members: each turn interrupts the stream that they all
    /// serve, and the others would wait for each of them. What is late is not delayed further.
    fn turn_after(&self, allowed: Time) -> Time {
        let turns = self.turns().every.as_nanos().max(1);
        Time::from_nanos(allowed.as_nanos().div_ceil(turns).saturating_mul(turns))
    }

    /// md reports its own traffic, which begins where the data begin, on all members: the first zone counts too. md has 1 MiB in flight there, of which
    /// some arrives as requests of 4 KiB. Traffic that begins elsewhere, as a resumed one, is recognised by its pattern.
    pub(super) fn set_sync(&self, sync: Resync, layout: Option<&Layout>, now: Time) {
        let begins = self.sync.load(Ordering::Relaxed) != Resync::Active as u8;
        if sync != Resync::Active {
            self.begins.store(0, Ordering::Relaxed);
        } else if let Some(layout) = layout.filter(|_| begins) {
            let zone = layout.data_start().0 / zone_sectors(layout) + 1;
            self.begins.store(zone, Ordering::Relaxed);
            for sweep in &self.sweeps {
                sweep.zone.store(zone, Ordering::Relaxed);
                sweep.at.store(now.as_nanos(), Ordering::Relaxed);
                sweep.reads.store(1, Ordering::Relaxed);
            }
        }
        self.sync.store(sync as u8, Ordering::Relaxed);
    }

    fn begins_in(&self, zone: u64) -> bool {
        self.begins.load(Ordering::Relaxed) == zone + 1
    }

    /// A request of the array's own traffic was in this zone. The last ones of the first zone may be late.
    fn is_in(&self, zone: u64) {
        let begins = self.begins.load(Ordering::Relaxed);
        if begins > 0 && begins.abs_diff(zone + 1) > NEAR {
            self.begins.store(0, Ordering::Relaxed);
        }
    }

    /// Foreground requests began or ended.
    pub(super) fn foreground(&self, now: Time, change: i64) {
        self.foreground.fetch_add(change, Ordering::Relaxed);
        self.touched.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    /// Whether no member had a foreground request for this time.
    fn is_quiet(&self, now: Time, span: Span) -> bool {
        self.foreground.load(Ordering::Relaxed) <= 0
            && now.since(Time::from_nanos(self.touched.load(Ordering::Relaxed))) >= span
    }

    /// Whether enough members sweep near this zone at `now`.
    fn is_lockstep(&self, layout: &Layout, zone: u64, now: Time) -> bool {
        let near = |sweep: &&Sweep| {
            let other = sweep.zone.load(Ordering::Relaxed);
            let at = Time::from_nanos(sweep.at.load(Ordering::Relaxed));
            other > 0 && other.abs_diff(zone + 1) <= NEAR && now.since(at) < FORGOTTEN
        };
        let together = self.sweeps.iter().filter(near);
        let (all, reading) = together.fold((0, 0), |(all, reading), sweep| {
            (all + 1, reading + u32::from(sweep.reads.load(Ordering::Relaxed)))
        });
        let needed = match layout.arrangement() {
            Arrangement::Striped => return false,
            Arrangement::Mirrored => 2,
            Arrangement::Near(_) if self.sync.load(Ordering::Relaxed) == Resync::Active as u8 => 1,
            Arrangement::Parity(_) | Arrangement::Near(_) => layout.members(),
        };
        reading > 0 && all >= needed && self.sync.load(Ordering::Relaxed) != Resync::Idle as u8
    }
}

/// The ranges of a zone that were transferred. Sectors count once, however often they are transferred: a program that reads a file of the array
/// again leaves the parity out again.
#[derive(Default)]
struct Coverage {
    /// In order, neither overlapping nor adjacent.
    ranges: Vec<(u64, u64)>,
    sectors: u64,
}

impl Coverage {
    fn add(&mut self, start: u64, end: u64) {
        let from = self.ranges.partition_point(|&(_, other)| other < start);
        let to = from + self.ranges[from..].partition_point(|&(other, _)| other <= end);
        let touched = &self.ranges[from..to];
        let known: u64 = touched.iter().map(|(start, end)| end - start).sum();
        let start = touched.first().map_or(start, |&(first, _)| first.min(start));
        let end = touched.last().map_or(end, |&(_, last)| last.max(end));
        if from == to && self.ranges.len() == RANGES {
            return;
        }
        self.sectors += end - start - known;
        self.ranges.splice(from..to, [(start, end)]);
    }
}

/// What was transferred of a zone.
#[derive(Default)]
struct Zone {
    number: u64,
    /// The member's requests until the latest one in this zone; 0 for none.
    used: u64,
    /// The end of the latest request.
    end: u64,
    read: Coverage,
    /// What counts of it: on RAID 1, reads in step with another member.
    counted: Coverage,
    written: Coverage,
    /// Sectors that were transferred again.
    again: u64,
    /// The zone before is dense.
    follows_dense: bool,
    /// The zone before follows a dense one. A sweep has up to a zone of requests in flight, which arrive in another order than md submits them:
    /// it reaches the next zone before the last one is dense.
    follows_sweep: bool,
}

impl Zone {
    /// Whether nearly everything was read, or written. What is both was rewritten by a program.
    const fn is_dense(&self, enough: u64) -> bool {
        let (counted, written) = (self.counted.sectors, self.written.sectors);
        counted >= enough && written < enough || written >= enough && self.read.sectors < enough
    }

    const fn sweeps(&self) -> bool {
        self.follows_dense || self.follows_sweep
    }

    const fn transferred(&self) -> u64 {
        self.read.sectors + self.written.sectors
    }

    /// Another pass begins: of copies, it may read the other one.
    fn begin_again(&mut self) {
        (self.read, self.counted, self.written, self.again) = Default::default();
    }
}

/// The foreground on one member.
struct Foreground {
    unfinished: u64,
    /// When the latest request began or ended.
    touched: Time,
    /// The latest request continued a sequence.
    is_in_order: bool,
    /// The ends of recent sequences; `next` is replaced next.
    ends: [u64; SEQUENCES_MAX],
    next: usize,
}

impl Default for Foreground {
    fn default() -> Self {
        // No request begins there.
        let ends = [u64::MAX; SEQUENCES_MAX];
        Self { unfinished: 0, touched: Time::ZERO, is_in_order: false, ends, next: 0 }
    }
}

/// A member's own part: recognises requests of the background, and determines when they are dispatched.
pub(super) struct Background {
    zones: [Zone; ZONES],
    uses: u64,
    /// When the next request may go although the foreground is busy, in a turn.
    allowed: Time,
    /// Bytes that may still go in this turn.
    turn: u64,
    /// When it began, if the foreground waits for its requests.
    long_turn: Option<Time>,
    /// A request went in a turn: those in the queue interrupt the stream in service.
    passes: bool,
    foreground: Foreground,
    /// Sectors of the background's reads in flight.
    in_flight: u64,
    /// When the latest one ended.
    ended: Time,
}

impl Default for Background {
    fn default() -> Self {
        Self {
            zones: std::array::from_fn(|_| Zone::default()),
            uses: 0,
            allowed: Time::ZERO,
            turn: 0,
            long_turn: None,
            passes: false,
            foreground: Foreground::default(),
            in_flight: 0,
            ended: Time::ZERO,
        }
    }
}

impl Background {
    fn find(&self, number: u64) -> Option<usize> {
        self.zones.iter().position(|zone| zone.number == number && zone.used > 0)
    }

    /// The zone to give up: of those that do not sweep, the one with the least transferred, so that random requests replace each other.
    fn least(&self) -> usize {
        let value = |&index: &usize| {
            let zone = &self.zones[index];
            let is_stale = self.uses - zone.used >= STALE;
            (zone.sweeps() && !is_stale, if is_stale { 0 } else { zone.transferred() }, zone.used)
        };
        (0..ZONES).min_by_key(value).unwrap_or(0)
    }

    /// The oldest zone of a sequence that reaches this one, if nothing else goes on there.
    fn oldest(&self, number: u64) -> Option<usize> {
        let oldest = number.checked_sub(KEPT)?;
        let [index, next] = [self.find(oldest)?, self.find(oldest + 1)?];
        let zone = &self.zones[index];
        (!zone.sweeps() && zone.used < self.zones[next].used).then_some(index)
    }

    /// The index of a zone, which may be new.
    fn zone_of(&mut self, number: u64) -> usize {
        self.find(number).unwrap_or_else(|| {
            let index = self.oldest(number).unwrap_or_else(|| self.least());
            self.zones[index] = Zone { number, ..Zone::default() };
            index
        })
    }

    /// Whether a request belongs to the array's own traffic.
    pub(super) fn recognises(
        &mut self,
        activity: &Activity,
        layout: &Layout,
        member: Member,
        (op, Sector(start), sectors): (Op, Sector, Sectors),
        now: Time,
    ) -> bool {
        if !matches!(op, Op::Read | Op::Write) || layout.arrangement() == Arrangement::Striped {
            return false;
        }
        let size = zone_sectors(layout);
        let end = start.saturating_add(u64::from(sectors.0));
        // A large request can end in another zone.
        let mut swept = None;
        for zone in start / size..end.div_ceil(size).max(start / size + 1) {
            let range = (start.max(zone * size), end.min((zone + 1).saturating_mul(size)));
            if let Some(follows_dense) =
                self.sweeps(activity, layout, member, (op, range.0, range.1), (zone, size))
            {
                swept = Some((zone, follows_dense));
            }
        }
        let Some((zone, follows_dense)) = swept else { return false };
        let sweep = &activity.sweeps[member.index()];
        sweep.reaches(zone, follows_dense);
        sweep.at.store(now.as_nanos(), Ordering::Relaxed);
        sweep.reads.store(u8::from(op == Op::Read), Ordering::Relaxed);
        let recognised = activity.is_lockstep(layout, zone, now);
        if recognised {
            activity.recognised.fetch_add(1, Ordering::Relaxed);
            activity.is_in(zone);
        }
        recognised
    }

    /// Notes what is transferred of a zone of this size. If the member sweeps it, returns whether the zone before is dense.
    fn sweeps(
        &mut self,
        activity: &Activity,
        layout: &Layout,
        member: Member,
        (op, start, end): (Op, u64, u64),
        (zone, size): (u64, u64),
    ) -> Option<bool> {
        self.uses += 1;
        // Readers of one copy, or without the parity, leave out more than this.
        let enough = size - size / (2 * u64::from(layout.members()));
        let before = zone.checked_sub(1).and_then(|before| self.find(before));
        let before = before.map(|index| &self.zones[index]);
        // A program may have read a part of the zone before a sweep reaches it.
        let follows_dense = activity.begins_in(zone) || before.is_some_and(|before| before.is_dense(enough));
        let follows_sweep = before.is_some_and(|before| before.follows_dense);
        let continues = before.is_some_and(|before| before.end == start);
        let index = self.zone_of(zone);
        let part = &mut self.zones[index];
        let swept = part.sweeps();
        part.follows_dense |= follows_dense;
        part.follows_sweep |= follows_sweep;
        let is_parity = matches!(layout.arrangement(), Arrangement::Parity(_));
        if !is_parity && start + size / 2 < part.end || part.again >= size {
            part.begin_again();
        }
        let transferred = part.transferred();
        if op == Op::Write {
            part.written.add(start, end);
        } else if layout.arrangement() != Arrangement::Mirrored {
            part.read.add(start, end);
            part.counted.add(start, end);
        } else {
            part.read.add(start, end);
            let sweep = &activity.sweeps[member.index()];
            if part.end == start || continues {
                // It has left the zone before.
                sweep.end_of(zone.wrapping_sub(1)).store(0, Ordering::Relaxed);
                sweep.end_of(zone).store(end, Ordering::Relaxed);
            }
            let mut others = (0..).zip(&activity.sweeps).filter(|&(other, _)| Member(other) != member);
            let counts =
                others.any(|(_, other)| other.is_in_step(zone, start, end) || other.is_written(zone));
            if counts {
                part.counted.add(start, end);
            }
        }
        part.again += (end - start).saturating_sub(part.transferred() - transferred);
        (part.used, part.end) = (self.uses, end);
        let sweeps = part.sweeps().then_some(part.follows_dense);
        if sweeps.is_some()
            && !swept
            && let Some(oldest) = zone.checked_sub(KEPT).and_then(|oldest| self.find(oldest))
        {
            self.zones[oldest] = Zone::default();
        }
        sweeps
    }

    /// A foreground request arrived at the member; whether it continues a sequence.
    pub(super) fn foreground_began(
        &mut self,
        layout: Option<&Layout>,
        start: Sector,
        sectors: Sectors,
        now: Time,
    ) -> bool {
        let near = 4 * layout.map_or(0, |layout| u64::from(layout.unit().0));
        let foreground = &mut self.foreground;
        foreground.unfinished += 1;
        foreground.touched = now;
        let continued = foreground.ends.iter().position(|end| end.abs_diff(start.0) <= near);
        foreground.is_in_order = continued.is_some();
        let index = continued.unwrap_or_else(|| {
            foreground.next = (foreground.next + 1) % SEQUENCES_MAX;
            foreground.next
        });
        foreground.ends[index] = start.0.saturating_add(u64::from(sectors.0));
        foreground.is_in_order
    }

    /// A foreground request of the member ended.
    pub(super) fn foreground_ended(&mut self, now: Time) {
        self.foreground.unfinished = self.foreground.unfinished.saturating_sub(1);
        self.foreground.touched = now;
    }

    /// A read of the background went to the queue.
    pub(super) fn began(&mut self, sectors: Sectors) {
        self.in_flight += u64::from(sectors.0);
    }

    /// A read of the background ended.
    pub(super) fn ended(&mut self, sectors: Sectors, now: Time) {
        self.in_flight = self.in_flight.saturating_sub(u64::from(sectors.0));
        self.ended = now;
    }

    /// A read of the background arrived, and no other one is held.
    pub(super) fn arrived(&mut self, now: Time) {
        if self.in_flight == 0 && now.since(self.ended) >= PAUSE {
            self.allowed = self.allowed.max(now);
        }
    }

    /// Whether a request of the background may go now. If the foreground is busy, in a turn.
    pub(super) fn may_go(&mut self, activity: &Activity, start: Sector, sectors: Sectors, now: Time) -> bool {
        let earliest = Time::from_nanos(now.as_nanos().saturating_sub(PERIOD.as_nanos()));
        if !self.is_free(activity, sectors, now) {
            if self.turn_until().is_some_and(|until| until <= now) {
                self.turn = 0;
            }
            let is_in_order = activity.is_in_order();
            if let Some((began, bytes)) = activity.turn_at(start, now).filter(|_| is_in_order) {
                // Another member has begun it.
                if self.long_turn.is_none_or(|own| own < began) {
                    (self.turn, self.long_turn) = (bytes, Some(now));
                }
            } else if is_in_order || self.turn == 0 {
                let due = activity.turn_after(self.allowed.max(earliest));
                if !activity.begins(due, now) {
                    return false;
                }
                self.turn = activity.turns().bytes;
                self.long_turn = is_in_order.then_some(now);
                if is_in_order {
                    activity.begin_turn(start, now);
                }
            }
            self.turn = self.turn.saturating_sub(sectors.bytes());
            self.passes = true;
        }
        // What went while the member was unused counts.
        self.allowed = self.allowed.clamp(earliest, now + PERIOD) + activity.time_of(sectors.bytes());
        true
    }

    /// When a long turn ends if no further request of the background begins or ends.
    fn turn_until(&self) -> Option<Time> {
        let began = self.long_turn.filter(|_| self.turn > 0)?;
        let limit = began + LONG_TURN_LIMIT;
        let last = began.max(self.ended) + TURN_WAIT;
        Some(if self.in_flight > 0 { limit } else { last.min(limit) })
    }

    /// Until when the foreground waits for further requests of a turn.
    pub(super) fn reserved(&self, now: Time) -> Option<Time> {
        self.turn_until().filter(|&until| until > now)
    }

    /// A write of a rebuild goes. It follows reads that waited.
    pub(super) fn writes(&mut self) {
        self.passes = true;
    }

    /// Whether requests of the background in the queue interrupt the stream in service now.
    pub(super) fn passes(&mut self) -> bool {
        std::mem::take(&mut self.passes)
    }

    /// Whether a request of the background would delay no foreground request of which there is a sign.
    fn is_free(&self, activity: &Activity, sectors: Sectors, now: Time) -> bool {
        if activity.is_quiet(now, IDLE) {
            return true;
        }
        if self.in_flight > 0 && self.in_flight + u64::from(sectors.0) > BURST {
            return false;
        }
        let Foreground { unfinished, touched, is_in_order, .. } = self.foreground;
        let since = now.since(touched);
        let computes = is_in_order && since < SEQUENCE_FORGOTTEN;
        unfinished == 0 && since >= GAP && (!computes || activity.is_quiet(now, QUIET))
    }

    /// When to look again whether a held request may go.
    pub(super) fn look_again(&self, activity: &Activity, sectors: Sectors, now: Time) -> Time {
        if self.is_free(activity, sectors, now) {
            return now;
        }
        let gap = Some(self.foreground.touched + GAP).filter(|&end| end > now);
        let due = activity.turn_after(self.allowed);
        let due = if activity.begins(due, now) || due > now { due } else { due + activity.slice_wait() };
        due.min(gap.unwrap_or(now + LOOK)).max(now)
    }
}

#[cfg(test)]
mod tests;
