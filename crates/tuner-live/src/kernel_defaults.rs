//! Default settings of the kernel's schedulers. A switch of the scheduler resets all settings to them.

/// A setting with the values of a new instance: several if they depend on the kernel's configuration.
type Default = (&'static str, &'static [u64]);

const DEFAULTS: [(&str, &[Default]); 3] = [
    (
        "mq-deadline",
        &[
            ("fifo_batch", &[16]),
            ("front_merges", &[1]),
            ("prio_aging_expire", &[10_000]),
            ("read_expire", &[500]),
            ("write_expire", &[5000]),
            ("writes_starved", &[2]),
        ],
    ),
    ("kyber", &[("read_lat_nsec", &[2_000_000]), ("write_lat_nsec", &[10_000_000])]),
    (
        "bfq",
        &[
            ("back_seek_max", &[16_384]),
            ("back_seek_penalty", &[2]),
            ("fifo_expire_async", &[250]),
            ("fifo_expire_sync", &[125]),
            ("low_latency", &[1]),
            ("max_budget", &[0]),
            ("slice_idle", &[8]),
            ("slice_idle_us", &[8000]),
            ("strict_guarantees", &[0]),
            // An eighth of a second in ticks of 1000, 250 or 300, and 100 a second.
            ("timeout_sync", &[125, 124, 120]),
        ],
    ),
];

/// Whether a new instance of a scheduler has this value of a setting, if the table has the setting.
pub(crate) fn is_default(scheduler: &str, setting: &str, value: &str) -> Option<bool> {
    let (_, settings) = DEFAULTS.iter().find(|(name, _)| *name == scheduler)?;
    let (_, values) = settings.iter().find(|(name, _)| *name == setting)?;
    Some(values.iter().any(|default| default.to_string() == value))
}
