//! The model against physical drives. The table also has the demerits of DiskSim 4.0 itself.

mod common;

use std::io::Cursor;

use common::{disksim, gunzip, parameters};
use dwell_disks::parameters::Fidelity;
use dwell_disks::{Rotating, validate};

fn demerit(drive: &str, trace: &str, fidelity: Fidelity) -> f64 {
    let trace = gunzip(&disksim(&format!("measured/{trace}.trace.gz")));
    let trace = validate::read_trace(Cursor::new(trace)).unwrap();
    let mut drive = Rotating::new(parameters(drive, fidelity)).unwrap();
    validate::validate(&mut drive, &trace).unwrap().demerit_ms
}

/// Parameter file, trace, DiskSim's demerit in ms, and the upper limit for the model's.
const DRIVES: [(&str, &str, f64, f64); 8] = [
    ("atlas_III", "atlas_III", 0.378, 0.296),
    ("barracuda", "barracuda", 0.348, 0.302),
    ("cheetah4LP", "cheetah4LP", 0.3182, 0.246),
    ("cheetah9LP", "cheetah9LP", 0.107, 0.088),
    ("hp_c2247a", "hp_c2247a", 0.0899, 0.0884),
    ("hp_c3323a_validate", "hp_c3323a", 0.3057, 0.250),
    ("dec_rz26", "dec_rz26", 0.34058, 0.3405),
    ("st41601n", "st41601n", f64::NAN, 0.0767),
];

#[test]
fn demerits_do_not_grow() {
    for (specs, trace, disksim, most) in DRIVES {
        let ours = demerit(specs, trace, Fidelity::Drive);
        println!("{trace}: {ours:.4} ms, DiskSim {disksim} ms");
        assert!(ours <= most, "{trace}: {ours} ms is more than {most} ms");
    }
}

/// With DiskSim's rules, the model has DiskSim's demerits for the four drives whose files contain all settings of the experiments.
#[test]
fn disksim_fidelity_reproduces_disksim() {
    for (specs, trace, disksim, _) in &DRIVES[..4] {
        let ours = demerit(specs, trace, Fidelity::DiskSim);
        assert!((ours - disksim).abs() < 0.0006, "{trace}: {ours} ms, DiskSim {disksim} ms");
    }
}
