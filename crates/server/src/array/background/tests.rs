//! Recognition of md's own traffic, and its turns.

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
    assert_eq!(Array::new(Arrangement::Mirrored, 3).sweep(&[1], |member, _| member == 2), 2, "one copies");
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

/// What programs read beside a scrub.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Nothing,
    /// One in order, and another one 4 KiB at random places.
    Elsewhere,
    /// One in order, so many sectors before or behind the latest request of the scrub.
    AtSweep(i64),
}

/// The share, in percent, of the requests of a scrub behind its first three zones that are recognised. `depth` rows of so many sectors are in flight,
/// and arrive in any order, another one at each member.
fn recognised_of_a_scrub(arrangement: Arrangement, depth: u64, sectors: u32, beside: Beside) -> u32 {
    let mut array = Array::new(arrangement, 5);
    let mut random = elevator::Random::new(36);
    let rows = 40 * ZONE_MIN / u64::from(sectors);
    let (mut all, mut recognised, mut next, mut reader) = (0, 0, 0, 0);
    let Arrangement::Parity(parity) = arrangement else { unreachable!() };
    // Row by row another member has the parity.
    let has_data = |member: u32, row: u64| (u64::from(member) + row) % 5 >= u64::from(parity);
    // The rows that have not arrived at each member.
    let mut expected: [Vec<u64>; 5] = Default::default();
    loop {
        let oldest = expected.iter().flatten().min().copied().unwrap_or(next);
        while next < rows.min(oldest + depth) {
            expected.iter_mut().for_each(|expected| expected.push(next));
            next += 1;
        }
        let member = random.below(5) as usize;
        if expected[member].is_empty() {
            if expected.iter().all(Vec::is_empty) {
                return 100 * recognised / all;
            }
            continue;
        }
        let index = random.below(expected[member].len() as u64) as usize;
        let start = expected[member].swap_remove(index) * u64::from(sectors);
        let known = array.request_of(member as u32, Op::Read, start, Sectors(sectors));
        if start >= 3 * ZONE_MIN {
            (all, recognised) = (all + 1, recognised + u32::from(known));
        }
        match beside {
            Beside::Nothing => {}
            Beside::Elsewhere => {
                for member in (0..5).filter(|&member| has_data(member, reader)) {
                    assert!(
                        !array.request(member, Op::Read, (1 << 24) + reader * u64::from(UNIT)),
                        "in order"
                    );
                    let place = (1 << 26) + random.below(1 << 24) * 8;
                    assert!(!array.request_of(member, Op::Read, place, Sectors(8)), "at a random place");
                }
                reader += 1;
            }
            Beside::AtSweep(distance) => {
                let at = (next * u64::from(sectors)).saturating_add_signed(distance);
                while (reader + 1) * u64::from(UNIT) <= at {
                    for member in (0..5).filter(|&member| has_data(member, reader)) {
                        array.request(member, Op::Read, reader * u64::from(UNIT));
                    }
                    reader += 1;
                }
            }
        }
    }
}

/// Regression: a late row of a zone had lost its place to the next zone, and the next zone did not count as the sweep's, because the zone before
/// was not complete.
#[test]
fn a_scrub_whose_rows_arrive_out_of_order_is_recognised() {
    for arrangement in [Arrangement::Parity(1), Arrangement::Parity(2)] {
        for (depth, sectors) in [(1, 128), (4, 128), (16, 128), (256, 8), (2, 1024)] {
            for beside in [Beside::Nothing, Beside::Elsewhere] {
                let share = recognised_of_a_scrub(arrangement, depth, sectors, beside);
                let what = format!("{depth} rows of {sectors} sectors in flight, programs: {beside:?}");
                assert!(share >= 95, "{share}% on {arrangement}, {what}");
            }
        }
    }
}

/// Regression: a program that reads near the sweep took late rows of the scrub to its own place, or moved the sweep's place on. Each row that was
/// foreground waited until it had expired, and the scrub with it: `8M` gave 6.6 MB/s.
#[test]
fn a_scrub_is_recognised_while_a_program_passes() {
    for arrangement in [Arrangement::Parity(1), Arrangement::Parity(2)] {
        for (depth, sectors) in [(1, 128), (4, 128), (16, 128), (256, 8), (2, 1024)] {
            for distance in -48..=48 {
                let beside = Beside::AtSweep(distance * i64::from(UNIT));
                let share = recognised_of_a_scrub(arrangement, depth, sectors, beside);
                let what = format!("{depth} rows of {sectors} sectors in flight, {beside:?}");
                assert!(share >= 95, "{share}% on {arrangement}, {what}");
            }
        }
    }
}

/// Regression: what a request transferred of the next zone did not count there.
#[test]
fn a_scrub_with_requests_across_zones_is_recognised() {
    for sectors in [128, 384, 768, 1024, 1536, 2048, 2560] {
        let mut array = Array::new(Arrangement::Parity(1), 5);
        let (mut all, mut recognised) = (0, 0);
        for row in 0..100 {
            for member in 0..5 {
                let start = row * u64::from(sectors) + 1000;
                let known = array.request_of(member, Op::Read, start, Sectors(sectors));
                if start >= 4 * ZONE_MIN {
                    (all, recognised) = (all + 1, recognised + u32::from(known));
                }
            }
        }
        assert_eq!(recognised, all, "requests of {sectors} sectors");
    }
}

#[test]
fn a_scrub_is_recognised_beside_many_random_readers() {
    let mut array = Array::new(Arrangement::Parity(1), 5);
    let (mut random, mut recognised) = (1_u64, 0);
    for row in 0..200 {
        for member in 0..5 {
            for _ in 0..100 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
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
    assert_eq!(Array::new(Arrangement::Parity(1), 5).sweep(&[], parity), 0, "a reader leaves the parity out");
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
                assert!(!copies.request(member, Op::Read, row * u64::from(UNIT)), "row {row}, pass {pass}");
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
    for (start, end, sectors) in
        [(10, 20, 10), (30, 40, 20), (10, 20, 20), (20, 25, 25), (5, 35, 35), (0, 100, 100), (50, 60, 100)]
    {
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
    array.activity.set_sync(Resync::Idle, None, Time::ZERO);
    assert_eq!(array.sweep(&[], |_, _| false), 0);
    let mut copying = Array::new(Arrangement::Near(2), 4);
    copying.activity.set_sync(Resync::Active, None, Time::ZERO);
    let partners = |member, _| member > 1;
    assert_eq!(copying.sweep(&[1], partners), 2, "a rebuild of RAID 10 reads one member");
}

/// The first requests of md's scrub of three members of RAID 5 in the guest (Linux 6.1), as they arrived: the member, the first sector, and how many
/// requests of how many sectors. The loop devices were idle, so that md's first requests of 4 KiB were not merged.
const FIRST_OF_A_SCRUB: &[(u32, u64, u64, u32)] = &[
    (0, 2096, 7, 8),
    (1, 2056, 2, 8),
    (2, 2056, 46, 8),
    (1, 2072, 1, 8),
    (0, 2152, 1, 8),
    (2, 2424, 1, 1024),
    (2, 3448, 1, 648),
    (1, 2080, 17, 8),
    (0, 2160, 29, 8),
    (1, 2216, 14, 8),
    (0, 2392, 1, 8),
    (1, 2328, 12, 8),
    (1, 2424, 1, 1024),
    (0, 2400, 3, 8),
    (0, 2424, 1, 1024),
    (0, 3448, 1, 648),
    (1, 3448, 1, 648),
    (2, 4096, 2, 1024),
    (2, 6144, 1, 8),
    (1, 4096, 2, 1024),
    (1, 6144, 1, 8),
    (0, 4096, 2, 1024),
    (0, 6144, 1, 8),
    (2, 6152, 2, 1024),
    (2, 8200, 1, 8),
    (0, 6152, 2, 1024),
    (0, 8200, 1, 8),
    (1, 6152, 2, 1024),
    (1, 8200, 1, 8),
];

/// Regression: the first zone was foreground, 145 of these 157 requests, and a third of the requests of a scrub of 96 MiB.
#[test]
fn a_scrub_that_md_reports_is_recognised_from_its_first_request() {
    let recorded = |sync: Option<Resync>| {
        let mut array = Array::new(Arrangement::Parity(1), 3);
        array.layout = Layout::new(Arrangement::Parity(1), 3, Sectors(UNIT), 2048, 1 << 20).unwrap();
        if let Some(sync) = sync {
            array.activity.set_sync(sync, Some(&array.layout), array.now);
        }
        let (mut all, mut recognised) = (0, 0);
        for &(member, first, count, sectors) in FIRST_OF_A_SCRUB {
            for start in (0..count).map(|number| first + number * u64::from(sectors)) {
                all += 1;
                recognised += u32::from(array.request_of(member, Op::Read, start, Sectors(sectors)));
            }
        }
        (array, all, recognised)
    };
    for (sync, expected) in [(None, 12), (Some(Resync::Idle), 0), (Some(Resync::Active), 157)] {
        let (_, all, recognised) = recorded(sync);
        assert_eq!((all, recognised), (157, expected), "md reports {sync:?}");
    }
    let (mut array, ..) = recorded(Some(Resync::Active));
    assert!(!array.request(0, Op::Read, 1 << 18), "a program elsewhere");
    // The report arrives again and again.
    array.activity.set_sync(Resync::Active, Some(&array.layout), array.now);
    (0..3).for_each(|member| assert!(array.request(member, Op::Read, 8208), "the scrub goes on"));
    (0..ZONES as u64 + 1).for_each(|place| assert!(!array.request(0, Op::Read, (place + 9) << 18)));
    assert!(!array.request(0, Op::Read, 2048), "the scrub has left the first zone");
}

const SMALL: Sectors = Sectors(128);

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

impl Background {
    /// Whether the next request in order may go.
    fn goes(&mut self, activity: &Activity, now: Time) -> bool {
        let start = Sector(self.uses * u64::from(SMALL.0));
        let goes = self.may_go(activity, start, SMALL, now);
        self.uses += u64::from(goes);
        goes
    }
}

/// Bytes a second that go while the state of the foreground stays the same.
fn rate(own: &mut Background, activity: &Activity, now: &mut Time) -> u64 {
    let mut passed = 0;
    for _ in 0..10_000 {
        *now += ms(1);
        passed += u64::from(own.goes(activity, *now)) * SMALL.bytes();
    }
    passed / 10
}

#[test]
fn the_background_waits_for_the_foreground_but_keeps_its_rate() {
    let (activity, mut own) = (Activity::new(2, 1 << 20), Background::default());
    let mut now = Time::ZERO + Span::from_secs(1);
    activity.foreground(now, 1);
    let _ = own.foreground_began(None, Sector(0), SMALL, now);
    own.arrived(now);
    let rate = rate(&mut own, &activity, &mut now);
    assert!((900_000..=1_100_000).contains(&rate), "{rate} bytes a second beside a busy foreground");
    assert!(own.passes(), "it interrupts the stream in service");
    while own.goes(&activity, now) {}
    activity.foreground(now, -1);
    own.foreground_ended(now);
    assert!(!own.goes(&activity, now), "the foreground ended just now");
    assert_eq!(own.look_again(&activity, SMALL, now), now + GAP);
    now += GAP;
    assert!(own.goes(&activity, now), "the head may go to the sweep");
    now += IDLE;
    own.began(Sectors(10_000));
    assert!((0..100).all(|_| own.goes(&activity, now)), "nothing else is to do");
}

#[test]
fn what_went_while_the_member_was_unused_counts_for_a_second() {
    let (activity, mut own) = (Activity::new(2, 1 << 20), Background::default());
    let mut now = Time::ZERO + Span::from_secs(1);
    for _ in 0..1000 {
        now += ms(1);
        assert!(own.goes(&activity, now), "64 MB a second");
    }
    activity.foreground(now, 1);
    let _ = own.foreground_began(None, Sector(0), SMALL, now);
    let paused = (1..2000).find(|&passed| own.goes(&activity, now + ms(passed)));
    assert_eq!(paused, Some(1500), "a second and the time of one request, and then the next turn");
}

#[test]
fn what_was_late_is_caught_up_with_unless_the_background_paused() {
    let (activity, mut own) = (Activity::new(2, 1 << 20), Background::default());
    let mut now = Time::ZERO + Span::from_secs(10);
    activity.foreground(now, 1);
    let _ = own.foreground_began(None, Sector(0), SMALL, now);
    let passed = |own: &mut Background, now| (0..100).filter(|_| own.goes(&activity, now)).count();
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

/// md submits the rest of a long turn when the slowest member has answered.
#[test]
fn requests_in_order_wait_for_long_turns() {
    let (activity, mut own) = (Activity::new(2, 8 << 20), Background::default());
    let begin = Time::ZERO + Span::from_secs(1);
    let passed = |own: &mut Background, now| (0..100).filter(|_| own.goes(&activity, now)).count();
    activity.foreground(begin, 1);
    let _ = own.foreground_began(None, Sector(0), SMALL, begin);
    (0..300).for_each(|request| activity.mix(request % 2 == 0));
    own.arrived(begin);
    assert_eq!(
        (passed(&mut own, begin), own.reserved(begin)),
        (16, None),
        "half of them are in order: 1 MiB"
    );
    (0..300).for_each(|_| activity.mix(true));
    let begin = begin + ms(500);
    assert!(own.goes(&activity, begin), "a turn of 4 MiB");
    own.began(SMALL);
    assert_eq!(own.reserved(begin), Some(begin + LONG_TURN_LIMIT), "its requests are in flight");
    own.ended(SMALL, begin + ms(20));
    assert_eq!(own.reserved(begin + ms(20)), Some(begin + ms(20) + TURN_WAIT), "md submits the next ones");
    assert_eq!(passed(&mut own, begin + ms(60)), 63, "they are late");
    assert_eq!(own.reserved(begin + ms(60)), None, "the turn is complete");
    let begin = begin + ms(500);
    assert!(own.goes(&activity, begin), "the next turn");
    assert_eq!(own.reserved(begin + TURN_WAIT), None, "nothing comes");
}

/// Regression: a member that had transferred more was not due, and the others waited for it in vain. A member that was ahead stayed ahead, and in
/// each turn got its requests when those that were behind had answered.
#[test]
fn members_join_a_long_turn_and_end_it_at_the_same_sector() {
    let (activity, mut first, mut ahead) =
        (Activity::new(2, 8 << 20), Background::default(), Background::default());
    let begin = Time::ZERO + Span::from_secs(1);
    for own in [&mut first, &mut ahead] {
        let _ = own.foreground_began(None, Sector(0), SMALL, begin);
        activity.foreground(begin, 1);
        own.arrived(begin);
    }
    (0..300).for_each(|_| activity.mix(true));
    ahead.allowed = begin + ms(300);
    ahead.uses = 16;
    assert!(!ahead.goes(&activity, begin), "it is not due");
    assert!(first.goes(&activity, begin + ms(1)));
    let passed = |own: &mut Background| (0..100).filter(|_| own.goes(&activity, begin + ms(5))).count();
    assert_eq!(passed(&mut ahead), 48, "to the end of the turn, and no second turn");
    assert_eq!(ahead.reserved(begin + ms(5)), None, "its part is complete");
    assert!(first.reserved(begin + ms(5)).is_some());
    assert_eq!(passed(&mut first), 63, "4 MiB");
    assert_eq!(first.reserved(begin + ms(5)), None);
    // The next turn begins with the member that is ahead.
    let begin = begin + ms(1000);
    (first.uses, ahead.allowed) = (40, begin);
    let passed = |own: &mut Background| (0..100).filter(|_| own.goes(&activity, begin)).count();
    assert_eq!((passed(&mut ahead), passed(&mut first)), (64, 88), "what it is behind, too");
}

/// A turn in the middle of a slice would cost a further change of streams.
#[test]
fn long_turns_begin_between_slices() {
    let (activity, mut own) = (Activity::new(2, 8 << 20), Background::default());
    let begin = Time::ZERO + Span::from_secs(1);
    let _ = own.foreground_began(None, Sector(0), SMALL, begin);
    activity.foreground(begin, 1);
    own.arrived(begin);
    (0..300).for_each(|_| activity.mix(true));
    activity.directed(begin - ms(60), Directive::Slice(begin + ms(64)));
    assert!(!own.goes(&activity, begin), "the array serves a stream");
    assert_eq!(own.look_again(&activity, SMALL, begin), begin + GAP);
    activity.directed(begin + ms(64), Directive::Slice(begin + ms(64)));
    activity.directed(begin + ms(80), Directive::Slice(begin + ms(204)));
    assert!(own.goes(&activity, begin + ms(81)), "one has ended since the turn was due");
    let due = begin + ms(500);
    while own.goes(&activity, begin + ms(81)) {}
    activity.directed(due - ms(10), Directive::Slice(due - ms(10)));
    activity.directed(due - ms(1), Directive::Slice(due + Span::from_secs(5)));
    assert!(!own.goes(&activity, due + ms(124)));
    assert!(own.goes(&activity, due + ms(125)), "the slice is long");
}

/// Each turn interrupts the stream that all members serve.
#[test]
fn members_take_their_turns_together() {
    let activity = Activity::new(2, 4 << 20);
    let turns = |first: u64| {
        let (mut own, mut turns) = (Background::default(), Vec::new());
        activity.foreground(Time::ZERO, 1);
        let _ = own.foreground_began(None, Sector(0), SMALL, Time::ZERO);
        own.arrived(Time::ZERO + ms(first));
        for at in (first..3000).map(|at| Time::ZERO + ms(at)) {
            let passed = (0..100).filter(|_| own.goes(&activity, at)).count();
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
        assert!(own.goes(&activity, now));
        own.began(SMALL);
    }
    assert!(!own.goes(&activity, now), "a foreground request would wait for all of them");
    own.ended(SMALL, now);
    assert_eq!(own.look_again(&activity, SMALL, now), now);
    assert!(own.goes(&activity, now));
    own.began(SMALL);
    own.ended(SMALL, now);
    own.ended(SMALL, now);
    assert!(
        own.may_go(&activity, Sector(0), Sectors(4096), now),
        "a request that is larger than all goes alone"
    );
}

#[test]
fn a_reader_in_order_is_expected_again() {
    let (activity, mut own) = (Activity::new(2, 1), Background::default());
    let mut now = Time::ZERO + Span::from_secs(1);
    let layout = Layout::new(Arrangement::Parity(1), 3, Sectors(UNIT), 0, 1 << 30).unwrap();
    assert!(own.goes(&activity, now), "the least rate has room for the first one");
    for row in [0, 1, 2] {
        activity.foreground(now, 1);
        let _ = own.foreground_began(Some(&layout), Sector((1 << 20) + row * 128), SMALL, now);
        now += ms(5);
        activity.foreground(now, -1);
        own.foreground_ended(now);
        now += ms(5);
    }
    now += ms(5);
    assert!(!own.goes(&activity, now), "10 ms after a request in order");
    // It reads from another member.
    activity.foreground(now, 1);
    activity.foreground(now + ms(1), -1);
    now += ms(15);
    assert!(!own.goes(&activity, now), "its reader is not far");
    now += ms(6);
    assert!(own.goes(&activity, now), "it computes for long");
    own.began(SMALL);
    own.ended(SMALL, now);
    activity.foreground(now, 1);
    now += SEQUENCE_FORGOTTEN;
    assert!(own.goes(&activity, now), "the sequence has ended");
}
