//! BFQ: its contract and what it does for processes, on a tiny virtual disk.

mod closed_loop;

use closed_loop::{Load, Served, level, model, reader, run};
use elevator::queue::{Identity, Options};
use elevator::{Op, Priority, PriorityClass, Scheduler, Span, Value};
use schedulers::bfq::Bfq;
use schedulers::kyber::Kyber;

fn bfq() -> Box<dyn Scheduler> {
    Box::new(Bfq::new(true, 256))
}

fn total(served: &[Served]) -> u64 {
    served.iter().map(|s| s.sectors).sum()
}

#[test]
fn the_model_of_operations_finds_nothing() {
    model(200_000, bfq);
}
