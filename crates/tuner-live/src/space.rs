//! Settings of the kernel's schedulers and queues for a search, each with a ladder of values around the kernel's default.

use tuner::{Ladder, Space};

use crate::queue::QueueSettings;

/// Settings that decide how a scheduler serves a disk, with values around the defaults of Linux 6.x. A step is a factor of 2 to 4, the least
/// that a window can distinguish from chance.
const LADDERS: [(&str, &str, &[&str]); 9] = [
    ("mq-deadline", "read_expire", &["60", "125", "250", "500", "1000", "2000"]),
    ("mq-deadline", "writes_starved", &["1", "2", "4", "8", "16"]),
    ("mq-deadline", "fifo_batch", &["1", "4", "16", "64"]),
    ("bfq", "slice_idle_us", &["0", "1000", "2000", "4000", "8000", "16000"]),
    ("bfq", "low_latency", &["0", "1"]),
    ("bfq", "timeout_sync", &["60", "125", "250", "500"]),
    ("kyber", "read_lat_nsec", &["500000", "1000000", "2000000", "4000000", "10000000"]),
    ("dwell-stream", "stream_time_slice", &["31 ms", "62 ms", "124 ms", "248 ms", "496 ms"]),
    ("dwell-as", "antic_expire", &["3 ms", "6 ms", "12 ms", "24 ms"]),
];

/// Settings of a queue, and the factors of their present values to try.
const OF_THE_QUEUE: [(&str, &[f64]); 3] = [
    ("nr_requests", &[0.25, 0.5, 1.0, 2.0, 4.0]),
    ("read_ahead_kb", &[0.25, 1.0, 4.0, 16.0]),
    ("wbt_lat_usec", &[0.0, 0.25, 1.0, 4.0]),
];

/// The settings of these schedulers on this queue. Read-ahead is decided by the device that is read from: of a queue `below` that device,
/// `read_ahead_kb` has no effect.
pub fn of_kernel(queue: &QueueSettings, below: bool, schedulers: &[String]) -> Vec<Space> {
    let shared = OF_THE_QUEUE.iter().filter(|(name, _)| !below || *name != "read_ahead_kb");
    let shared: Vec<Ladder> = shared.filter_map(|(name, by)| around(queue, name, by)).collect();
    let space = |scheduler: &String| {
        let own = LADDERS.iter().filter(|(of, ..)| of == scheduler).map(|&(_, setting, values)| Ladder {
            setting: setting.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        });
        Space { scheduler: scheduler.clone(), ladders: own.chain(shared.iter().cloned()).collect() }
    };
    schedulers.iter().map(space).filter(|space| !space.ladders.is_empty()).collect()
}

/// Values around the present one; `None` if the queue lacks the setting or has it off.
fn around(queue: &QueueSettings, setting: &str, factors: &[f64]) -> Option<Ladder> {
    let now: f64 = queue.get(setting).ok()?.parse().ok().filter(|&now| now > 0.0)?;
    let mut values: Vec<String> = factors.iter().map(|by| format!("{:.0}", now * by)).collect();
    values.dedup();
    Some(Ladder { setting: setting.to_owned(), values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn settings_that_a_queue_lacks_are_not_searched() {
        let tree = Tree::new("space");
        let names = ["none", "mq-deadline", "bfq"].map(str::to_owned);
        let spaces = of_kernel(&tree.queue("sda"), false, &names);
        let settings = |n: usize| spaces[n].ladders.iter().map(|l| l.setting.as_str()).collect::<Vec<_>>();
        assert_eq!(settings(0), ["nr_requests", "read_ahead_kb"], "no wbt_lat_usec there");
        assert_eq!(
            settings(1),
            ["read_expire", "writes_starved", "fifo_batch", "nr_requests", "read_ahead_kb"]
        );
        let ahead = spaces[2].ladders.last().unwrap();
        assert_eq!(ahead.values, ["32", "128", "512", "2048"]);
        let below = of_kernel(&tree.queue("sda"), true, &names);
        assert!(
            below.iter().flat_map(|space| &space.ladders).all(|ladder| ladder.setting != "read_ahead_kb")
        );
    }
}
