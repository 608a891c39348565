//! The lines that clients and servers exchange.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The longest line that a server reads.
pub const LONGEST_LINE: u64 = 64 << 10;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The device now.
    Show,
    /// The device now, as Prometheus text.
    Metrics,
    /// Replaces the scheduler.
    Switch {
        /// Its name and tunables, as on the command line.
        scheduler: String,
        /// Drain the queue first, as Linux does. Otherwise the new scheduler takes over the queued requests.
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
    /// Joins an account. After the reply, the connection carries [admission](crate::admission) messages.
    Join {
        /// The account's name; processes that join one name are one account.
        account: String,
        /// The terms of the account; those of the latest that joined count.
        terms: AccountTerms,
        /// The process that joins, which also makes files durable for the account's processes.
        process: u32,
    },
    /// The array now.
    Array,
    /// Ends a member's server, as if its disk were removed: its users get errors.
    MemberFail {
        /// The member, from 0.
        member: u32,
    },
    /// Serves another file or device, or the same one again, in a place whose server has ended.
    MemberReplace {
        /// The member, from 0.
        member: u32,
        /// The file or device.
        source: PathBuf,
    },
    /// Ends the server, as SIGTERM does.
    Stop,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ArrayState {
    /// The layout; absent until md's superblock was found. Members schedule alone until then.
    pub layout: Option<String>,
    /// Whether the coordinator takes part.
    pub coordinated: bool,
    /// The members, in order.
    pub members: Vec<MemberState>,
    /// Directives of the coordinator so far.
    pub directives: u64,
    /// Requests recognised as resynchronisation, rebuild or scrub, and those of them that waited for others.
    pub background: u64,
    /// See `background`.
    pub background_held: u64,
    /// How often a member was lost, and returned.
    pub lost: u64,
    /// See `lost`.
    pub returned: u64,
}

/// A member of an array.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemberState {
    /// The file or device.
    pub source: String,
    /// The attached device, if one is.
    pub device: Option<PathBuf>,
    /// Addresses for NBD clients.
    pub addresses: Vec<String>,
    /// Its control socket.
    pub control: Option<PathBuf>,
    /// Its scheduler; none if it is not served.
    #[serde(default)]
    pub scheduler: Option<String>,
    /// Whether its server runs.
    pub served: bool,
    /// Whether the coordinator waits for it: it is served and gets requests.
    pub present: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountTerms {
    /// Its share: 1 to 8; 4 by default.
    #[serde(default)]
    pub weight: Option<u8>,
    /// The most work that it may cause, in bytes per second of sequential I/O.
    #[serde(default)]
    pub rate: Option<u64>,
    /// The target for the duration of its `fsync`, in nanoseconds.
    #[serde(default)]
    pub fsync_deadline_ns: Option<u64>,
}

impl AccountTerms {
    /// These terms, and `others` in place of those that are not given.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            weight: self.weight.or(others.weight),
            rate: self.rate.or(others.rate),
            fsync_deadline_ns: self.fsync_deadline_ns.or(others.fsync_deadline_ns),
        }
    }
}

/// An account of a split-level scheduler.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AccountState {
    /// Its number, by which the scheduler's items have it. That of an account that is gone is used again.
    #[serde(default)]
    pub number: u32,
    pub name: String,
    /// Its terms; none when its last agent has ended.
    pub terms: AccountTerms,
    /// Connected agents. Without one the account is gone after ten seconds, or when its data is written, after two minutes at the latest.
    pub agents: u32,
    /// Calls that were admitted.
    pub calls: u64,
    /// Calls that are held now.
    pub held: u32,
    /// How long its calls were held in total, in nanoseconds, those included that are held now.
    pub held_ns: u64,
    /// Bytes of its dirty pages that were not submitted yet.
    pub dirty: u64,
    /// Bytes of requests that it caused.
    pub caused: u64,
    /// Bytes that were submitted to the device because of it: read.
    #[serde(default)]
    pub read: u64,
    /// The same, of data that was written.
    #[serde(default)]
    pub data: u64,
    /// The same, of metadata and its part of the journal.
    #[serde(default)]
    pub metadata: u64,
    /// Its calls by kind: `write`, `fsync`, `create` (also removes, renames and truncates), `mkdir`.
    #[serde(default)]
    pub waits: BTreeMap<String, WaitState>,
}

/// Calls of one kind of an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WaitState {
    /// Calls that are held now.
    pub held: u32,
    /// Calls that were admitted.
    pub calls: u64,
    /// How long they were held in total, in nanoseconds.
    pub held_ns: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    Done,
    /// The device now.
    State(Box<State>),
    /// The array now.
    Array(Box<ArrayState>),
    /// A member is served.
    Member(Box<MemberState>),
    /// Text for Prometheus.
    Metrics(String),
    /// The switch was done, or waits for the queue to drain.
    Switched(SwitchState),
    /// The agent joined; the number of the block device whose files are scheduled.
    Joined {
        /// The major number.
        major: u32,
        /// The minor number.
        minor: u32,
    },
    LogEnded {
        /// Entries that were discarded because the writer could not keep up.
        lost: u64,
    },
    /// Not done, for this reason.
    Error(String),
}

/// The cost of a switch of schedulers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SwitchState {
    /// The switch waits for the queue to drain; the other fields are 0.
    pub draining: bool,
    /// Requests moved from the old scheduler to the new one.
    pub moved: u32,
    /// Requests in the device meanwhile.
    pub in_flight: u32,
    /// How long the queue was drained for, in nanoseconds.
    pub drained_for_ns: u64,
}

/// A tunable and its value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TunableState {
    pub name: String,
    pub value: String,
    pub default: String,
    /// Least value allowed.
    pub min: String,
    /// Greatest value allowed.
    pub max: String,
    /// Its effect.
    pub doc: String,
}

/// An object of the scheduler: a stream, a group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ItemState {
    /// Its kind, in the policy's terms.
    pub kind: String,
    /// Its number among those of its kind.
    pub number: u64,
    /// Its state. Names of values with a unit end in `_ns`, `_sector` or `_percent`; facts that do not apply are absent.
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
    /// From submission to the reply, failures included.
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
    /// The scheduler's specification, as on the command line; of an array whose members have different ones, all of them.
    pub scheduler: String,
    /// The place of the device in an array, from 0, if it is a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<u32>,
    pub tunables: Vec<TunableState>,
    /// Its objects: streams, groups.
    pub items: Vec<ItemState>,
    /// The back end.
    pub backend: String,
    /// Size in sectors.
    pub capacity_sectors: u64,
    /// Requests that the device takes at once.
    pub depth: u32,
    /// Requests in the scheduler.
    pub queued: u32,
    /// Requests in the device.
    pub in_flight: u32,
    /// Operations without a reply.
    pub unfinished: u64,
    /// End of the latest dispatched request: an estimate of the head's position.
    pub head_sector: u64,
    /// Requests dispatched.
    pub dispatched: u64,
    /// Deliberate waits begun.
    pub holds: u64,
    /// Failed merged requests that were sent again in parts.
    pub salvaged: u64,
    /// Requests that failed because the back end did not return them in time.
    pub timed_out: u64,
    /// Accounts by kind: `read`, `write`, `discard`, `flush`.
    pub operations: BTreeMap<String, OperationState>,
    /// Accounts by process, where the front end identifies processes.
    pub processes: BTreeMap<u32, ProcessAccount>,
    /// Accounts of a split-level scheduler, if causes are observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<AccountState>,
    /// Connected clients.
    pub clients: Vec<ClientState>,
    /// Lateness of an emulated drive's replies.
    pub lateness: TimesSummary,
    /// Switches of schedulers.
    pub switches: u64,
    /// The cost of the latest one.
    pub last_switch: Option<SwitchState>,
    /// How long the queue has been draining for a switch, if it is.
    pub draining_ns: Option<u64>,
    /// Entries that the decision log discarded; none while it is off.
    pub log_lost: Option<u64>,
    /// Faults of schedulers; each made `noop` the scheduler.
    pub scheduler_faults: u64,
    /// The latest of them.
    pub last_scheduler_fault: Option<String>,
}

/// A distribution of times in a few numbers, nanoseconds, within 1%.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TimesSummary {
    /// Their number.
    pub count: u64,
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// One process's account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ProcessAccount {
    /// Operations done or failed.
    pub operations: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// A client of a front end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClientState {
    /// The process that policies account it to, if any.
    pub process: Option<u32>,
    /// Its address.
    pub from: String,
    /// Requests without a reply.
    pub in_flight: u32,
    /// Memory that its requests hold, in bytes.
    pub bytes: u64,
}
