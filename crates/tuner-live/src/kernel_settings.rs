//! Settings of the kernel's schedulers with their ranges, to reject a wrong arm without setting it.

use crate::error::Error;
use crate::queue::{NO_SCHEDULER, QueueSettings};

/// The greatest `int` and `unsigned int` of C.
const INT: u64 = i32::MAX as u64;
const UINT: u64 = u32::MAX as u64;

/// A setting with the least and the greatest value.
type Range = (&'static str, u64, u64);

/// Settings of Linux 5.0 to 6.18. The kernel takes numbers beyond a range as the nearest one in it.
const OF_SCHEDULERS: [(&str, &[Range]); 4] = [
    (NO_SCHEDULER, &[]),
    (
        "mq-deadline",
        &[
            ("async_depth", 1, INT),
            ("fifo_batch", 0, INT),
            ("front_merges", 0, 1),
            ("prio_aging_expire", 0, INT),
            ("read_expire", 0, INT),
            ("write_expire", 0, INT),
            ("writes_starved", 0, INT),
        ],
    ),
    ("kyber", &[("read_lat_nsec", 0, u64::MAX), ("write_lat_nsec", 0, u64::MAX)]),
    (
        "bfq",
        &[
            ("back_seek_max", 0, INT),
            ("back_seek_penalty", 1, INT),
            ("fifo_expire_async", 1, INT),
            ("fifo_expire_sync", 1, INT),
            ("low_latency", 0, 1),
            ("max_budget", 0, INT),
            ("slice_idle", 0, INT),
            ("slice_idle_us", 0, UINT),
            ("strict_guarantees", 0, 1),
            ("timeout_sync", 1, INT),
        ],
    ),
];

/// The names of all settings of the kernel's schedulers.
pub fn scheduler_settings() -> impl Iterator<Item = &'static str> {
    OF_SCHEDULERS.iter().flat_map(|(_, settings)| settings.iter().map(|(name, ..)| *name))
}

/// Of the queue. `wbt_lat_usec=-1` is the kernel's default.
const OF_QUEUES: [Range; 3] =
    [("nr_requests", 4, UINT), ("read_ahead_kb", 0, UINT), ("wbt_lat_usec", 0, u64::MAX / 1000)];

/// Checks an arm's setting without changing the queue. A scheduler that is not in the table, such as one of a module, is checked when it is set.
pub(crate) fn check(queue: &QueueSettings, scheduler: &str, setting: &str, value: &str) -> Result<(), Error> {
    let device = queue.name();
    if let Some((_, least, greatest)) = OF_QUEUES.iter().find(|(name, ..)| *name == setting) {
        queue.get(setting)?;
        return match (setting, value) {
            ("wbt_lat_usec", "-1") => Ok(()),
            _ => in_range(device, (scheduler, setting), value, (*least, *greatest)),
        };
    }
    let is_active = || queue.get("scheduler").is_ok_and(|active| active == scheduler);
    let Some((_, known)) = OF_SCHEDULERS.iter().find(|(name, _)| *name == scheduler) else { return Ok(()) };
    match known.iter().find(|(name, ..)| *name == setting) {
        Some((_, least, greatest)) => in_range(device, (scheduler, setting), value, (*least, *greatest)),
        // A kernel that is newer than the table.
        None if is_active() && queue.get(&format!("iosched/{setting}")).is_ok() => Ok(()),
        None => Err(Error::no_setting(device, scheduler, setting, known.iter().map(|(name, ..)| *name))),
    }
}

fn in_range(
    device: &str,
    (scheduler, setting): (&str, &str),
    value: &str,
    (least, greatest): (u64, u64),
) -> Result<(), Error> {
    if value.parse().is_ok_and(|number: u64| (least..=greatest).contains(&number)) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "{device}: {scheduler}{{{setting}={value}}}: {setting} must be a number from {least} to {greatest}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn wrong_settings_are_rejected_without_setting_them() {
        let tree = Tree::new("kernel-settings");
        let queue = tree.queue("sda");
        let of = |scheduler: &str, setting: &str, value: &str| {
            check(&queue, scheduler, setting, value).map_err(|error| error.to_string())
        };
        for (scheduler, setting, value) in [
            ("bfq", "slice_idle", "0"),
            ("bfq", "low_latency", "1"),
            ("kyber", "read_lat_nsec", "18446744073709551615"),
            ("mq-deadline", "front_merges", "0"),
            ("none", "read_ahead_kb", "64"),
            ("dwell-stream", "stream_time_slice", "31 ms"),
        ] {
            assert_eq!(of(scheduler, setting, value), Ok(()), "{scheduler} {setting}");
        }
        let unknown = of("bfq", "low_latncy", "1").unwrap_err();
        assert!(
            unknown.starts_with("sda: bfq has no setting 'low_latncy'; it has back_seek_max, ")
                && unknown.contains("did you mean 'low_latency'?"),
            "{unknown}"
        );
        assert_eq!(
            of("none", "nosuch", "1").unwrap_err(),
            "sda: none has no setting 'nosuch'; it has no settings"
        );
        for value in ["2", "-1", "on", "1.0", "99999999999999999999"] {
            assert_eq!(
                of("bfq", "low_latency", value).unwrap_err(),
                format!("sda: bfq{{low_latency={value}}}: low_latency must be a number from 0 to 1")
            );
        }
        assert!(of("none", "nr_requests", "1").unwrap_err().contains("from 4 to"));
        assert!(of("none", "wbt_lat_usec", "-1").is_err(), "this queue lacks it");
        std::fs::create_dir_all(queue.file("iosched")).unwrap();
        std::fs::write(queue.file("iosched/new"), "1\n").unwrap();
        assert_eq!(of("mq-deadline", "new", "5"), Ok(()), "a newer kernel's scheduler in use");
        assert!(of("bfq", "new", "5").is_err());
    }
}
