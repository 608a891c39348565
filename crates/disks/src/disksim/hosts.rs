//! The hosts on which DiskSim's older drives were measured.
//!
//! The parameter files of the drives that were validated first say that a sector takes the drive no time on the bus:
//! there the host's SCSI bus was the slower side, and what it took stands in the experiment's own file (`.parv`),
//! which a `.diskspecs` file does not name. These are the figures of the experiments published with DiskSim 4.0, which
//! are part of the drive's validated model as much as its overheads are. They were not fitted here.

use std::fmt;

/// What a host's bus takes for a sector.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Host {
    pub(super) read_sector_ms: f64,
    pub(super) write_sector_ms: f64,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms a sector read, {} ms written", self.read_sector_ms, self.write_sector_ms)
    }
}

const fn host(read_sector_ms: f64, write_sector_ms: f64) -> Host {
    Host { read_sector_ms, write_sector_ms }
}

/// By the name in the `.diskspecs` file; "Read block transfer time" and "Write block transfer time" of the bus that
/// the drive is on.
const PUBLISHED: [(&str, Host); 5] = [
    ("HP_C2247A_validate", host(0.170_10, 0.186_86)),
    ("HP_C3323A_validate", host(0.145_50, 0.145_50)),
    ("HP_C2490A_validate", host(0.148_41, 0.148_41)),
    ("DEC_RZ26_validate", host(0.070_69, 0.070_69)),
    ("SEAGATE_ST41601N_validate", host(0.095_52, 0.095_52)),
];

/// The host that a drive was validated on.
pub(super) fn published(drive: &str) -> Option<Host> {
    PUBLISHED.iter().find(|(name, _)| name.eq_ignore_ascii_case(drive)).map(|&(_, host)| host)
}
