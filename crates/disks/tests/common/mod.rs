#![allow(dead_code, reason = "each test uses its part")]
#![allow(unreachable_pub, missing_docs, reason = "shared between tests")]
//! DiskSim's files, and a host that submits requests to a drive.

pub mod draw;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use dwell_disks::parameters::{Fidelity, RotatingParameters};
use dwell_disks::{Command, Completion, Drive, Tag};
use elevator::{Op, Request, RequestId, Sector, Sectors, Time};

/// The path of a file of DiskSim's: `parameters/…`, `measured/…`, or a file of results.
pub fn disksim(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disksim").join(name)
}

/// A drive of DiskSim's parameter files, by the name of its `.diskspecs` file without the extension.
pub fn parameters(drive: &str, fidelity: Fidelity) -> RotatingParameters {
    let mut open = |name: &str| {
        let file = File::open(disksim("parameters").join(name))?;
        Ok(Box::new(file) as Box<dyn Read>)
    };
    let mut parameters = dwell_disks::disksim::read(&format!("{drive}.diskspecs"), &mut open).unwrap();
    parameters.fidelity = fidelity;
    parameters
}

/// A request without a process.
pub fn request(op: Op, start: u64, sectors: u32) -> Request {
    Request {
        id: RequestId(0),
        serial: 0,
        op,
        start: Sector(start),
        sectors: Sectors(sectors),
        flags: elevator::Flags::default(),
        priority: elevator::Priority::default(),
        process: None,
        causes: None,
        arrived: Time::ZERO,
    }
}

pub fn gunzip(path: &Path) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(BufReader::new(File::open(path).unwrap()))
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// A request of a DiskSim ASCII trace, times in ms.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: Time,
    pub start: u64,
    pub sectors: u32,
    pub write: bool,
}

pub fn ascii_trace(text: &str) -> Vec<Arrival> {
    let arrival = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ms: f64 = words[0].parse().unwrap();
        Arrival {
            at: Time::from_nanos((ms * 1e6).round() as u64),
            start: words[2].parse().unwrap(),
            sectors: words[3].parse().unwrap(),
            write: words[4].parse::<u32>().unwrap() & 1 == 0,
        }
    };
    text.lines().map(arrival).collect()
}

/// The order in which DiskSim's driver sends requests. `next` removes one of the waiting requests, which are indexes into the trace.
pub trait Policy {
    fn next(&mut self, trace: &[Arrival], waiting: &mut Vec<usize>) -> Option<usize>;
}

pub struct Fcfs;

impl Policy for Fcfs {
    fn next(&mut self, _: &[Arrival], waiting: &mut Vec<usize>) -> Option<usize> {
        if waiting.is_empty() { None } else { Some(waiting.remove(0)) }
    }
}

/// Submits the requests at their arrival times, as far as the drive's depth allows, and returns their completions.
pub fn replay(drive: &mut dyn Drive, trace: &[Arrival], policy: &mut dyn Policy) -> Vec<Completion> {
    let mut done: Vec<Option<Completion>> = vec![None; trace.len()];
    let mut tags: Vec<Option<usize>> = vec![None; drive.depth() as usize];
    let (mut waiting, mut next) = (Vec::new(), 0);
    loop {
        let arrival = trace.get(next).map(|a| a.at);
        let event = drive.next_event();
        let now = match (arrival, event) {
            (None, None) => break,
            (Some(a), Some(e)) => a.min(e),
            (Some(t), None) | (None, Some(t)) => t,
        };
        while let Some(completion) = drive.poll(now) {
            let index = tags[completion.tag.0 as usize].take().unwrap();
            done[index] = Some(completion);
        }
        if arrival == Some(now) {
            waiting.push(next);
            next += 1;
        }
        while let Some(tag) = tags.iter().position(Option::is_none) {
            let Some(index) = policy.next(trace, &mut waiting) else { break };
            tags[tag] = Some(index);
            let a = trace[index];
            let op = if a.write { Op::Write } else { Op::Read };
            let (start, sectors) = (Sector(a.start), Sectors(a.sectors));
            drive.submit(now, Command { tag: Tag(tag as u32), op, start, sectors, fua: false });
        }
    }
    done.into_iter().map(Option::unwrap).collect()
}
