//! Exits of processes, and the end of virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use elevator::queue::{Event, Observer, Options};
use elevator::{Sector, Sectors, Span, Time};
use machine::{Await, Failure, Io, Machine, Next, Program, Setup, Stop, Submitter};
use schedulers::{Environment, Spec};

/// Events of the queue: submissions and exits, by task.
type Events = Rc<RefCell<Vec<(&'static str, u32)>>>;

struct Listener(Events);

impl Observer for Listener {
    fn event(&mut self, _now: Time, event: &Event<'_>) {
        let events = match event {
            Event::Submitted { process: Some(process), .. } => ("submits", process.task),
            Event::Exited(process) => ("exits", process.task),
            _ => return,
        };
        self.0.borrow_mut().push(events);
    }
}

/// Thinks, then reads, several times.
struct Reader {
    rounds: u64,
    at: u64,
}

impl Program for Reader {
    fn next(&mut self, _now: Time) -> Next {
        let (round, step) = (self.at / 3, self.at % 3);
        if round == self.rounds {
            return Next::Exit;
        }
        self.at += 1;
        match step {
            0 => Next::Think(Span::from_millis(20)),
            1 => Next::Submit(Io::read(Sector(round * 8), Sectors(8))),
            _ => Next::Await(Await::All),
        }
    }
}

fn machine(observer: Option<Box<dyn Observer>>) -> Machine {
    let (drive, _) = disks::open("wd5000aaks", &mut |_| unreachable!("built in")).expect("a drive");
    let scheduler = Spec::parse("noop").expect("a scheduler").build(&Environment::default());
    let scheduler = scheduler.expect("it can be built");
    Machine::new(Setup { options: Options::default(), scheduler, drive, observer })
}

fn events(programs: &[(u32, u64)]) -> Vec<(&'static str, u32)> {
    let events = Events::default();
    let mut machine = machine(Some(Box::new(Listener(Rc::clone(&events)))));
    for &(id, rounds) in programs {
        machine.start(Submitter::process(id, "reader"), Box::new(Reader { rounds, at: 0 }));
    }
    machine.run(Stop::default()).expect("it runs");
    events.take()
}

#[test]
fn a_process_exits_with_its_last_program() {
    // A recorded process has one program for requests that it waited for and one for the others.
    let events = events(&[(7, 1), (7, 3), (8, 2)]);
    let exits: Vec<_> = events.iter().filter(|(what, _)| *what == "exits").collect();
    assert_eq!(exits, [&("exits", 8), &("exits", 7)]);
    assert_eq!(events.last(), Some(&("exits", 7)), "{events:?}");
}

/// Reads at the end of virtual time.
struct Late(u32);

impl Program for Late {
    fn next(&mut self, _now: Time) -> Next {
        self.0 += 1;
        match self.0 {
            1 => Next::Until(Time::from_nanos(u64::MAX - 1)),
            2 => Next::Submit(Io::read(Sector(0), Sectors(8))),
            3 => Next::Await(Await::All),
            _ => Next::Exit,
        }
    }
}

#[test]
fn events_beyond_the_clock_end_the_run() {
    let run = |stop| {
        let mut machine = machine(None);
        machine.start(Submitter::process(1, "late"), Box::new(Late(0)));
        machine.run(stop).map(|()| machine.is_cut())
    };
    assert_eq!(run(Stop::default()), Err(Failure::EndOfTime));
    assert_eq!(run(Stop { at: Time::from_nanos(1_000_000_000), ..Stop::default() }), Ok(true));
}
