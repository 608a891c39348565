//! Looks at a device for a while and says what that cost: `watch DEVICE SECONDS [completions] [all]`.

use std::error::Error;
use std::time::{Duration, Instant};

use capture::{Batch, Capture, Options, Source};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().ok_or("which device?")?;
    let seconds: u64 = arguments.next().ok_or("for how many seconds?")?.parse()?;
    let rest: Vec<String> = arguments.collect();
    let has = |word: &str| rest.iter().any(|argument| argument == word);
    let mut options = Options { completions: has("completions"), ..Options::default() };
    options.rate_max = options.rate_max.filter(|_| !has("all"));
    let mut capture = Capture::open(device.as_ref(), &options)?;
    let (mut batch, mut seen, begun) = (Batch::default(), 0, Instant::now());
    while begun.elapsed() < Duration::from_secs(seconds) {
        capture.take(&mut batch, Duration::from_millis(500))?;
        seen += batch.arrivals.len() + batch.completed.len();
        batch.clear();
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let statm = std::fs::read_to_string("/proc/self/stat")?;
    let ticks: Vec<u64> =
        statm.rsplit(')').next().unwrap_or("").split_whitespace().filter_map(|f| f.parse().ok()).collect();
    println!(
        "{:?}, {seen} reported, {:.0} a second, reader {} ms of processor in {elapsed:.1} s",
        capture.counts()?,
        capture.counts()?.arrived as f64 / elapsed,
        (ticks.get(10).unwrap_or(&0) + ticks.get(11).unwrap_or(&0)) * 10,
    );
    Ok(())
}
