//! Clusters: barriers across machines.

use std::cell::RefCell;
use std::rc::Rc;

use elevator::queue::Options;
use elevator::{Sector, Sectors, Span, Time};
use machine::{Await, Barrier, Cluster, Failure, Io, Machine, Next, Program, Setup, Stop, Submitter};
use schedulers::{Environment, Spec};

const ALL: Barrier = Barrier { name: 7, members: 2 };

/// Start times of a process's rounds.
type Rounds = Rc<RefCell<Vec<Time>>>;

/// Reads a block, thinks, and waits at a barrier, several times.
struct Reader {
    rounds: u64,
    think: Span,
    at: u64,
    began: Rounds,
}

impl Program for Reader {
    fn next(&mut self, now: Time) -> Next {
        let (round, step) = (self.at / 4, self.at % 4);
        if round == self.rounds {
            return Next::Exit;
        }
        self.at += 1;
        match step {
            0 => Next::ClusterBarrier(ALL),
            1 => {
                self.began.borrow_mut().push(now);
                Next::Submit(Io::read(Sector(round * 128), Sectors(128)))
            }
            2 => Next::Await(Await::All),
            _ => Next::Think(self.think),
        }
    }
}

fn machine(rounds: u64, think_ms: u64) -> (Machine, Rounds) {
    let spec = Spec::parse("deadline").expect("a scheduler");
    let (drive, _) = disks::open("barracuda-7200.10", &mut |_| Err(std::io::ErrorKind::NotFound.into()))
        .expect("a built-in drive");
    let mut machine = Machine::new(Setup {
        options: Options::default(),
        scheduler: spec.build(&Environment::default()).expect("it can be built"),
        drive,
        observer: None,
    });
    let began = Rounds::default();
    let reader = Reader { rounds, think: Span::from_millis(think_ms), at: 0, began: Rc::clone(&began) };
    machine.start(Submitter::process(1, "reader"), Box::new(reader));
    (machine, began)
}

#[test]
fn a_barrier_opens_with_the_last_arrival() {
    let ((quick, of_quick), (slow, of_slow)) = (machine(5, 1), machine(5, 20));
    let mut cluster = Cluster::new(vec![quick, slow]);
    cluster.run(Stop::default()).expect("they all end");
    assert_eq!(*of_quick.borrow(), *of_slow.borrow());
    let rounds = of_quick.borrow();
    assert_eq!(rounds.len(), 5);
    assert!(rounds.windows(2).all(|two| two[1].since(two[0]) > Span::from_millis(20)), "{rounds:?}");
}

#[test]
fn a_barrier_with_an_ended_member_is_a_deadlock() {
    let mut cluster = Cluster::new(vec![machine(5, 1).0, machine(3, 1).0]);
    let failure = cluster.run(Stop::default());
    assert!(matches!(&failure, Err(Failure::Deadlock { waiting }) if waiting.len() == 1), "{failure:?}");
}

#[test]
fn a_stopped_cluster_is_cut() {
    let mut cluster = Cluster::new(vec![machine(50, 1).0, machine(50, 1).0]);
    cluster.run(Stop { at: Time::from_nanos(20_000_000), ..Stop::default() }).expect("no failure");
    assert!(cluster.machines().iter().all(|machine| machine.is_cut()));
}
