//! The lines that clients and servers exchange.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::front::Client;
use crate::statistics::{ProcessAccount, TimesSummary};

/// The longest line that a server reads.
pub const LONGEST_LINE: u64 = 64 << 10;

/// What a client asks for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The device now.
    Show,
    /// The device now, as Prometheus text.
    Metrics,
    /// Another scheduler takes over.
    Switch {
        /// Its name and tunables, as on the command line.
        scheduler: String,
        /// Drain the queue first, as Linux does. Otherwise the new one takes over what is queued.
        #[serde(default)]
        drain: bool,
    },
    /// Sets a tunable of the scheduler.
    Tune {
        /// Its name.
        tunable: String,
        /// Its value with its unit.
        value: String,
    },
    /// Writes a decision log for a while.
    Log {
        /// A file that does not exist yet.
        file: PathBuf,
        /// For how long, in milliseconds of the device's time.
        milliseconds: u64,
    },
    /// Ends the decision log before its time.
    EndLog,
    /// Ends the server, as SIGTERM does.
    Stop,
}

/// What a server answers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It was done, and nothing is to be told.
    Done,
    /// The device now.
    State(Box<State>),
    /// Text for Prometheus.
    Metrics(String),
    /// The switch was done, or waits for the queue to drain.
    Switched(SwitchState),
    /// The log was ended; so many entries were left out.
    LogEnded {
        /// Entries left out as the writer could not keep up.
        lost: u64,
    },
    /// It was not done, and why.
    Error(String),
}

/// What a switch of schedulers cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SwitchState {
    /// It waits for the queue to drain; the figures are not known yet.
    pub draining: bool,
    /// Requests handed from the old scheduler to the new one.
    pub moved: u32,
    /// Requests in the device meanwhile.
    pub in_flight: u32,
    /// How long the queue was drained for, in nanoseconds.
    pub drained_for_ns: u64,
}

/// A tunable as it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TunableState {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Its default.
    pub default: String,
    /// Least value allowed.
    pub min: String,
    /// Greatest value allowed.
    pub max: String,
    /// What it does.
    pub doc: String,
}

/// One thing that the scheduler keeps: a stream, a group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ItemState {
    /// What it is, in the policy's own word.
    pub kind: String,
    /// Its number among those of its kind.
    pub number: u64,
    /// What there is to say of it. Names end in `_ns`, `_sector` or `_percent`, where the value has a unit; what does not apply
    /// now is not there.
    pub facts: Map<String, Value>,
}

/// One kind of operation's account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OperationState {
    /// Operations done.
    pub done: u64,
    /// Operations failed.
    pub failed: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// From submission to the answer, also that it failed.
    pub latency: TimesSummary,
    /// From submission to dispatch.
    pub wait: TimesSummary,
}

/// A device at one moment. Rates are the difference of two.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct State {
    /// The device's time, in nanoseconds since it started.
    pub time_ns: u64,
    /// How many times faster than natural that time goes.
    pub speed: u32,
    /// The scheduler, as it was asked for.
    pub scheduler: String,
    /// Its tunables.
    pub tunables: Vec<TunableState>,
    /// What it keeps now: streams, groups.
    pub items: Vec<ItemState>,
    /// What holds the data.
    pub backend: String,
    /// Size in sectors.
    pub capacity_sectors: u64,
    /// How many requests the device takes at once.
    pub depth: u32,
    /// Requests in the scheduler.
    pub queued: u32,
    /// Requests in the device.
    pub in_flight: u32,
    /// Operations of clients not answered yet.
    pub unfinished: u64,
    /// Where the latest dispatched request ended: the best guess at where the head is.
    pub head_sector: u64,
    /// Requests dispatched.
    pub dispatched: u64,
    /// Deliberate waits begun.
    pub holds: u64,
    /// Broken requests sent again in parts.
    pub salvaged: u64,
    /// Requests that failed because the back end did not return them in time.
    pub timed_out: u64,
    /// Accounts by kind: `read`, `write`, `discard`, `flush`.
    pub operations: BTreeMap<String, OperationState>,
    /// Accounts by process, where processes are known.
    pub processes: BTreeMap<u32, ProcessAccount>,
    /// Who is connected.
    pub clients: Vec<Client>,
    /// How late an emulated drive's answers were.
    pub lateness: TimesSummary,
    /// Switches of schedulers.
    pub switches: u64,
    /// What the latest of them cost.
    pub last_switch: Option<SwitchState>,
    /// How long the queue has been draining for a switch, if it is.
    pub draining_ns: Option<u64>,
    /// The decision log is on, and so many of its entries were left out.
    pub log_lost: Option<u64>,
    /// Faults of schedulers; each made `noop` the scheduler.
    pub scheduler_faults: u64,
    /// The latest of them.
    pub last_scheduler_fault: Option<String>,
}
