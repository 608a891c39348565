//! The model against physical drives. The figures beside the limits are DiskSim 4.0's own.

mod common;

use std::fs::File;
use std::io::BufReader;

use common::{parameters, shared};
use dwell_disks::parameters::Fidelity;
use dwell_disks::{Rotating, validate};

fn demerit(specs: &str, trace: &str, fidelity: Fidelity) -> Option<f64> {
    let (specs, trace) = (shared(specs)?, shared(trace)?);
    let trace = validate::read_trace(BufReader::new(File::open(trace).unwrap())).unwrap();
    let mut drive = Rotating::new(parameters(&specs, fidelity)).unwrap();
    let result = validate::validate(&mut drive, &trace).unwrap();
    Some(result.demerit_ms)
}

/// Specifications, trace, DiskSim's demerit, and the most that ours may be.
const DRIVES: [(&str, &str, f64, f64); 8] = [
    ("atlas_III.diskspecs", "atlas_III.trace", 0.378, 0.296),
    ("barracuda.diskspecs", "barracuda.trace", 0.348, 0.302),
    ("cheetah4LP.diskspecs", "cheetah4LP.trace", 0.3182, 0.246),
    ("cheetah9LP.diskspecs", "cheetah9LP.trace", 0.107, 0.088),
    ("hp_c2247a.diskspecs", "hp_c2247a.trace", 0.0899, 0.0884),
    ("hp_c3323a_validate.diskspecs", "hp_c3323a.trace", 0.3057, 0.250),
    ("dec_rz26.diskspecs", "dec_rz26.trace", 0.34058, 0.3405),
    ("st41601n.diskspecs", "st41601n.trace", f64::NAN, 0.0767),
];

#[test]
fn demerits_do_not_grow() {
    for (specs, trace, disksim, most) in DRIVES {
        let Some(ours) = demerit(specs, trace, Fidelity::Drive) else { continue };
        println!("{trace}: {ours:.4} ms, DiskSim {disksim} ms");
        assert!(ours <= most, "{trace}: {ours} ms is more than {most} ms");
    }
}

/// As DiskSim, the four drives whose files say all that its experiments used give DiskSim's demerits.
#[test]
fn as_disksim_is_as_disksim() {
    for (specs, trace, disksim, _) in &DRIVES[..4] {
        let Some(ours) = demerit(specs, trace, Fidelity::DiskSim) else { continue };
        assert!((ours - disksim).abs() < 0.0006, "{trace}: {ours} ms, DiskSim {disksim} ms");
    }
}
