//! tariffs: four virtual machines with a rating engine each (IOAnalyzer, section IV-D).
//!
//! "Tariff Advisor from Neurocom [...] is an application based on a fast rating/re-rating engine for telecom operators [...]. We
//! run 4 Virtual Machines images of 80 Gb, using two different image formats: QCOW2 and RAW. QCOW2 implements copy-on-write
//! [...]. RAW offers the best performance (twice than QCOW2)."
//!
//! The paper does not describe the requests, so this is an approximation. A report reads a customer's calls, a run at a
//! random position of the guest's disk, rates them, and writes the result durably. Guests take reports from a common list, so
//! that a faster array shortens the run. Of QCOW2 these properties are modelled: 64 KB clusters; a second-level table for
//! each 512 MB, read unless it is among the sixteen cached ones; the first write to a cluster copies it from the base to the
//! end of the image and changes the table.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use elevator::Random;
use elevator::text::whole;
use elevator::{Flags, Op, Process, Sector, Sectors, Span, Time, tunables};
use machine::{Await, Io, Next, Program, Submitter};

use super::{GIB, KIB};
use crate::workload::{Processes as Started, Workload};

tunables! {
    pub struct TariffsSettings {
        /// Virtual machines.
        guests: Count = 4, 1, 64;
        /// I/O threads of each guest.
        workers: Count = 4, 1, 256;
        /// Total number of reports.
        reports: Count = 100_000, 1, 100_000_000;
        /// Bytes of an image.
        image_bytes: Count = 80 * GIB, GIB, 1024 * GIB;
        /// Bytes of calls that a report reads.
        calls_bytes: Count = 256 * KIB, 4 * KIB, GIB;
        /// Processor time for each report.
        think: Span = Span::from_millis(2), Span::ZERO, Span::from_secs(10);
        /// Images are QCOW2 overlays of a base image; otherwise RAW.
        copy_on_write: Flag = false, false, true;
        /// Seed of positions.
        seed: Count = 1, 0, u64::MAX;
    }
}

/// The benchmark with its settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tariffs(pub TariffsSettings);

/// Largest request of a guest.
const REQUEST: Sectors = Sectors(128);
/// Result of a report.
const RESULT: Sectors = Sectors(8);
/// A QCOW2 cluster, also the size of a second-level table.
const CLUSTER: Sectors = Sectors(128);
const TABLE_COVERS: u64 = 8192;
/// Tables that QEMU caches: 1 MB.
const TABLES_CACHED: usize = 16;

impl Tariffs {
    const fn image_sectors(&self) -> u64 {
        self.0.image_bytes / 512
    }
}

/// A guest's image: maps sectors of its disk.
struct Image {
    start: u64,
    copy_on_write: bool,
    /// Clusters written so far, and their position in the overlay.
    allocated: BTreeMap<u64, u64>,
    /// Start of the overlay, after the base image and the tables.
    overlay: u64,
    tables: VecDeque<u64>,
}

impl Image {
    /// Adds the steps of looking up a sector; returns its position.
    fn look_up(&mut self, sector: u64, steps: &mut VecDeque<Next>) -> u64 {
        if !self.copy_on_write {
            return self.start + sector;
        }
        let cluster = sector / u64::from(CLUSTER.0);
        let table = cluster / TABLE_COVERS;
        match self.tables.iter().position(|&cached| cached == table) {
            Some(at) => drop(self.tables.remove(at)),
            None => wait_for(Io::read(self.table(table), CLUSTER), steps),
        }
        self.tables.push_back(table);
        if self.tables.len() > TABLES_CACHED {
            self.tables.pop_front();
        }
        let within = sector % u64::from(CLUSTER.0);
        self.allocated.get(&cluster).map_or(self.start + sector, |at| at + within)
    }

    /// Tables lie before the overlay.
    const fn table(&self, table: u64) -> Sector {
        Sector(self.overlay + table * CLUSTER.0 as u64)
    }

    /// Adds the steps of a durable write.
    fn write(&mut self, sector: u64, tables: u64, steps: &mut VecDeque<Next>) {
        let place = self.look_up(sector, steps);
        let cluster = sector / u64::from(CLUSTER.0);
        if self.copy_on_write && !self.allocated.contains_key(&cluster) {
            let at = self.overlay + (tables + self.allocated.len() as u64) * u64::from(CLUSTER.0);
            self.allocated.insert(cluster, at);
            wait_for(Io::read(Sector(self.start + cluster * u64::from(CLUSTER.0)), CLUSTER), steps);
            wait_for(write(Sector(at), CLUSTER), steps);
            wait_for(write(self.table(cluster / TABLE_COVERS), RESULT), steps);
        } else {
            wait_for(write(Sector(place), RESULT), steps);
        }
    }
}

fn write(start: Sector, sectors: Sectors) -> Io {
    Io { op: Op::Write, start, sectors, flags: Flags { sync: true, fua: true, ..Flags::default() } }
}

fn wait_for(io: Io, steps: &mut VecDeque<Next>) {
    steps.extend([Next::Submit(io), Next::Await(Await::All)]);
}

struct Worker {
    own: Tariffs,
    begun: Rc<RefCell<u64>>,
    image: Rc<RefCell<Image>>,
    steps: VecDeque<Next>,
}

impl Worker {
    fn report(&mut self, n: u64) {
        let mut random = Random::new(self.own.0.seed ^ (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let sectors = self.own.image_sectors();
        let requests = (self.own.0.calls_bytes / REQUEST.bytes()).max(1);
        let run = requests * u64::from(REQUEST.0);
        let first = random.below((sectors - run) / u64::from(REQUEST.0)) * u64::from(REQUEST.0);
        let mut image = self.image.borrow_mut();
        for i in 0..requests {
            let place = image.look_up(first + i * u64::from(REQUEST.0), &mut self.steps);
            wait_for(Io::read(Sector(place), REQUEST), &mut self.steps);
        }
        self.steps.push_back(Next::Think(self.own.0.think));
        let clusters = sectors / u64::from(CLUSTER.0);
        let result = random.below(clusters) * u64::from(CLUSTER.0);
        image.write(result, clusters.div_ceil(TABLE_COVERS), &mut self.steps);
    }
}

impl Program for Worker {
    fn next(&mut self, _now: Time) -> Next {
        if self.steps.is_empty() {
            let n = *self.begun.borrow();
            if n >= self.own.0.reports {
                return Next::Exit;
            }
            *self.begun.borrow_mut() += 1;
            self.report(n);
        }
        self.steps.pop_front().unwrap_or(Next::Exit)
    }
}

impl Workload for Tariffs {
    fn describe(&self) -> String {
        let TariffsSettings { guests, reports, image_bytes, copy_on_write, .. } = self.0;
        let format = if copy_on_write { "QCOW2" } else { "RAW" };
        format!("tariffs: {reports} reports of {guests} guests, {format} images of {}", whole(image_bytes))
    }

    fn end(&self) -> Sector {
        // A base and an overlay for each, and room for tables.
        Sector(self.0.guests * (2 * self.image_sectors() + GIB / 512))
    }

    fn processes(&self) -> Started {
        let TariffsSettings { guests, workers, copy_on_write, .. } = self.0;
        let begun = Rc::new(RefCell::new(0));
        let each = 2 * self.image_sectors() + GIB / 512;
        let mut started: Started = Vec::new();
        for guest in 0..guests {
            let start = guest * each;
            let image = Rc::new(RefCell::new(Image {
                start,
                copy_on_write,
                allocated: BTreeMap::new(),
                overlay: start + self.image_sectors(),
                tables: VecDeque::new(),
            }));
            for worker in 0..workers {
                let task = (guest * workers + worker + 1) as u32;
                // All threads of a guest are one process of the host.
                let process = Process { group: (guest * workers + 1) as u32, ..Process::single(task) };
                let who = Submitter {
                    process: Some(process),
                    ..Submitter::process(task, format!("guest-{}", guest + 1))
                };
                let (begun, image) = (Rc::clone(&begun), Rc::clone(&image));
                let program = Worker { own: *self, begun, image, steps: VecDeque::new() };
                started.push((who, Box::new(program)));
            }
        }
        started
    }
}
