//! The functions that the kernel module's C files call (`module/policy.h` declares them), over [`kernel_host::Host`].
//!
//! The caller holds the queue's lock around every call and never calls a host again after a panic or a fault.
//! Memory comes from `dwellc_alloc`, which takes it from the queue's preallocated arena.
#![no_std]

extern crate alloc;

mod runtime;
mod text;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::slice;

use elevator::service_time::{MeasuredPoint, ServiceCurve};
use elevator::{
    Admission, Direction, Flags, Op, Outcome, Priority, PriorityClass, Process, RequestId, Sector, Sectors,
    Side, Span, Time,
};
use kernel_host::{Host, Injected, Next, Submission};
use schedulers::Environment;

use crate::text::Text;

/// No request, where an id is expected.
const NO_ID: u32 = u32::MAX;

/// A process as the kernel names it; `task` 0: unknown.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawProcess {
    task: u32,
    group: u32,
    context: u32,
}

impl RawProcess {
    fn process(self) -> Option<Process> {
        let Self { task, group, context } = self;
        (task != 0).then_some(Process { task, group, context })
    }
}

/// What the C side states about a request.
#[repr(C)]
pub struct RawSubmission {
    cookie: usize,
    sector: u64,
    sectors: u32,
    op: u8,
    flags: u8,
    class: u8,
    level: u8,
    process: RawProcess,
}

const SYNC: u8 = 1;
const META: u8 = 2;
const AHEAD: u8 = 4;
const FUA: u8 = 8;

impl RawSubmission {
    fn submission(&self) -> Submission {
        let has = |bit: u8| self.flags & bit != 0;
        Submission {
            op: match self.op {
                0 => Op::Read,
                1 => Op::Write,
                _ => Op::Discard,
            },
            start: Sector(self.sector),
            sectors: Sectors(self.sectors),
            flags: Flags {
                sync: has(SYNC),
                meta: has(META),
                ahead: has(AHEAD),
                fua: has(FUA),
                preflush: false,
                direct: false,
            },
            priority: Priority {
                class: match self.class {
                    1 => PriorityClass::RealTime,
                    3 => PriorityClass::Idle,
                    _ => PriorityClass::BestEffort,
                },
                level: self.level & 7,
            },
            process: self.process.process(),
        }
    }
}

/// The answer of `dwell_next`; `what` is one of the constants below.
#[repr(C)]
pub struct RawNext {
    cookie: usize,
    until: u64,
    reason: *const u8,
    reason_length: u32,
    id: u32,
    what: u32,
}

const IDLE: u32 = 0;
const DISPATCH: u32 = 1;
const HOLD: u32 = 2;
const HOLD_FOR_COMPLETION: u32 = 3;
const FAULT: u32 = 4;

/// Makes a host; null if `spec` is not a policy that runs at the block layer.
///
/// # Safety
/// `spec` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dwell_new(
    spec: *const u8,
    length: usize,
    depth: u32,
    nr_requests: u32,
    rotational: bool,
) -> *mut Host {
    // SAFETY: the caller passes `length` bytes at `spec`. Whether they are UTF-8 is checked below.
    let spec = unsafe { slice::from_raw_parts(spec, length) };
    // A device without a head serves every sector alike: no deliberate wait is worth its time.
    let service_times = if rotational { ServiceCurve::default() } else { ServiceCurve::fit(&[], Span::ZERO) };
    let environment = Environment { service_times, rotational, nr_requests };
    let host = core::str::from_utf8(spec).ok().and_then(|spec| Host::new(spec, environment, depth).ok());
    host.map_or(core::ptr::null_mut(), |host| Box::into_raw(Box::new(host)))
}

/// Ends a host.
///
/// # Safety
/// `host` comes from `dwell_new` and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dwell_free(host: *mut Host) {
    // SAFETY: the caller passes a host of `dwell_new`, once.
    drop(unsafe { Box::from_raw(host) });
}

/// What the policy is, a bit each: 1 light, 2 ignores processes, 4 may wait, 8 passes freely.
#[unsafe(no_mangle)]
pub extern "C" fn dwell_traits(host: &Host) -> u32 {
    u32::from(host.is_light())
        | u32::from(host.ignores_processes()) << 1
        | u32::from(host.may_wait()) << 2
        | u32::from(host.passes_freely()) << 3
}

/// Sets how many requests the device takes at once.
#[unsafe(no_mangle)]
pub extern "C" fn dwell_set_depth(host: &mut Host, depth: u32) {
    host.set_depth(depth);
}

/// Sets whether the policy sees processes.
#[unsafe(no_mangle)]
pub extern "C" fn dwell_show_processes(host: &mut Host, shows: bool) {
    host.show_processes(shows);
}

/// A request enters the queue; returns its id.
#[unsafe(no_mangle)]
pub extern "C" fn dwell_insert(host: &mut Host, now: u64, raw: &RawSubmission) -> u32 {
    host.insert(Time::from_nanos(now), &raw.submission(), raw.cookie).0
}

/// A queued request grew, by a bio or by the queued request `absorbed` (`NO_ID`: none).
#[unsafe(no_mangle)]
pub extern "C" fn dwell_merged(host: &mut Host, now: u64, id: u32, sector: u64, sectors: u32, absorbed: u32) {
    let absorbed = (absorbed != NO_ID).then_some(RequestId(absorbed));
    host.merged(Time::from_nanos(now), RequestId(id), Sector(sector), Sectors(sectors), absorbed);
}

/// Whether the queued request `id` may grow by `raw`.
#[unsafe(no_mangle)]
pub extern "C" fn dwell_may_merge(
    host: &mut Host,
    now: u64,
    id: u32,
    raw: &RawSubmission,
    front: bool,
) -> bool {
    let side = if front { Side::Front } else { Side::Back };
    host.may_merge(Time::from_nanos(now), RequestId(id), &raw.submission(), side)
}

/// 0: not now, 1: as the limit says, 2: even beyond the limit.
#[unsafe(no_mangle)]
pub extern "C" fn dwell_may_queue(
    host: &mut Host,
    now: u64,
    process: RawProcess,
    write: bool,
    sync: bool,
) -> u32 {
    let direction = if write { Direction::Write } else { Direction::Read };
    match host.may_queue(Time::from_nanos(now), process.process(), direction, sync) {
        Admission::No => 0,
        Admission::ByLimit => 1,
        Admission::Must => 2,
    }
}

/// A light policy dispatches the only request, which arrived at `arrived` and was not inserted.
#[unsafe(no_mangle)]
pub extern "C" fn dwell_pass(
    host: &mut Host,
    now: u64,
    arrived: u64,
    sector: u64,
    sectors: u32,
    write: bool,
    next: &mut RawNext,
) {
    let direction = if write { Direction::Write } else { Direction::Read };
    let (now, arrived) = (Time::from_nanos(now), Time::from_nanos(arrived));
    let reason = host.pass(now, arrived, direction, Sector(sector), Sectors(sectors)).as_str();
    (next.what, next.reason, next.reason_length) = (DISPATCH, reason.as_ptr(), reason.len() as u32);
}

/// What to do with a free tag. After a fault, `reason` is the description of it, which stays valid until the next call
/// of this function for any host on this processor; the host must not be called again.
#[unsafe(no_mangle)]
pub extern "C" fn dwell_next(host: &mut Host, now: u64, next: &mut RawNext) {
    let name = |next: &mut RawNext, reason: &'static str| {
        (next.reason, next.reason_length) = (reason.as_ptr(), reason.len() as u32);
    };
    match host.next(Time::from_nanos(now)) {
        Ok(Next::Idle) => next.what = IDLE,
        Ok(Next::Dispatch { id, cookie, reason }) => {
            (next.what, next.id, next.cookie) = (DISPATCH, id.0, cookie);
            name(next, reason.as_str());
        }
        Ok(Next::Hold { until, reason }) => {
            (next.what, next.until) = match until {
                Some(until) => (HOLD, until.as_nanos()),
                None => (HOLD_FOR_COMPLETION, 0),
            };
            name(next, reason.as_str());
        }
        Err(fault) => {
            next.what = FAULT;
            runtime::fault(&fault);
        }
    }
}

/// How a dispatched request ended: 0 served, 1 failed, 2 queued again by the kernel.
#[unsafe(no_mangle)]
pub extern "C" fn dwell_completed(host: &mut Host, now: u64, id: u32, outcome: u32) {
    let outcome = match outcome {
        0 => Outcome::Done,
        1 => Outcome::Failed,
        _ => Outcome::GivenBack,
    };
    host.completed(Time::from_nanos(now), RequestId(id), outcome);
}

/// A process ended.
#[unsafe(no_mangle)]
pub extern "C" fn dwell_exited(host: &mut Host, now: u64, process: RawProcess) {
    if let Some(process) = process.process() {
        host.exited(Time::from_nanos(now), process);
    }
}

/// The name of tunable number `index`; the length is 0 if there are no more.
///
/// # Safety
/// `room` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dwell_tunable_name(host: &Host, index: usize, room: *mut u8, size: usize) -> usize {
    // SAFETY: the caller passes `size` writable bytes at `room`, which it does not use during the call.
    let mut text = unsafe { Text::new(room, size) };
    if let Some(tunable) = host.tunables().get(index) {
        text.push(format_args!("{}", tunable.name));
    }
    text.length()
}

/// The value of tunable number `index`, as `dwell_tune` takes it.
///
/// # Safety
/// `room` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dwell_tunable(host: &Host, index: usize, room: *mut u8, size: usize) -> usize {
    // SAFETY: the caller passes `size` writable bytes at `room`, which it does not use during the call.
    let mut text = unsafe { Text::new(room, size) };
    if let Some(value) = host.tunables().get(index).and_then(|tunable| host.tunable(tunable.name)) {
        text.push(format_args!("{value}\n"));
    }
    text.length()
}

/// Sets tunable number `index`; false if the text is no value of it or out of range.
///
/// # Safety
/// `text` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dwell_tune(host: &mut Host, index: usize, text: *const u8, length: usize) -> bool {
    // SAFETY: the caller passes `length` bytes at `text`. Whether they are UTF-8 is checked below.
    let text = unsafe { slice::from_raw_parts(text, length) };
    let (Ok(text), Some(tunable)) = (core::str::from_utf8(text), host.tunables().get(index).copied()) else {
        return false;
    };
    host.tune_text(&tunable, text).is_ok()
}

/// The policy's full name with its settings.
///
/// # Safety
/// `room` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dwell_spec(host: &Host, room: *mut u8, size: usize) -> usize {
    // SAFETY: the caller passes `size` writable bytes at `room`, which it does not use during the call.
    let mut text = unsafe { Text::new(room, size) };
    text.push(format_args!("{}\n", host.spec()));
    text.length()
}

/// What the policy keeps, an item a line.
///
/// # Safety
/// `room` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dwell_inspect(host: &Host, now: u64, room: *mut u8, size: usize) -> usize {
    // SAFETY: the caller passes `size` writable bytes at `room`, which it does not use during the call.
    let mut text = unsafe { Text::new(room, size) };
    for item in host.inspect(Time::from_nanos(now)) {
        text.push(format_args!("{} {}", item.kind, item.number));
        for (name, fact) in &item.facts {
            text.push(format_args!(" {name}={}", text::Value(*fact)));
        }
        text.push(format_args!("\n"));
    }
    text.length()
}

/// Sets the service times from lines `DISTANCE_SECTORS NANOSECONDS` and at most one line `transfer NANOSECONDS_PER_SECTOR`;
/// false if a line is malformed, no point is given, or the policy cannot be made.
///
/// # Safety
/// `text` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dwell_set_service_times(
    host: &mut Host,
    now: u64,
    text: *const u8,
    length: usize,
) -> bool {
    // SAFETY: the caller passes `length` bytes at `text`. Whether they are UTF-8 is checked below.
    let text = unsafe { slice::from_raw_parts(text, length) };
    let Some(curve) = core::str::from_utf8(text).ok().and_then(curve) else { return false };
    host.set_service_times(Time::from_nanos(now), curve).is_ok()
}

fn curve(text: &str) -> Option<ServiceCurve> {
    let (mut points, mut transfer) = (Vec::new(), Span::ZERO);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (first, second) = line.split_once(' ')?;
        let nanos = Span::from_nanos(second.trim().parse().ok()?);
        match first {
            "transfer" => transfer = nanos,
            _ => points.push(MeasuredPoint { distance: first.parse().ok()?, time: nanos }),
        }
    }
    (!points.is_empty()).then(|| ServiceCurve::fit(&points, transfer))
}

/// Makes the policy fail, for tests: 1 panics, 2 dispatches an unknown request, 3 holds for ever, 4 forgets a request.
#[unsafe(no_mangle)]
pub extern "C" fn dwell_inject(host: &mut Host, what: u32) {
    host.inject(match what {
        1 => Injected::Panic,
        2 => Injected::UnknownRequest,
        3 => Injected::EndlessHold,
        _ => Injected::Forget,
    });
}
