//! `dwell ctl`.

use std::io::Write;
use std::path::Path;

use comfy_table::{Table, presets};
use server::control::Client;
use server::control::protocol::State;

use crate::arguments::{CtlArguments, CtlCommand};
use crate::error::Error;
use crate::format::{bytes, time};
use crate::serve::span;

pub(crate) fn run(arguments: &CtlArguments) -> Result<(), Error> {
    let socket: &Path = &arguments.socket;
    let failed = |error: std::io::Error| Error::file(socket.display(), &error);
    let mut client = Client::connect(socket).map_err(failed)?;
    let mut out = std::io::stdout().lock();
    match &arguments.command {
        CtlCommand::Show { json } => {
            let state = client.show().map_err(failed)?;
            if *json {
                let text = serde_json::to_string(&state).map_err(|e| Error::Failed(e.to_string()))?;
                writeln!(out, "{text}")?;
            } else {
                write!(out, "{}", in_words(&state))?;
            }
        }
        CtlCommand::Metrics => write!(out, "{}", client.metrics().map_err(failed)?)?,
        CtlCommand::Switch { scheduler, drain } => {
            let cost = client.switch(scheduler, *drain).map_err(|e| Error::Usage(e.to_string()))?;
            writeln!(
                out,
                "{scheduler}: {} requests moved, {} in the device meanwhile",
                cost.moved, cost.in_flight
            )?;
        }
        CtlCommand::Tune { tunable, value } => {
            client.tune(tunable, value).map_err(|e| Error::Usage(e.to_string()))?;
        }
        CtlCommand::Log { file, during } => {
            let file = std::path::absolute(file).map_err(|e| Error::file(file.display(), &e))?;
            client.log(file, span("--for", during)?).map_err(failed)?;
        }
        CtlCommand::Stop => client.stop().map_err(failed)?,
    }
    Ok(())
}

fn in_words(state: &State) -> String {
    let mut text = format!(
        "{}: {}, depth {}\nscheduler: {}\n{} queued, {} in the device, {} unfinished; {} dispatched, {} deliberate waits, head at sector {}\n",
        state.backend,
        bytes(state.capacity_sectors * 512),
        state.depth,
        state.scheduler,
        state.queued,
        state.in_flight,
        state.unfinished,
        state.dispatched,
        state.holds,
        state.head_sector,
    );
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "operation",
        "answered",
        "mean",
        "p50",
        "p99",
        "longest",
    ]);
    for (name, operation) in &state.operations {
        let latency = &operation.latency;
        table.add_row([
            name.clone(),
            latency.count.to_string(),
            time(latency.mean_ns),
            time(latency.p50_ns),
            time(latency.p99_ns),
            time(latency.max_ns),
        ]);
    }
    text += &format!("{table}\n");
    for tunable in &state.tunables {
        text += &format!("  {} = {}\n", tunable.name, tunable.value);
    }
    text
}
