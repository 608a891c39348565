//! Observes a device for some seconds and prints the cost of the observation: `watch DEVICE SECONDS [completions] [RATE_MAX]`. A rate of 0
//! is no limit.

use std::error::Error;
use std::time::{Duration, Instant};

use capture::{Batch, Capture, Options, Source};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().ok_or("which device?")?;
    let seconds: u64 = arguments.next().ok_or("for how many seconds?")?.parse()?;
    let rest: Vec<String> = arguments.collect();
    let completions = rest.iter().any(|argument| argument == "completions");
    let mut options = Options { completions, ..Options::default() };
    if let Some(rate) = rest.iter().find_map(|argument| argument.parse().ok()) {
        options.rate_max = Some(rate).filter(|&rate| rate > 0);
    }
    let mut capture = Capture::open(device.as_ref(), &options)?;
    let ran_before = ran()?;
    let (mut batch, mut seen, begun) = (Batch::default(), 0, Instant::now());
    while begun.elapsed() < Duration::from_secs(seconds) {
        capture.take(&mut batch, Duration::from_millis(500))?;
        seen += batch.arrivals.len() + batch.completed.len();
        batch.clear();
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let counts = capture.counts()?;
    println!(
        "{counts:?}, {seen} reported, {:.0} a second; the reader ran {:.2} ms of {elapsed:.1} s",
        counts.arrived as f64 / elapsed,
        (ran()? - ran_before) as f64 / 1e6,
    );
    Ok(())
}

/// Processor time of this process in nanoseconds.
fn ran() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    Ok(text.split(' ').next().ok_or("an empty schedstat")?.parse()?)
}
