//! Prints a trace of any format, compressed or not: `cargo run -p dwell-traces --example read_trace FILE`.

use std::error::Error;
use std::fs::File;

use dwell_traces::{DeviceChoice, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: read_trace FILE")?;
    let options = Options { device: DeviceChoice::All, ..Options::default() };
    let mut recording = dwell_traces::open(&path, Box::new(File::open(&path)?), &options)?;
    for record in recording.by_ref() {
        let record = record?;
        println!("{} ns: {} {}+{} bytes", record.at.as_nanos(), record.op, record.offset, record.bytes);
    }
    eprintln!("{}", recording.interpretation());
    eprint!("{}", recording.skips());
    Ok(())
}
