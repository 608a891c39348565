//! Runs a measured trace through a drive: `residuals drive.diskspecs trace [as-disksim]` prints each request's measured
//! and modelled time in ms, and on standard error the demerit.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use disks::parameters::Fidelity;
use disks::{Rotating, disksim, validate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, specs, trace, rest @ ..] = &arguments[..] else {
        return Err("usage: residuals drive.diskspecs trace [as-disksim]".into());
    };
    let folder = Path::new(specs).parent().unwrap_or(Path::new("."));
    let name = Path::new(specs).file_name().ok_or("no file")?.to_string_lossy();
    let mut open = |name: &str| Ok(Box::new(File::open(folder.join(name))?) as Box<dyn Read>);
    let mut parameters = disksim::read(&name, &mut open)?;
    if !rest.is_empty() {
        parameters.fidelity = Fidelity::DiskSim;
    }
    let trace = validate::read_trace(BufReader::new(File::open(trace)?))?;
    let result = validate::validate(&mut Rotating::new(parameters)?, &trace)?;
    for (request, modelled) in trace.iter().zip(&result.modelled) {
        println!("{:.6} {:.6}", request.service.as_millis_f64(), modelled.as_millis_f64());
    }
    let (mean, model) = (result.measured_mean_ms, result.modelled_mean_ms);
    eprintln!("measured {mean:.3} modelled {model:.3} demerit {:.4} ms", result.demerit_ms);
    Ok(())
}
