//! `dwell schedulers --kernel`: the elevators of the kernel module.

use std::fs;
use std::io::Write;

use comfy_table::Table;
use elevator::text::did_you_mean;
use kernel_host::{ELEVATORS, Elevator};
use schedulers::Spec;
use serde_json::json;

use super::{described, page};
use crate::error::Error;
use crate::report::{fitted, table_of_texts, text_width, wide_table_of_texts};
use evaluation::report::format::object;

/// The module's directory in sysfs, which exists while the module is loaded.
const MODULE: &str = "/sys/module/dwell_iosched";

/// An elevator with its policy. For `dwell-custom`, the policy is the loaded module's parameter.
struct Offered {
    elevator: Elevator,
    spec: Spec,
}

pub(super) fn run(name: Option<&str>, is_json: bool, is_wide: bool) -> Result<(), Error> {
    let is_loaded = fs::metadata(MODULE).is_ok();
    let custom = fs::read_to_string(format!("{MODULE}/parameters/custom")).ok();
    let chosen = match name {
        Some(name) => vec![*Elevator::named(name).ok_or_else(|| unknown(name))?],
        None => ELEVATORS.to_vec(),
    };
    let offered = chosen
        .into_iter()
        .map(|elevator| offered(elevator, custom.as_deref()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut out = std::io::stdout().lock();
    if is_json {
        let all: Vec<_> = offered.iter().map(in_json).collect();
        writeln!(out, "{}", object(&json!({"loaded": is_loaded, "elevators": all}))?)?;
        return Ok(());
    }
    if name.is_some() {
        for one in &offered {
            let text = format!("{}: {}\n\n{}", names(&one.elevator), one.spec, pages(&one.spec).join("\n\n"));
            writeln!(out, "{}", fitted(&text, Some(text_width())))?;
        }
    } else {
        writeln!(out, "{}", table(&offered, is_wide))?;
    }
    writeln!(
        out,
        "\n{}",
        if is_loaded { "The module is loaded." } else { "The module is not loaded: modprobe dwell-iosched" }
    )?;
    Ok(())
}

fn offered(elevator: Elevator, custom: Option<&str>) -> Result<Offered, Error> {
    let text = custom.filter(|_| elevator.is_custom()).map_or(elevator.spec, str::trim);
    let spec = Spec::parse(text).map_err(|error| Error::Failed(format!("{}: {error}", elevator.name)))?;
    Ok(Offered { elevator, spec })
}

fn unknown(name: &str) -> Error {
    let names = ELEVATORS.iter().flat_map(|elevator| [Some(elevator.name), elevator.long_name]).flatten();
    Error::Usage(format!("the module has no elevator '{name}'{}", did_you_mean(name, names)))
}

/// `dwell-as, dwell-anticipatory`.
fn names(elevator: &Elevator) -> String {
    let long = elevator.long_name.map(|name| format!(", {name}")).unwrap_or_default();
    format!("{}{long}", elevator.name)
}

/// The policy and what it wraps.
fn layers(spec: &Spec) -> impl Iterator<Item = &Spec> {
    std::iter::successors(Some(spec), |spec| spec.inside())
}

fn pages(spec: &Spec) -> Vec<String> {
    layers(spec).map(page).collect()
}

/// Each elevator with its files in `iosched/`.
fn table(offered: &[Offered], is_wide: bool) -> Table {
    let heads = ["elevator", "policy", "tunables in queue/iosched"];
    let mut table = if is_wide { wide_table_of_texts(&heads) } else { table_of_texts(&heads) };
    for one in offered {
        let tunables = layers(&one.spec).flat_map(|spec| {
            spec.listing()
                .tunables
                .iter()
                .map(|tunable| format!("{} = {}", tunable.name, spec.value(tunable)))
        });
        let long = one.elevator.long_name.map(|name| format!("\nalso: {name}")).unwrap_or_default();
        let tunables = tunables.collect::<Vec<_>>().join("\n");
        table.add_row([format!("{}{long}", one.elevator.name), one.spec.to_string(), tunables]);
    }
    table
}

fn in_json(one: &Offered) -> serde_json::Value {
    let policies: Vec<_> = layers(&one.spec).map(described).collect();
    json!({
        "name": one.elevator.name, "long_name": one.elevator.long_name, "policy": one.spec.to_string(),
        "counterpart": one.elevator.counterpart, "layers": policies,
    })
}
