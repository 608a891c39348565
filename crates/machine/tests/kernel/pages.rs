//! Dirty pages and metadata as a split policy receives them: each is reported once, with its causes, until it is submitted or discarded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use elevator::split::{Account, Action, File, Page, Split, SystemCall, Terms, Verdict};
use elevator::{Capabilities, CauseSet, Decision, Growth, Outcome, Request, Scheduler, Span, Time, View};
use machine::Next;
use machine::kernel::{Call, Description, Image};
use schedulers::{Environment, Spec};

use crate::bench::{Bench, FIRST, built_in, create, write_file};

/// What the policy received.
#[derive(Default)]
struct Ledger {
    dirty: BTreeMap<(File, u64), CauseSet>,
    sets: BTreeMap<u32, Vec<u32>>,
    dirtied: u64,
    submitted: u64,
    freed: u64,
    /// Accounts that changed metadata.
    changed_by: BTreeSet<u32>,
}

impl Ledger {
    fn leaves(&mut self, page: &Page, causes: CauseSet) {
        let known = self.dirty.remove(&(page.file, page.offset));
        assert_eq!(known, Some(causes), "{page:?}");
    }
}

/// Noop that compares each event with those before.
struct Recorder {
    noop: Box<dyn Scheduler>,
    ledger: Arc<Mutex<Ledger>>,
}

impl Scheduler for Recorder {
    fn insert(&mut self, now: Time, request: &Request) {
        self.noop.insert(now, request);
    }

    fn merged(&mut self, now: Time, request: &Request, growth: Growth<'_>) {
        self.noop.merged(now, request, growth);
    }

    fn next(&mut self, now: Time, view: &View<'_>) -> Decision {
        self.noop.next(now, view)
    }

    fn completed(&mut self, now: Time, request: &Request, outcome: Outcome) {
        self.noop.completed(now, request, outcome);
    }
}

impl Capabilities for Recorder {
    fn split(&mut self) -> Option<&mut dyn Split> {
        Some(self)
    }
}

impl Split for Recorder {
    fn account(&mut self, _now: Time, _account: Account, _terms: Terms) {}

    fn causes(&mut self, set: CauseSet, members: &[Account]) {
        let members = members.iter().map(|account| account.0).collect();
        self.ledger.lock().unwrap().sets.insert(set.0, members);
    }

    fn entered(&mut self, _now: Time, _call: &SystemCall) -> Verdict {
        Verdict::Proceed
    }

    fn dirtied(&mut self, _now: Time, page: &Page, causes: CauseSet, before: Option<CauseSet>) {
        let mut ledger = self.ledger.lock().unwrap();
        let known = ledger.dirty.insert((page.file, page.offset), causes);
        assert_eq!(known, before, "{page:?}");
        if page.file.is_metadata() {
            ledger.dirtied += 1;
            let members = ledger.sets[&causes.0].clone();
            ledger.changed_by.extend(members);
        }
    }

    fn submitted(&mut self, _now: Time, page: &Page, causes: CauseSet) {
        let mut ledger = self.ledger.lock().unwrap();
        ledger.leaves(page, causes);
        ledger.submitted += u64::from(page.file.is_metadata());
    }

    fn freed(&mut self, _now: Time, page: &Page, causes: CauseSet) {
        let mut ledger = self.ledger.lock().unwrap();
        ledger.leaves(page, causes);
        ledger.freed += u64::from(page.file.is_metadata());
    }

    fn act(&mut self, _now: Time) -> Option<Action> {
        None
    }
}

/// Runs programs that change metadata, then rests for ten minutes.
fn ledger_of(machine: &str) -> Arc<Mutex<Ledger>> {
    let machine = Description::named(machine).expect("built in");
    let ledger = Arc::<Mutex<Ledger>>::default();
    let noop = Spec::parse("noop").unwrap().build(&Environment::default()).expect("a scheduler");
    let recorder = Recorder { noop, ledger: Arc::clone(&ledger) };
    let mut bench = Bench::under(built_in("ide-2003"), &machine, Box::new(recorder), &Image::new());
    let creator = (0..200).flat_map(|number| {
        let directory = format!("/d{}", number / 50);
        let path = format!("{directory}/f{number}");
        let make = (number % 50 == 0).then(|| Call::Mkdir(directory.as_str().into()));
        let calls = [
            Call::Open(path.as_str().into(), create()),
            Call::Write(FIRST, 20_000),
            Call::Fsync(FIRST),
            Call::Close(FIRST),
        ];
        let removed = (number % 2 == 0).then(|| Call::Unlink(path.as_str().into()));
        make.into_iter().chain(calls).chain(removed)
    });
    let rest = || Next::Think(Span::from_secs(600));
    bench.start("creator", creator.map(Next::Call).chain([rest()]));
    let shrinks = [Call::Truncate(FIRST, 1 << 20), Call::Truncate(FIRST, 0)];
    let writer = write_file("/big", 24 << 20, 64 << 10).chain(shrinks);
    bench.start("writer", writer.map(Next::Call).chain([rest()]));
    bench.run();
    ledger
}

#[test]
fn metadata_is_reported_once_from_its_change_until_it_is_written() {
    for machine in ["pc-2003", "pc-2010", "pc-2012", "pc-2012-xfs"] {
        let ledger = ledger_of(machine);
        let ledger = ledger.lock().unwrap();
        assert!(
            ledger.dirtied > 100 && ledger.submitted > 10,
            "{machine}: {} {}",
            ledger.dirtied,
            ledger.submitted
        );
        assert!(ledger.changed_by.is_superset(&BTreeSet::from([1, 2])), "{machine}: {:?}", ledger.changed_by);
        let metadata = ledger.dirty.keys().filter(|(file, _)| file.is_metadata()).count();
        assert_eq!(metadata, 0, "{machine}: after ten minutes everything is written");
    }
}

#[test]
fn freed_metadata_is_reported_as_discarded() {
    // A block of pointers of a file that was shortened, before it was written.
    assert!(ledger_of("pc-2010").lock().unwrap().freed > 0);
}
