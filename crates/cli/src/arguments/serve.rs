//! The command line of `serve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What to serve, under what, and how it is reached.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell serve --drive wd5000aaks --size 500G --scheduler 'stream(deadline)' --attach
  dwell serve /dev/sdb --scheduler cooperative --nbd unix:/run/dwell/sdb.sock --control /run/dwell/sdb.ctl")]
pub(crate) struct ServeArguments {
    /// The file or block device to serve; the store of an emulated drive, if --drive is given too
    pub(crate) path: Option<PathBuf>,
    /// Open the file or block device without write access; writes fail (NBD: EPERM)
    #[arg(long, requires = "path")]
    pub(crate) read_only: bool,
    /// Emulate this drive in real time; see 'dwell drives'
    #[arg(long)]
    pub(crate) drive: Option<String>,
    /// Size of the device: 500G is 500 * 10^9 bytes, 500GiB 500 * 2^30
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<String>,
    /// Serve from memory
    #[arg(long, conflicts_with_all = ["path", "drive"], requires = "size")]
    pub(crate) memory: bool,
    /// An emulated drive keeps no data: reads give zeroes
    #[arg(long, requires = "drive", conflicts_with_all = ["path", "memory"])]
    pub(crate) discard_data: bool,
    /// Tell schedulers the service times of this profile ('dwell profile')
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// The scheduler, with tunables in braces, or a page of TOML (scheduler = "...", tunables below)
    #[arg(long, short, default_value = "stream(deadline)")]
    pub(crate) scheduler: String,
    /// Requests that the backing device is given at once
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) depth: u32,
    /// How many times faster than natural an emulated drive runs
    #[arg(long, default_value_t = 1, requires = "drive", conflicts_with = "memory", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) speed: u32,
    /// Attach as a loop device through FUSE; needs root
    #[arg(long)]
    pub(crate) attach: bool,
    /// How requests that come through the attached device are told apart by their processes; default: not at all
    #[arg(long, value_enum, value_name = "WAY", requires = "attach")]
    pub(crate) identify: Option<IdentifyBy>,
    /// Serve the NBD protocol at unix:PATH or tcp:ADDRESS:PORT; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) nbd: Vec<String>,
    /// Directory with server-cert.pem and server-key.pem: TLS on TCP, required for addresses other than loopback; unix sockets go
    /// without
    #[arg(long, value_name = "DIRECTORY", requires = "nbd")]
    pub(crate) tls: Option<PathBuf>,
    /// Let in only clients with a certificate of an authority in the directory's ca-cert.pem; otherwise whoever can reach the
    /// address may read and write
    #[arg(long, requires = "tls")]
    pub(crate) tls_verify_peer: bool,
    /// NBD clients served at once through unix sockets, and as many through TCP; each may use 40 MiB of memory
    #[arg(long, value_name = "NUMBER", default_value_t = 16, requires = "nbd", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) connections: u16,
    /// NBD clients served at once from one IP address (of IPv6, one /64 network); default: three quarters of --connections
    #[arg(long, value_name = "NUMBER", requires = "nbd", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) connections_per_address: Option<u16>,
    /// Control socket, for dwell ctl
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Look for more so long before sleeping, as long as that finds something: shorter ways for single requests, more
    /// processor time; 0ns never looks, which is what is done in front of a disk unless this says otherwise; 50us in front
    /// of memory. Never in front of an emulated drive
    #[arg(long, value_name = "TIME", conflicts_with = "drive")]
    pub(crate) poll: Option<String>,
    /// A scheduler that holds back every request of an idle device for this long is faulty: noop replaces it. Must be longer than any
    /// wait that a tunable of the scheduler permits; 0ns never replaces
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(crate) longest_hold: String,
    /// A scheduler is faulty if it has not dispatched a request of this age, has dispatched 10,000 others meanwhile, and has exceeded
    /// twice the waiting bound that it promises, if it promises any; 0ns never replaces
    #[arg(long, value_name = "TIME", default_value = "120s")]
    pub(crate) oldest_request: String,
    /// Fail a request with an I/O error when the disk has not answered it for this long; 0s never does. What the disk still has keeps
    /// its memory, and writes to the same sectors fail until it answers
    #[arg(long, value_name = "TIME", default_value = "120s")]
    pub(crate) request_timeout: String,
    /// Serve a device although it is mounted or held; must be given twice
    #[arg(long, action = clap::ArgAction::Count)]
    pub(crate) even_if_used: u8,
    /// Print the report at the end as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How processes are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum IdentifyBy {
    /// A BPF program sees who asks the loop device
    Bpf,
}
