//! The array's own traffic: resynchronisation, rebuild and scrub, recognised by its pattern and served behind foreground requests.
//!
//! md reads every member from its first to its last sector, all members at about the same place, the parity included; a rebuild writes
//! one of them instead. A reader of the array leaves the parity out, or reads one copy of several, so no member is read without gaps.
//! RAID 0 has no such traffic. Each member divides itself into zones of some rows and counts what is transferred in each: a zone of
//! which nearly everything was read is *dense*.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use disks::array::{Arrangement, Layout};
use elevator::array::Member;
use elevator::{Op, Sector, Sectors, Span, Time};

/// How near the members of one sweep are, in zones.
const NEAR: u64 = 2;

/// A sweep that has not moved for so long is over.
const FORGOTTEN: Span = Span::from_secs(20);

/// How long there must be no foreground request before the background goes on at full rate.
pub(super) const QUIET: Span = Span::from_millis(20);

/// The smallest zone, in sectors.
const ZONE_MIN: u64 = 2048;

/// Places of a member that are followed at once: streams of the foreground have places too.
const PLACES: usize = 8;

/// What md reports of its own traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
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
}

/// What members share about foreground and background.
pub(crate) struct Activity {
    /// Bytes a second that the background of each member may transfer at least.
    least: u64,
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
        Self {
            least: least.max(1),
            foreground: AtomicI64::new(0),
            touched: AtomicU64::new(0),
            sync: AtomicU8::new(Sync::Unknown as u8),
            sweeps,
            held: AtomicU64::new(0),
            recognised: AtomicU64::new(0),
        }
    }

    pub(super) fn set_sync(&self, sync: Sync) {
        self.sync.store(sync as u8, Ordering::Relaxed);
    }

    /// Foreground requests began or ended.
    pub(super) fn foreground(&self, now: Time, change: i64) {
        self.foreground.fetch_add(change, Ordering::Relaxed);
        self.touched.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    fn is_quiet(&self, now: Time) -> bool {
        self.foreground.load(Ordering::Relaxed) <= 0
            && now.since(Time::from_nanos(self.touched.load(Ordering::Relaxed))) >= QUIET
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
            Arrangement::Near(_) if self.sync.load(Ordering::Relaxed) == Sync::Active as u8 => 1,
            Arrangement::Parity(_) | Arrangement::Near(_) => layout.members(),
        };
        reading > 0 && all >= needed && self.sync.load(Ordering::Relaxed) != Sync::Idle as u8
    }
}

/// A place on a member that is read or written in order.
#[derive(Clone, Copy, Default)]
struct Place {
    zone: u64,
    sectors: u64,
    /// The zone before was dense.
    sweeps: bool,
    used: u64,
}

/// A member's own part: recognises requests of the background, and says when they may go.
#[derive(Default)]
pub(super) struct Background {
    places: [Place; PLACES],
    uses: u64,
    /// When the next request may go although the foreground is busy.
    allowed: Time,
}

impl Background {
    /// Whether a request belongs to the array's own traffic.
    pub(super) fn recognises(
        &mut self,
        activity: &Activity,
        layout: &Layout,
        member: Member,
        (op, start, sectors): (Op, Sector, Sectors),
        now: Time,
    ) -> bool {
        if !matches!(op, Op::Read | Op::Write) || layout.arrangement() == Arrangement::Striped {
            return false;
        }
        let rows = u64::from(layout.unit().0) * u64::from(layout.members());
        let size = rows.max(ZONE_MIN);
        let zone = start.0 / size;
        self.uses += 1;
        // Readers of one copy, or without the parity, leave out more than this.
        let enough = size - size / (2 * u64::from(layout.members()));
        let followed = self.places.iter().position(|place| place.used > 0 && place.zone == zone);
        let index = followed.unwrap_or_else(|| {
            let before = self
                .places
                .iter()
                .position(|place| place.used > 0 && place.zone.checked_add(1) == Some(zone));
            let oldest = || (0..PLACES).min_by_key(|&index| self.places[index].used).unwrap_or(0);
            let index = before.unwrap_or_else(oldest);
            let sweeps = before.is_some() && self.places[index].sectors >= enough;
            self.places[index] = Place { zone, sectors: 0, sweeps, used: 0 };
            index
        });
        let place = &mut self.places[index];
        place.sectors += u64::from(sectors.0);
        place.used = self.uses;
        if !place.sweeps {
            return false;
        }
        let sweep = &activity.sweeps[member.index()];
        sweep.zone.store(zone + 1, Ordering::Relaxed);
        sweep.at.store(now.as_nanos(), Ordering::Relaxed);
        sweep.reads.store(u8::from(op == Op::Read), Ordering::Relaxed);
        let recognised = activity.is_lockstep(layout, zone, now);
        activity.recognised.fetch_add(u64::from(recognised), Ordering::Relaxed);
        recognised
    }

    /// Whether a request of the background may go now. If the foreground is busy, at the least rate.
    pub(super) fn may_go(&mut self, activity: &Activity, sectors: Sectors, now: Time) -> bool {
        let is_quiet = activity.is_quiet(now);
        if !is_quiet && now < self.allowed {
            return false;
        }
        let nanoseconds = u128::from(sectors.bytes()) * 1_000_000_000 / u128::from(activity.least);
        self.allowed = now + Span::from_nanos(nanoseconds.min(u128::from(u64::MAX / 4)) as u64);
        true
    }

    /// When to look again whether a held request may go.
    pub(super) fn look_again(&self, now: Time) -> Time {
        self.allowed.min(now + QUIET).max(now + Span::from_millis(1))
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
            self.now += Span::from_micros(10);
            let request = (op, Sector(sector), Sectors(UNIT));
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

    #[test]
    fn md_has_the_last_word() {
        let mut array = Array::new(Arrangement::Parity(1), 5);
        array.activity.set_sync(Sync::Idle);
        assert_eq!(array.sweep(&[], |_, _| false), 0);
        let mut copying = Array::new(Arrangement::Near(2), 4);
        copying.activity.set_sync(Sync::Active);
        let partners = |member, _| member > 1;
        assert_eq!(copying.sweep(&[1], partners), 2, "a rebuild of RAID 10 reads one member");
    }

    #[test]
    fn the_background_waits_for_the_foreground_but_keeps_its_rate() {
        let (activity, mut own) = (Activity::new(2, 1 << 20), Background::default());
        let mut now = Time::ZERO + Span::from_secs(1);
        activity.foreground(now, 1);
        let mut passed = 0;
        for _ in 0..10_000 {
            now += Span::from_millis(1);
            passed += u64::from(own.may_go(&activity, Sectors(128), now)) * 65_536;
        }
        let rate = passed / 10;
        assert!((900_000..=1_100_000).contains(&rate), "{rate} bytes a second beside a busy foreground");
        activity.foreground(now, -1);
        assert!(!own.may_go(&activity, Sectors(128), now), "the foreground ended just now");
        now += QUIET;
        assert!((0..100).all(|_| own.may_go(&activity, Sectors(128), now)), "nothing else is to do");
    }
}
