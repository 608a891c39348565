//! The evaluation of the IOAnalyzer paper: fixed schedulers compared with the tuner, on the paper's drive in virtual time.
//!
//! The paper's ST31500341AS is one of the drives for which Linux has disabled native command queueing since 2009, because of the
//! firmware that most of them had (`libata`: "Seagate NCQ + FLUSH CACHE firmware bug", SD15 to SD19). The firmware of the paper's
//! drive is not known. Depth 1 is judged, because there the model comes close to the paper's order of schedulers, and at depth 31 it
//! does not. Depth 31 is reported for the sequence.

mod arrays;
mod cost;
mod evaluation;
mod optimal_switching;
mod phase;
mod recording;
mod sequence;
mod training;
mod variants;

use super::Experiment;

const DRIVE: &str = "st31500341as";
const DEPTH: u32 = 1;

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: "alone", run: evaluation::alone },
    Experiment { name: "TPC-E", run: evaluation::tpc_e },
    Experiment { name: "TPC-H", run: evaluation::tpc_h },
    Experiment { name: "TPC-H of other data", run: evaluation::tpc_h_of_other_data },
    Experiment { name: "TPC-H on the machine", run: evaluation::tpc_h_on_the_machine },
    Experiment { name: "2 LKR + 2 HD", run: evaluation::kernel_read },
    Experiment { name: "one after the other", run: sequence::in_a_row },
    Experiment { name: "with the drive's own queue", run: sequence::in_a_row_queued },
    Experiment { name: "all on the machine", run: sequence::in_a_row_on_the_machine },
    Experiment { name: "a stripe", run: arrays::stripe },
    Experiment { name: "four guests", run: arrays::virtual_machines },
    Experiment { name: "cost", run: cost::cost },
    Experiment { name: "clusters of a recording", run: recording::hit_ratio },
];
