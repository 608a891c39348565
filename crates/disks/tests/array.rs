//! Arrays compared with slow, simple oracles: a map of every sector, and an array of bytes that must remain recoverable after any write.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use dwell_disks::array::{Access, ArrayDescription, Geometry, Level, Link, Linked, MemberSector, Part};
use dwell_disks::{Command, Drive, SkewedClock, Tag};
use elevator::Random;
use elevator::{Op, Sector, Sectors, Span, Time};

/// Rows of the arrays under test.
const ROWS: u64 = 14;
const UNIT: u32 = 8;

fn shapes() -> impl Iterator<Item = Geometry> {
    let raid0 = (2..=6).map(|members| (Level::Raid0, members));
    let raid5 = (3..=7).map(|members| (Level::Raid5, members));
    raid0.chain(raid5).map(|(level, members)| {
        Geometry::new(level, members, Sectors(UNIT), Sector(ROWS * u64::from(UNIT) + 5))
    })
}

/// The member with a row's parity, by the definition of left-symmetric: the last member in row 0, then descending.
fn parity_by_walking(geometry: &Geometry, row: u64) -> u32 {
    (0..row).fold(
        geometry.members() - 1,
        |parity, _| if parity == 0 { geometry.members() - 1 } else { parity - 1 },
    )
}

#[test]
fn every_sector_maps_to_one_location_and_none_to_parity() {
    for geometry in shapes() {
        let mut taken = BTreeSet::new();
        for logical in 0..geometry.capacity().0 {
            let place = geometry.place(Sector(logical));
            assert!(place.sector.0 < ROWS * u64::from(UNIT), "{geometry:?} {logical}");
            assert!(taken.insert((place.member, place.sector)), "{geometry:?}: two sectors at {place:?}");
            assert_eq!(geometry.logical(place), Some(Sector(logical)));
        }
        for row in 0..ROWS {
            let Some(parity) = geometry.parity(row) else { continue };
            assert_eq!(parity, parity_by_walking(&geometry, row));
            for sector in row * u64::from(UNIT)..(row + 1) * u64::from(UNIT) {
                let place = MemberSector { member: parity, sector: Sector(sector) };
                assert_eq!(geometry.logical(place), None);
                assert!(
                    taken.insert((parity, Sector(sector))),
                    "{geometry:?}: parity over data at {place:?}"
                );
            }
        }
        assert_eq!(taken.len() as u64, u64::from(geometry.members()) * ROWS * u64::from(UNIT));
    }
}

#[test]
fn consecutive_stripe_units_are_on_different_members() {
    for geometry in shapes() {
        let member = |unit: u64| geometry.place(Sector(unit * u64::from(UNIT))).member;
        let units = geometry.capacity().0 / u64::from(UNIT);
        for first in 0..units - u64::from(geometry.members()) {
            let window: BTreeSet<u32> = (first..first + u64::from(geometry.members())).map(member).collect();
            assert_eq!(window.len() as u32, geometry.members(), "{geometry:?} from unit {first}");
        }
    }
}

fn draw(random: &mut Random, geometry: &Geometry) -> (Sector, Sectors) {
    let start = random.below(geometry.capacity().0 - 1);
    let longest = (geometry.capacity().0 - start).min(3 * geometry.stripe());
    (Sector(start), Sectors(1 + random.below(longest) as u32))
}

/// Every sector that the parts cover, with the number of parts that cover it.
fn covered(parts: &[Part]) -> BTreeMap<(u32, u64), u32> {
    let mut covered = BTreeMap::new();
    for part in parts {
        for sector in part.start.0..(part.start + part.sectors).0 {
            *covered.entry((part.member, sector)).or_default() += 1;
        }
    }
    covered
}

#[test]
fn the_parts_of_a_read_cover_exactly_the_request() {
    let mut random = Random::new(1);
    let mut access = Access::default();
    for geometry in shapes() {
        for _ in 0..400 {
            let (start, sectors) = draw(&mut random, &geometry);
            geometry.access(Op::Read, start, sectors, None, &mut access);
            let asked: BTreeMap<(u32, u64), u32> = (start.0..(start + sectors).0)
                .map(|logical| geometry.place(Sector(logical)))
                .map(|place| ((place.member, place.sector.0), 1))
                .collect();
            assert_eq!(covered(&access.then), asked, "{geometry:?} {start} {sectors:?}");
            assert!(access.before.is_empty());
        }
    }
}

/// A RAID 5 with one byte per sector.
struct Bytes {
    geometry: Geometry,
    members: Vec<Vec<u8>>,
    /// The expected content of the array.
    content: Vec<u8>,
    failed: Option<u32>,
}

impl Bytes {
    fn new(geometry: Geometry, failed: Option<u32>) -> Self {
        let size = (ROWS * u64::from(UNIT)) as usize;
        let members = vec![vec![0; size]; geometry.members() as usize];
        Self { geometry, members, content: vec![0; geometry.capacity().0 as usize], failed }
    }

    /// Executes a write with only the reads and writes of `access`.
    fn write(&mut self, start: Sector, data: &[u8], access: &Access) {
        let known: BTreeMap<(u32, u64), u8> = covered(&access.before)
            .keys()
            .map(|&(member, sector)| ((member, sector), self.members[member as usize][sector as usize]))
            .collect();
        let mut fresh = BTreeMap::new();
        for (logical, &byte) in (start.0..).zip(data) {
            let place = self.geometry.place(Sector(logical));
            fresh.insert((place.member, place.sector.0), byte);
            self.content[logical as usize] = byte;
        }
        for &(member, sector) in covered(&access.then).keys() {
            let byte = match fresh.get(&(member, sector)) {
                Some(&byte) => byte,
                None => self.parity(sector, &fresh, &known),
            };
            self.members[member as usize][sector as usize] = byte;
        }
    }

    /// The new parity at a sector: by reconstruction if all data of the row is known, otherwise by modification.
    fn parity(&self, sector: u64, fresh: &BTreeMap<(u32, u64), u8>, known: &BTreeMap<(u32, u64), u8>) -> u8 {
        let parity = self.geometry.parity(sector / u64::from(UNIT)).unwrap();
        let data = || (0..self.geometry.members()).filter(move |&member| member != parity);
        let now = |member| fresh.get(&(member, sector)).or_else(|| known.get(&(member, sector))).copied();
        if let Some(bytes) = data().map(now).collect::<Option<Vec<u8>>>() {
            return bytes.iter().fold(0, |parity, byte| parity ^ byte);
        }
        let changed = data().filter(|&member| fresh.contains_key(&(member, sector)));
        changed.fold(known[&(parity, sector)], |parity, member| {
            parity ^ fresh[&(member, sector)] ^ known[&(member, sector)]
        })
    }

    /// Executes a read with only the reads of `access`.
    fn read(&self, start: Sector, sectors: Sectors, access: &Access) -> Vec<u8> {
        let known = covered(&access.then);
        let at = |member: u32, sector: u64| {
            assert!(known.contains_key(&(member, sector)), "member {member} sector {sector} was not read");
            self.members[member as usize][sector as usize]
        };
        let byte = |logical| {
            let MemberSector { member, sector } = self.geometry.place(Sector(logical));
            if Some(member) != self.failed {
                return at(member, sector.0);
            }
            let rest = (0..self.geometry.members()).filter(|&other| other != member);
            rest.fold(0, |sum, other| sum ^ at(other, sector.0))
        };
        (start.0..(start + sectors).0).map(byte).collect()
    }
}

#[test]
fn data_survives_the_loss_of_each_member() {
    for geometry in shapes().filter(|geometry| geometry.level() == Level::Raid5) {
        let members = (0..geometry.members()).map(Some);
        for failed in std::iter::once(None).chain(members) {
            let mut random = Random::new(u64::from(failed.map_or(99, |member| member)));
            let mut array = Bytes::new(geometry, failed);
            let mut access = Access::default();
            for _ in 0..300 {
                let (start, sectors) = draw(&mut random, &geometry);
                geometry.access(Op::Write, start, sectors, failed, &mut access);
                for part in access.before.iter().chain(&access.then) {
                    assert_ne!(Some(part.member), failed, "an operation for the failed member");
                }
                let once =
                    covered(&access.then).values().chain(covered(&access.before).values()).all(|&n| n == 1);
                assert!(once, "{access:?} covers a sector twice");
                let data: Vec<u8> = (0..sectors.0).map(|_| random.next() as u8).collect();
                array.write(start, &data, &access);
                let (start, sectors) = draw(&mut random, &geometry);
                geometry.access(Op::Read, start, sectors, failed, &mut access);
                let expected = &array.content[start.0 as usize..(start + sectors).0 as usize];
                assert_eq!(array.read(start, sectors, &access), expected, "{geometry:?} without {failed:?}");
            }
        }
    }
}

/// Number of members that are read first, and of members that are written, for a write to a RAID 5 of six members and units of 8 sectors.
fn reads_and_writes(start: u64, sectors: u32, failed: Option<u32>) -> (usize, usize) {
    let geometry = Geometry::new(Level::Raid5, 6, Sectors(8), Sector(800));
    let mut access = Access::default();
    geometry.access(Op::Write, Sector(start), Sectors(sectors), failed, &mut access);
    (access.before.len(), access.then.len())
}

#[test]
fn a_write_updates_parity_by_the_cheaper_method() {
    // Row 0: data on members 0 to 4, parity on 5.
    assert_eq!(reads_and_writes(0, 8, None), (2, 2), "one of five: modify, 2 reads against 4");
    assert_eq!(reads_and_writes(0, 16, None), (3, 3), "two of five: a tie of 3 and 3 reconstructs");
    assert_eq!(reads_and_writes(0, 24, None), (2, 4), "three of five: reconstruct, 2 against 4");
    assert_eq!(reads_and_writes(0, 40, None), (0, 6), "a full stripe reads nothing");
    assert_eq!(
        reads_and_writes(0, 8, Some(0)),
        (4, 1),
        "the written unit is on the failed member: reconstruct from the others"
    );
    assert_eq!(reads_and_writes(0, 24, Some(4)), (4, 4), "an unwritten unit is on the failed member: modify");
    assert_eq!(
        reads_and_writes(0, 8, Some(5)),
        (4, 1),
        "parity is on the failed member: md reads the units that are not written"
    );
    assert_eq!(reads_and_writes(0, 40, Some(5)), (0, 5), "a full stripe reads nothing");
}

#[test]
fn a_link_delays_only_when_shared() {
    let mut link = Link::new(400_000_000);
    let (unit, at) = (Sectors(128), Time::ZERO + Span::from_millis(10));
    assert_eq!(link.pass(at, unit), at, "on an idle link the transfer overlaps with the drive's own");
    let takes = Span::from_nanos(65_536 * 10 / 4);
    assert_eq!(link.pass(at, unit), at + takes);
    assert_eq!(link.pass(at, unit), at + takes * 2);
    let later = at + Span::from_millis(10);
    assert_eq!(link.pass(later, unit), later);
}

#[test]
fn array_names_parse_and_print() {
    for name in ["raid0:5x64k", "raid5:24x1024k", "raid5:5x64k{failed=2, slow=0, slowness=150, link=400}"] {
        assert_eq!(ArrayDescription::parse(name).unwrap().to_string(), name);
    }
    assert_eq!(ArrayDescription::parse("raid0:2x1m").unwrap().unit, Sectors(2048));
}

#[test]
fn errors_of_array_names_state_the_problem() {
    for (name, word) in [
        ("raid0", "no ':'"),
        ("raid6:5x64k", "raid6"),
        ("raid0:1x64k", "1 members; raid0 takes 2 to 384"),
        ("raid5:2x64k", "2 members; raid5 takes 3 to 384"),
        ("raid0:9999x64k", "9999 members"),
        ("raid0:5", "no 'x'"),
        ("raid0:5x64", "end it with k or m"),
        ("raid0:5x3k", "multiple of 4k"),
        ("raid0:5x0k", "multiple of 4k"),
        ("raid0:5x99999999999999999999k", "not a whole number"),
        ("raid0:5x64k{failed=1}", "does not survive"),
        ("raid5:5x64k{failed=5}", "no member 5"),
        ("raid5:5x64k{failed=1, failed=2}", "'failed' occurs twice"),
        ("raid5:5x64k{faild=1}", "did you mean 'failed'?"),
        ("raid5:5x64k{slowness=150}", "without a slow member"),
        ("raid5:5x64k{slow=1, slowness=50}", "from 100"),
        ("raid5:5x64k{link=0}", "at least 1"),
        ("raid5:5x64k{", "braces"),
    ] {
        let error = ArrayDescription::parse(name).unwrap_err().to_string();
        assert!(error.contains(word), "{name}: {error}");
    }
}

/// Completion times of reads, each submitted after the previous one has completed.
fn run(mut drive: Box<dyn Drive>) -> Vec<Time> {
    let mut now = Time::ZERO;
    let read =
        |start| Command { tag: Tag(0), op: Op::Read, start: Sector(start), sectors: Sectors(8), fua: false };
    let places = [0, 500_000_000, 8, 16, 900_000_000, 500_000_008];
    places
        .map(|start| {
            drive.submit(now, read(start));
            loop {
                now = drive.next_event().expect("something is in the drive");
                if let Some(completion) = drive.poll(now) {
                    assert_eq!(completion.at, now);
                    return now;
                }
            }
        })
        .to_vec()
}

#[test]
fn a_slow_drive_scales_all_times() {
    let drive = || dwell_disks::open("wd5000aaks", &mut |_| unreachable!("it is built in")).unwrap().0;
    let usual = run(drive());
    for percent in [100, 150, 370] {
        let slow = run(Box::new(SkewedClock::slow(drive(), percent)));
        for (usual, slow) in usual.iter().zip(slow) {
            let expected = usual.as_nanos() * percent / 100;
            assert!(slow.as_nanos().abs_diff(expected) <= 20, "{percent}%: {slow:?}, not {expected}");
        }
    }
}

#[test]
fn drives_on_a_narrow_link_share_its_rate() {
    let link = Rc::new(RefCell::new(Link::new(100_000_000)));
    let drive = || dwell_disks::open("wd5000aaks", &mut |_| unreachable!("it is built in")).unwrap().0;
    let alone = run(drive());
    let behind = run(Box::new(Linked::new(drive(), Rc::clone(&link))));
    assert_eq!(alone, behind, "4 KiB pass a link of 100 MB/s during the rotational delay");
    let at = *behind.last().expect("six reads");
    let big = Sectors(2048);
    let first = link.borrow_mut().pass(at, big);
    let second = link.borrow_mut().pass(at, big);
    assert_eq!(second.since(first), Span::from_nanos(big.bytes() * 10), "the second waits for the first");
}
