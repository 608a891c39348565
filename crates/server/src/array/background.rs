//! The array's own traffic: resynchronisation, rebuild and scrub, recognised by its pattern and served behind foreground requests.
//!
//! md reads every member from its first to its last sector, all members at about the same place, the parity included; a rebuild writes
//! one of them instead. A reader of the array leaves the parity out, or reads one copy of several, so no member is read without gaps.
//! RAID 0 has no such traffic. Each member divides itself into zones of some rows and counts what is transferred in each: a zone of
//! which nearly everything was read is *dense*. Two readers of one file on RAID 1 may read both copies, but at different places: of
//! copies, only what is read in step with another member counts.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use disks::array::{Arrangement, Layout};
use elevator::array::Member;
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

/// Bytes that the background reads of each member in a turn. Each turn costs the foreground the head's way to the sweep and back; md has no more in
/// flight for each member of RAID 5 and 6.
const TURN: u64 = 1 << 20;

/// The least of a turn, one of md's requests.
const TURN_MIN: u64 = 64 << 10;

/// The longest time between turns: at a low rate they are smaller. md keeps programs' requests for the same sectors waiting.
const TURNS: Span = Span::from_millis(500);

/// The least rate is that of such a period. A background that was faster may be slower for so long: no foreground request waits for it meanwhile.
/// One that was slower, because its requests waited in the queue or the drive, may be faster until it has caught up.
const PERIOD: Span = Span::from_secs(1);

/// A background that had no request, neither in flight nor held, for so long has nothing to catch up with.
const PAUSE: Span = Span::from_millis(100);

/// Sequences of the foreground that a member distinguishes.
const SEQUENCES_MAX: usize = 8;

/// The smallest zone, in sectors.
const ZONE_MIN: u64 = 2048;

/// Places of a member that are followed at once: streams of the foreground have places too.
const PLACES: usize = 32;

/// The greatest number of ranges that a zone keeps. A reader of whole stripe units needs fewer.
const RANGES: usize = 128;

/// A place that this many requests of the member have left alone is given up first.
const STALE: u64 = 10_000;

fn time_of(bytes: u64, rate: u64) -> Span {
    let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
    Span::from_nanos(nanoseconds.min(u128::from(u64::MAX / 4)) as u64)
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

/// What members share about foreground and background.
pub(crate) struct Activity {
    /// Bytes a second that the background of each member may transfer at least.
    least: u64,
    /// Bytes of a turn, and the time in which the least rate transfers them.
    turn: u64,
    turns: Span,
    foreground: AtomicI64,
    touched: AtomicU64,
    sync: AtomicU8,
    sweeps: Vec<Sweep>,
    pub(super) held: AtomicU64,
    pub(super) recognised: AtomicU64,
}

impl Activity {
    pub(crate) fn new(members: u32, least: u64) -> Self {
        let mut sweeps = Vec::new();
        sweeps.resize_with(members as usize, Sweep::default);
        let least = least.max(1);
        let turn = Span::from_nanos(TURNS.as_nanos().min(1 << 40));
        let turn = (u128::from(least) * u128::from(turn.as_nanos()) / 1_000_000_000) as u64;
        let turn = turn.clamp(TURN_MIN, TURN);
        Self {
            least,
            turn,
            turns: time_of(turn, least),
            foreground: AtomicI64::new(0),
            touched: AtomicU64::new(0),
            sync: AtomicU8::new(Resync::Unknown as u8),
            sweeps,
            held: AtomicU64::new(0),
            recognised: AtomicU64::new(0),
        }
    }

    /// The time that the least rate takes for so many bytes.
    fn time_of(&self, bytes: u64) -> Span {
        time_of(bytes, self.least)
    }

    /// When a turn begins that may begin at `allowed`. It does so at the same time on all members: each turn interrupts the stream that they all
    /// serve, and the others would wait for each of them. What is late is not delayed further.
    fn turn_after(&self, allowed: Time) -> Time {
        let turns = self.turns.as_nanos().max(1);
        Time::from_nanos(allowed.as_nanos().div_ceil(turns).saturating_mul(turns))
    }

    pub(super) fn set_sync(&self, sync: Resync) {
        self.sync.store(sync as u8, Ordering::Relaxed);
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

/// A place on a member that is read or written in order.
#[derive(Default)]
struct Place {
    zone: u64,
    read: Coverage,
    /// What counts of it: on RAID 1, reads in step with another member.
    counted: Coverage,
    written: Coverage,
    /// The end of the latest request.
    end: u64,
    /// The zone before was dense.
    sweeps: bool,
    used: u64,
}

impl Place {
    /// Whether nearly everything was read, or written. What is both was rewritten by a program.
    const fn is_dense(&self, enough: u64) -> bool {
        let (counted, written) = (self.counted.sectors, self.written.sectors);
        counted >= enough && written < enough || written >= enough && self.read.sectors < enough
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
#[derive(Default)]
pub(super) struct Background {
    places: [Place; PLACES],
    uses: u64,
    /// When the next request may go although the foreground is busy, in a turn.
    allowed: Time,
    /// Bytes that may still go in this turn.
    turn: u64,
    /// A request went in a turn: those in the queue interrupt the stream in service.
    passes: bool,
    foreground: Foreground,
    /// Sectors of the background's reads in flight.
    in_flight: u64,
    /// When the latest one ended.
    ended: Time,
}

impl Background {
    /// The place to give up: of those that do not sweep, the one with the least transferred, so that random requests replace each other.
    fn least(&self) -> usize {
        let value = |&index: &usize| {
            let Place { read, written, sweeps, used, .. } = &self.places[index];
            let is_stale = self.uses - used >= STALE;
            (*sweeps && !is_stale, if is_stale { 0 } else { read.sectors + written.sectors }, *used)
        };
        (0..PLACES).min_by_key(value).unwrap_or(0)
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
        let rows = u64::from(layout.unit().0) * u64::from(layout.members());
        let size = rows.max(ZONE_MIN);
        let zone = start / size;
        self.uses += 1;
        // Readers of one copy, or without the parity, leave out more than this.
        let enough = size - size / (2 * u64::from(layout.members()));
        let followed = self.places.iter().position(|place| place.used > 0 && place.zone == zone);
        let before =
            || self.places.iter().position(|place| place.used > 0 && place.zone.checked_add(1) == Some(zone));
        let index = if let Some(index) = followed {
            // A program may have read a part of the zone before a sweep reaches it.
            if !self.places[index].sweeps {
                self.places[index].sweeps =
                    before().is_some_and(|before| self.places[before].is_dense(enough));
            }
            index
        } else {
            let before = before();
            let index = before.unwrap_or_else(|| self.least());
            let former = before.map(|index| &self.places[index]);
            let sweeps = former.is_some_and(|place| place.is_dense(enough));
            let end = former.map_or(0, |place| place.end);
            self.places[index] = Place { zone, sweeps, end, ..Place::default() };
            index
        };
        let place = &mut self.places[index];
        let end = start.saturating_add(u64::from(sectors.0));
        let sweep = &activity.sweeps[member.index()];
        if start + size / 2 < place.end {
            // Another pass: of copies, it may read the other one.
            (place.read, place.counted, place.written) = Default::default();
        }
        if op == Op::Write {
            place.written.add(start, end);
        } else if layout.arrangement() != Arrangement::Mirrored {
            place.read.add(start, end);
            place.counted.add(start, end);
        } else {
            place.read.add(start, end);
            if place.end == start {
                // It has left the zone before.
                sweep.end_of(zone.wrapping_sub(1)).store(0, Ordering::Relaxed);
                sweep.end_of(zone).store(end, Ordering::Relaxed);
            }
            let mut others = (0..).zip(&activity.sweeps).filter(|&(other, _)| Member(other) != member);
            let counts =
                others.any(|(_, other)| other.is_in_step(zone, start, end) || other.is_written(zone));
            if counts {
                place.counted.add(start, end);
            }
        }
        (place.used, place.end) = (self.uses, end);
        if !place.sweeps {
            return false;
        }
        sweep.zone.store(zone + 1, Ordering::Relaxed);
        sweep.at.store(now.as_nanos(), Ordering::Relaxed);
        sweep.reads.store(u8::from(op == Op::Read), Ordering::Relaxed);
        let recognised = activity.is_lockstep(layout, zone, now);
        activity.recognised.fetch_add(u64::from(recognised), Ordering::Relaxed);
        recognised
    }

    /// A foreground request arrived at the member.
    pub(super) fn foreground_began(
        &mut self,
        layout: Option<&Layout>,
        start: Sector,
        sectors: Sectors,
        now: Time,
    ) {
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
    pub(super) fn may_go(&mut self, activity: &Activity, sectors: Sectors, now: Time) -> bool {
        let earliest = Time::from_nanos(now.as_nanos().saturating_sub(PERIOD.as_nanos()));
        if !self.is_free(activity, sectors, now) {
            if self.turn == 0 {
                if now < activity.turn_after(self.allowed.max(earliest)) {
                    return false;
                }
                self.turn = activity.turn;
            }
            self.turn = self.turn.saturating_sub(sectors.bytes());
            self.passes = true;
        }
        // What went while the member was unused counts.
        self.allowed = self.allowed.clamp(earliest, now + PERIOD) + activity.time_of(sectors.bytes());
        true
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
        activity.turn_after(self.allowed).min(gap.unwrap_or(now + LOOK)).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u32 = 128;

    struct Array {
        activity: Activity,
        layout: Layout,
        members: Vec<Background>,
        now: Time,
    }

    impl Array {
        fn new(arrangement: Arrangement, members: u32) -> Self {
            let layout = Layout::new(arrangement, members, Sectors(UNIT), 0, 1 << 30).unwrap();
            let own = (0..members).map(|_| Background::default()).collect();
            Self { activity: Activity::new(members, 1 << 20), layout, members: own, now: Time::ZERO }
        }

        fn request(&mut self, member: u32, op: Op, sector: u64) -> bool {
            self.request_of(member, op, sector, Sectors(UNIT))
        }

        fn request_of(&mut self, member: u32, op: Op, sector: u64, sectors: Sectors) -> bool {
            self.now += Span::from_micros(10);
            let request = (op, Sector(sector), sectors);
            let own = &mut self.members[member as usize];
            own.recognises(&self.activity, &self.layout, Member(member), request, self.now)
        }

        /// All members read from the start, but those in `writes`, which are written; how many requests of the last row are
        /// recognised.
        fn sweep(&mut self, writes: &[u32], skip: impl Fn(u32, u64) -> bool) -> u32 {
            let mut last = 0;
            for row in 0..200 {
                last = 0;
                for member in (0..self.members.len() as u32).filter(|&member| !skip(member, row)) {
                    let op = if writes.contains(&member) { Op::Write } else { Op::Read };
                    last += u32::from(self.request(member, op, row * u64::from(UNIT)));
                }
            }
            last
        }
    }

    #[test]
    fn a_scrub_and_a_rebuild_are_recognised() {
        for arrangement in [Arrangement::Parity(1), Arrangement::Parity(2), Arrangement::Near(2)] {
            assert_eq!(Array::new(arrangement, 5).sweep(&[], |_, _| false), 5, "scrub of {arrangement}");
            assert_eq!(Array::new(arrangement, 5).sweep(&[3], |_, _| false), 5, "rebuild of {arrangement}");
        }
        assert_eq!(
            Array::new(Arrangement::Mirrored, 3).sweep(&[1], |member, _| member == 2),
            2,
            "one copies"
        );
        assert_eq!(Array::new(Arrangement::Mirrored, 2).sweep(&[], |_, _| false), 2, "scrub of two copies");
    }

    /// Reads both copies in order; the second one is `behind` requests behind. How many of the last 100 are recognised.
    fn both_copies(array: &mut Array, behind: u64, beside: impl Fn(&mut Array, u64)) -> u32 {
        let mut recognised = 0;
        for row in behind..600 {
            let first = array.request(0, Op::Read, row * u64::from(UNIT));
            let second = array.request(1, Op::Read, (row - behind) * u64::from(UNIT));
            recognised += if row >= 550 { u32::from(first) + u32::from(second) } else { 0 };
            beside(array, row);
        }
        recognised
    }

    #[test]
    fn two_readers_of_one_file_are_no_scrub_of_a_mirror() {
        let mirror = || Array::new(Arrangement::Mirrored, 2);
        assert_eq!(both_copies(&mut mirror(), 0, |_, _| ()), 100, "a scrub");
        assert_eq!(both_copies(&mut mirror(), 4, |_, _| ()), 100, "a scrub; one thread is late");
        for behind in [10, 16, 24, 32, 100] {
            assert_eq!(both_copies(&mut mirror(), behind, |_, _| ()), 0, "{behind} requests behind");
        }
        let random = |array: &mut Array, row: u64| {
            for count in 0..20 {
                let place = (1 << 20) + ((row * 20 + count).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34);
                array.request_of((count % 2) as u32, Op::Read, place, Sectors(8));
            }
        };
        assert_eq!(both_copies(&mut mirror(), 0, random), 100, "a scrub beside random readers");
    }

    #[test]
    fn a_program_that_rewrites_its_file_is_no_rebuild_of_a_mirror() {
        let mut array = Array::new(Arrangement::Mirrored, 2);
        for row in 0..200 {
            let place = row * u64::from(UNIT);
            for (member, op) in [(0, Op::Read), (0, Op::Write), (1, Op::Write)] {
                assert!(!array.request(member, op, place), "{op} of member {member}, row {row}");
            }
        }
    }

    #[test]
    fn a_scrub_is_recognised_beside_many_random_readers() {
        let mut array = Array::new(Arrangement::Parity(1), 5);
        let (mut random, mut recognised) = (1_u64, 0);
        for row in 0..200 {
            for member in 0..5 {
                for _ in 0..100 {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let place = (1 << 20) + (random >> 34);
                    assert!(!array.request_of(member, Op::Read, place, Sectors(8)), "random");
                }
                recognised += u32::from(array.request(member, Op::Read, row * u64::from(UNIT)));
            }
        }
        assert!(recognised > 800, "{recognised} of 1000");
    }

    #[test]
    fn readers_and_writers_of_the_array_are_not() {
        let parity = |member: u32, row: u64| u64::from(member) == 4 - row % 5;
        assert_eq!(
            Array::new(Arrangement::Parity(1), 5).sweep(&[], parity),
            0,
            "a reader leaves the parity out"
        );
        assert_eq!(Array::new(Arrangement::Striped, 5).sweep(&[], |_, _| false), 0, "RAID 0 has no parity");
        let writes = [0, 1, 2, 3, 4];
        assert_eq!(Array::new(Arrangement::Parity(1), 5).sweep(&writes, |_, _| false), 0, "full stripes");
        let one = |member, _| member != 1;
        assert_eq!(Array::new(Arrangement::Mirrored, 2).sweep(&[], one), 0, "one copy is read");
        let pairs = |member: u32, _| member % 2 == 1;
        assert_eq!(Array::new(Arrangement::Near(2), 4).sweep(&[], pairs), 0, "one copy of each pair");
    }

    /// A program reads a file again: what it leaves out, it leaves out each time. The first time it ended inside a zone.
    #[test]
    fn reading_a_file_again_is_no_scrub() {
        let mut array = Array::new(Arrangement::Parity(1), 5);
        for rows in [83, 200, 149, 200] {
            for row in 0..rows {
                for member in (0..5).filter(|&member| u64::from(member) != 4 - row % 5) {
                    assert!(!array.request(member, Op::Read, row * u64::from(UNIT)), "row {row} of {rows}");
                }
            }
        }
        // Each time from the other copy.
        let mut copies = Array::new(Arrangement::Near(2), 4);
        for pass in 0..6 {
            for row in 0..187 {
                for member in (0..4).filter(|member| (u64::from(*member) + row + pass) % 2 == 0) {
                    assert!(
                        !copies.request(member, Op::Read, row * u64::from(UNIT)),
                        "row {row}, pass {pass}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_scrub_is_recognised_where_a_program_has_read_before() {
        let mut array = Array::new(Arrangement::Parity(1), 5);
        assert_eq!(array.sweep(&[], |member, row| u64::from(member) == 4 - row % 5), 0);
        assert_eq!(array.sweep(&[], |_, _| false), 5);
    }

    #[test]
    fn sectors_that_are_transferred_again_count_once() {
        let mut coverage = Coverage::default();
        for (start, end, sectors) in [
            (10, 20, 10),
            (30, 40, 20),
            (10, 20, 20),
            (20, 25, 25),
            (5, 35, 35),
            (0, 100, 100),
            (50, 60, 100),
        ] {
            coverage.add(start, end);
            assert_eq!(coverage.sectors, sectors, "after {start} to {end}");
        }
        assert_eq!(coverage.ranges, [(0, 100)]);
        for n in 0..2 * RANGES as u64 {
            coverage.add(1000 + 10 * n, 1001 + 10 * n);
        }
        assert_eq!(
            (coverage.ranges.len(), coverage.sectors),
            (RANGES, 99 + RANGES as u64),
            "further ones are ignored"
        );
    }

    #[test]
    fn md_has_the_last_word() {
        let mut array = Array::new(Arrangement::Parity(1), 5);
        array.activity.set_sync(Resync::Idle);
        assert_eq!(array.sweep(&[], |_, _| false), 0);
        let mut copying = Array::new(Arrangement::Near(2), 4);
        copying.activity.set_sync(Resync::Active);
        let partners = |member, _| member > 1;
        assert_eq!(copying.sweep(&[1], partners), 2, "a rebuild of RAID 10 reads one member");
    }

    const SMALL: Sectors = Sectors(128);

    fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    /// Bytes a second that go while the state of the foreground stays the same.
    fn rate(own: &mut Background, activity: &Activity, now: &mut Time) -> u64 {
        let mut passed = 0;
        for _ in 0..10_000 {
            *now += ms(1);
            passed += u64::from(own.may_go(activity, SMALL, *now)) * SMALL.bytes();
        }
        passed / 10
    }

    #[test]
    fn the_background_waits_for_the_foreground_but_keeps_its_rate() {
        let (activity, mut own) = (Activity::new(2, 1 << 20), Background::default());
        let mut now = Time::ZERO + Span::from_secs(1);
        activity.foreground(now, 1);
        own.foreground_began(None, Sector(0), SMALL, now);
        own.arrived(now);
        let rate = rate(&mut own, &activity, &mut now);
        assert!((900_000..=1_100_000).contains(&rate), "{rate} bytes a second beside a busy foreground");
        assert!(own.passes(), "it interrupts the stream in service");
        while own.may_go(&activity, SMALL, now) {}
        activity.foreground(now, -1);
        own.foreground_ended(now);
        assert!(!own.may_go(&activity, SMALL, now), "the foreground ended just now");
        assert_eq!(own.look_again(&activity, SMALL, now), now + GAP);
        now += GAP;
        assert!(own.may_go(&activity, SMALL, now), "the head may go to the sweep");
        now += IDLE;
        own.began(Sectors(10_000));
        assert!((0..100).all(|_| own.may_go(&activity, SMALL, now)), "nothing else is to do");
    }

    #[test]
    fn what_went_while_the_member_was_unused_counts_for_a_second() {
        let (activity, mut own) = (Activity::new(2, 1 << 20), Background::default());
        let mut now = Time::ZERO + Span::from_secs(1);
        for _ in 0..1000 {
            now += ms(1);
            assert!(own.may_go(&activity, SMALL, now), "64 MB a second");
        }
        activity.foreground(now, 1);
        own.foreground_began(None, Sector(0), SMALL, now);
        let paused = (1..2000).find(|&passed| own.may_go(&activity, SMALL, now + ms(passed)));
        assert_eq!(paused, Some(1500), "a second and the time of one request, and then the next turn");
    }

    #[test]
    fn what_was_late_is_caught_up_with_unless_the_background_paused() {
        let (activity, mut own) = (Activity::new(2, 1 << 20), Background::default());
        let mut now = Time::ZERO + Span::from_secs(10);
        activity.foreground(now, 1);
        own.foreground_began(None, Sector(0), SMALL, now);
        let passed =
            |own: &mut Background, now| (0..100).filter(|_| own.may_go(&activity, SMALL, now)).count();
        own.arrived(now);
        assert_eq!(passed(&mut own, now), 8, "a turn of half a second");
        own.began(SMALL);
        now += ms(499);
        assert_eq!(passed(&mut own, now), 0);
        now += ms(501);
        assert_eq!(passed(&mut own, now), 16, "two turns are due, while the first one waited");
        now += Span::from_secs(60);
        assert_eq!(passed(&mut own, now), 24, "at most a second's, and the next turn");
        own.ended(SMALL, now);
        now += PAUSE;
        own.arrived(now);
        assert_eq!(passed(&mut own, now), 0, "nothing was to do meanwhile");
        assert_eq!(passed(&mut own, Time::ZERO + ms(71_499)), 0);
        assert_eq!(passed(&mut own, Time::ZERO + ms(71_500)), 8, "the next turn");
    }

    /// Each turn interrupts the stream that all members serve.
    #[test]
    fn members_take_their_turns_together() {
        let activity = Activity::new(2, 4 << 20);
        let turns = |first: u64| {
            let (mut own, mut turns) = (Background::default(), Vec::new());
            activity.foreground(Time::ZERO, 1);
            own.foreground_began(None, Sector(0), SMALL, Time::ZERO);
            own.arrived(Time::ZERO + ms(first));
            for at in (first..3000).map(|at| Time::ZERO + ms(at)) {
                let passed = (0..100).filter(|_| own.may_go(&activity, SMALL, at)).count();
                if passed > 0 {
                    turns.push((at.as_nanos() / 1_000_000, passed));
                }
            }
            turns
        };
        assert_eq!(turns(1003), (5..12).map(|turn| (turn * 250, 16)).collect::<Vec<_>>(), "1 MiB in 250 ms");
        assert_eq!(turns(1003), turns(1157), "another member's background began later");
    }

    #[test]
    fn a_member_is_used_while_others_are_busy_but_little_at_a_time() {
        let (activity, mut own) = (Activity::new(2, 1), Background::default());
        let now = Time::ZERO + Span::from_secs(1);
        // Another member's.
        activity.foreground(now, 1);
        for _ in 0..BURST / 128 {
            assert!(own.may_go(&activity, SMALL, now));
            own.began(SMALL);
        }
        assert!(!own.may_go(&activity, SMALL, now), "a foreground request would wait for all of them");
        own.ended(SMALL, now);
        assert_eq!(own.look_again(&activity, SMALL, now), now);
        assert!(own.may_go(&activity, SMALL, now));
        own.began(SMALL);
        own.ended(SMALL, now);
        own.ended(SMALL, now);
        assert!(own.may_go(&activity, Sectors(4096), now), "a request that is larger than all goes alone");
    }

    #[test]
    fn a_reader_in_order_is_expected_again() {
        let (activity, mut own) = (Activity::new(2, 1), Background::default());
        let mut now = Time::ZERO + Span::from_secs(1);
        let layout = Layout::new(Arrangement::Parity(1), 3, Sectors(UNIT), 0, 1 << 30).unwrap();
        assert!(own.may_go(&activity, SMALL, now), "the least rate has room for the first one");
        for row in [0, 1, 2] {
            activity.foreground(now, 1);
            own.foreground_began(Some(&layout), Sector((1 << 20) + row * 128), SMALL, now);
            now += ms(5);
            activity.foreground(now, -1);
            own.foreground_ended(now);
            now += ms(5);
        }
        now += ms(5);
        assert!(!own.may_go(&activity, SMALL, now), "10 ms after a request in order");
        // It reads from another member.
        activity.foreground(now, 1);
        activity.foreground(now + ms(1), -1);
        now += ms(15);
        assert!(!own.may_go(&activity, SMALL, now), "its reader is not far");
        now += ms(6);
        assert!(own.may_go(&activity, SMALL, now), "it computes for long");
        own.began(SMALL);
        own.ended(SMALL, now);
        activity.foreground(now, 1);
        now += SEQUENCE_FORGOTTEN;
        assert!(own.may_go(&activity, SMALL, now), "the sequence has ended");
    }
}
