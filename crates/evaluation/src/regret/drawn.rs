//! Drives and fio jobs drawn from a seed, for which no policy was tuned.

use std::fmt::Write as _;

use elevator::Random;

/// A drive with a random mechanism, buffer and internal queue: a specification for `--drive`, and the depth.
#[must_use]
pub fn drive(seed: u64) -> (String, u32) {
    let mut random = Random::new(seed);
    let mut one = |of: &[&'static str]| one_of(&mut random, of);
    let order = one(&[
        "fcfs",
        "look",
        "c_look",
        "sstf",
        "{positioning_time={ageing=0.0}}",
        "{positioning_time={ageing=0.02}}",
    ]);
    let rpm = one(&["5400", "5900", "7200", "10000"]);
    let cache = one(&["on", "off"]);
    let ahead = one(&["segment", "segment", "none"]);
    let depth = one(&["1", "2", "4", "8", "16", "31"]);
    let drive = format!(
        "wd5000aaks{{write_cache={cache},queue.order={order},mechanics.revolutions_per_minute={rpm},buffer.read_ahead={ahead}}}"
    );
    (drive, depth.parse().unwrap_or(1))
}

/// The settings of a drive with a random mechanism, read-ahead and internal queue, each with a comma before it.
#[must_use]
pub fn queue(seed: u64) -> String {
    let mut random = Random::new(seed);
    let ageing = format!("{{positioning_time={{ageing=0.{:02}}}}}", random.below(40));
    let mut one = |of: &[&'static str]| one_of(&mut random, of);
    let order = one(&["", "", "look", "c_look", "sstf"]);
    let order = if order.is_empty() { &ageing } else { order };
    let rpm = one(&["5400", "5900", "7200", "10000"]);
    let ahead = one(&["segment", "none"]);
    format!(",queue.order={order},mechanics.revolutions_per_minute={rpm},buffer.read_ahead={ahead}")
}

/// A fio job file with one or two kinds of programs, each with a file of its own, that end after a number of requests.
#[must_use]
pub fn job(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut text = String::from("[global]\ndirect=1\nioengine=libaio\n");
    for name in ["a", "b"].iter().take(1 + random.below(2) as usize) {
        let mut one = |of: &[&'static str]| one_of(&mut random, of);
        let pattern = one(&["read", "write", "randread", "randread", "randwrite", "randrw", "rw"]);
        let size = one(&["256m", "2g", "10g", "25g"]);
        let (copies, depth) = (one(&["1", "1", "2", "3", "4"]), one(&["1", "1", "2", "4", "16", "32"]));
        let think = one(&["0", "0", "0", "200us", "5ms"]);
        // A sequential program moves as much data as a random one takes time.
        let (block, count) = match pattern {
            "read" | "write" | "rw" => (one(&["16k", "64k", "256k"]), 1000),
            _ => (one(&["4k", "16k", "64k"]), 300),
        };
        let _ = writeln!(
            text,
            "[{name}]\nrw={pattern}\nbs={block}\nsize={size}\nnumber_ios={count}\nnumjobs={copies}\niodepth={depth}\nthinktime={think}"
        );
    }
    text
}

fn one_of(random: &mut Random, of: &[&'static str]) -> &'static str {
    of[random.below(of.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::regret::workload::Workload;

    #[test]
    fn what_is_drawn_depends_on_the_seed_alone() {
        assert_eq!((drive(7), job(7)), (drive(7), job(7)));
        assert!(drive(1) != drive(2) && job(1) != job(2));
    }

    #[test]
    fn what_is_drawn_is_valid() {
        let wd = Device::open("wd5000aaks").unwrap();
        for seed in 0..50 {
            let (drive, depth) = drive(seed);
            assert!(Device::open(&drive).is_ok_and(|device| depth <= device.depth()), "{drive}");
            let queue = format!("wd5000aaks{{write_cache=on{}}}", queue(seed));
            assert!(Device::open(&queue).is_ok(), "{queue}");
            let text = job(seed);
            assert!(Workload::job("drawn", &text).is_ok_and(|job| job.fits(&wd)), "{text}");
        }
    }
}
