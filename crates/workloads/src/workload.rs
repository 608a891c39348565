//! The trait of workloads, and their settings.

use elevator::text::did_you_mean;
use elevator::{SECTOR_BYTES, Sector, Tunable, TuneError, Value};
use machine::{Machine, Program, Submitter};

/// Processes in the order of their start.
pub type Processes = Vec<(Submitter, Box<dyn Program>)>;

/// Processes that can be started repeatedly.
pub trait Workload: Send + Sync {
    /// A one-line description with the settings.
    fn describe(&self) -> String;

    /// The sector after the last one accessed; smaller drives are rejected.
    fn end(&self) -> Sector;

    /// New processes, in the order of their start.
    fn processes(&self) -> Processes;

    /// Why processes ended early, if they did.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Starts the processes on a machine.
    fn start(&self, machine: &mut Machine) {
        for (who, program) in self.processes() {
            machine.start(who, program);
        }
    }
}

/// Settings as name and value: `think=200us, processes=8`.
pub type Settings = Vec<(String, String)>;

/// A setting is unknown or out of range.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("workload {workload}: {problem}")]
pub struct SettingsError {
    pub workload: String,
    /// What is wrong, and what is accepted.
    pub problem: String,
}

/// Applies settings to a table of tunables.
pub(crate) fn apply(
    workload: &str,
    table: &'static [Tunable],
    settings: &Settings,
    set: &mut dyn FnMut(&str, Value) -> Result<(), TuneError>,
) -> Result<(), SettingsError> {
    let error = |problem| SettingsError { workload: workload.to_owned(), problem };
    for (index, (name, text)) in settings.iter().enumerate() {
        if settings[..index].iter().any(|(before, _)| before == name) {
            return Err(error(format!("setting '{name}' is given twice")));
        }
        let Some(tunable) = table.iter().find(|tunable| tunable.name == name) else {
            let names: Vec<&str> = table.iter().map(|tunable| tunable.name).collect();
            let hint = did_you_mean(name, names.iter().copied());
            return Err(error(format!("unknown setting '{name}'; settings: {}{hint}", names.join(", "))));
        };
        let value = tunable.parse(text).map_err(|e| error(e.to_string()))?;
        if let Value::Count(bytes) = value
            && name == "request_bytes"
            && !bytes.is_multiple_of(SECTOR_BYTES)
        {
            return Err(error(format!(
                "setting '{name}' is {bytes}, not a multiple of {SECTOR_BYTES} bytes"
            )));
        }
        set(name, value).map_err(|e| error(e.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::builtin::Builtin;

    fn set(settings: &[(&str, &str)]) -> Option<String> {
        let settings = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let built = Builtin::named("par-read").unwrap().build(&settings.collect());
        built.err().map(|error| error.to_string())
    }

    #[test]
    fn requests_are_whole_sectors() {
        assert_eq!(set(&[("apart_bytes", "10000000")]), None);
        assert_eq!(set(&[("request_bytes", "1024")]), None);
        let odd = "workload par-read: setting 'request_bytes' is 513, not a multiple of 512 bytes";
        assert_eq!(set(&[("request_bytes", "513")]).as_deref(), Some(odd));
    }

    #[test]
    fn a_repeated_setting_is_rejected() {
        assert_eq!(set(&[("processes", "2")]), None);
        let twice = set(&[("processes", "2"), ("think", "1ms"), ("processes", "3")]);
        assert_eq!(twice.as_deref(), Some("workload par-read: setting 'processes' is given twice"));
    }
}
