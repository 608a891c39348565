//! The cooperative anticipatory scheduler (CAS): waits for a group of processes where the anticipatory scheduler waits for one.
//!
//! # Idea
//! Linux's anticipatory scheduler (LAS) starves processes that it does not wait for. When a new process reads each file, the
//! awaited process has always ended, so LAS waits for none of them; a streaming process beside them is always waited for, and
//! they get one read per 125 ms. Two such chunk readers cause a seek for every file. CAS puts processes that issue requests near
//! each other into a group: "one or more can be dead -- still the group exists"; "if a process just starting I/O belongs to a
//! group, start anticipation".
//!
//! # State
//! The state of [`anticipatory`](super::anticipatory) 2.6.9, and groups. A group is a position at which reading continues: the
//! end of its latest request, the think time from a member's completion to any member's next request, the probability that no
//! process continues when a member ends, and whether it has had more than one process. A group does not list its members; a
//! process stores its group. A synchronous request joins its process's group if that is near, else the nearest group within
//! `group_window`, else it forms a new one. A group ends when unused for `group_lifetime`.
//!
//! # Order of decisions
//! As in [`anticipatory`](super::anticipatory), with these reasons against waiting, in this order:
//! 1. The next request is the awaited process's, or its group's.
//! 2. The time is over, or the process has something queued.
//! 3. The request is close (within a window that doubles with each tick of waiting), or closer than the expected seek.
//! 4. The process has ended, and no process tends to continue in its group.
//! 5. The process has a history: it thinks too long, and so does its group, if the group has more than this process.
//! 6. The process has no history, or has ended: the group thinks too long. If the group has no history either: new processes
//!    think too long, or tend to fall silent without another process continuing.
//!
//! # Where it differs from the source
//! There is no public code, and only the slides of the paper are public; they contain no constants. Every constant is therefore
//! a tunable. The defaults are **interpretations**, from the cooperation in Linux 2.6.16 to 2.6.32 by the same authors: the
//! window of 8192 sectors, half as far back, the threshold of one half, the weight of one eighth. `group_lifetime` is CFQ
//! 2.6.32's time-out for cooperating queues; `groups_max` is free. The think time is the group's own, not the ended process's.
//! This goes beyond mainline, which keeps one probability per device and adds a neighbour's request to the awaited process's
//! history. Each group learns from its own arrivals, also without a wait, so a misjudged group recovers. Everything else is
//! 2.6.9, which the paper extends.
//!
//! # Not for
//! The loads that `anticipatory` is not for; there is no bound on waiting for the same reasons. In addition, processes that
//! cooperate closely are served as one process would be, until their neighbours' reads expire.
//!
//! # Sources
//! Seelam, Romero, Teller, Buros, "Enhancements to Linux I/O Scheduling", Ottawa Linux Symposium 2005 (slides "When Not to
//! Anticipate", "LAS Problems", "Cooperative Anticipatory Scheduler (CAS)", "Solution to AS Problems"); Linux 2.6.32
//! `block/as-iosched.c` for the constants.

mod groups;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;

use elevator::{HoldReason, Item, Process, Request, Span};

use self::groups::{Group, Groups, Joining, Member};
use crate::listing::{Listing, Make};
use crate::parts::averages::{ONE, Probability};
use crate::parts::jiffies::{Jiffies, Ticks};
use crate::parts::processes::Slot;
use crate::policies::anticipatory::by_process::{ByProcess, is_close};
use crate::policies::anticipatory::judgement::{Break, GroupId, Judgement, Queued, Requester, Situation};
use crate::policies::anticipatory::lists::Kind;
use crate::policies::anticipatory::settings::anticipatory_tunables;
use crate::policies::anticipatory::{Anticipatory, Judges, Version};

anticipatory_tunables! {
    /// The tunables of LAS, and the numbers that the paper does not give.
    pub struct Tunables {
        hz = 1000;
        /// How near to a group's latest request a request must be to join the group; half as far back. Wider: fewer, looser
        /// groups. An interpretation: mainline's close window.
        group_window: Sectors = 8192, 1, 1_073_741_824;
        /// How long an unused group exists. Longer: it survives longer turns of others. An interpretation: CFQ's time-out for
        /// cooperating queues.
        group_lifetime: Span = Span::from_secs(1), Span::ZERO, Span::from_secs(3_600);
        /// The most groups; the one unused for longest is replaced. Free: more than readers at a disk.
        groups_max: Count = 64, 1, 4_096;
        /// How close a request from outside the group must be to end the wait, doubled with each tick. An interpretation:
        /// mainline's close window.
        close_window: Sectors = 8192, 1, 1_073_741_824;
        /// The probability from which a failure is assumed: that no process continues for an ended member, that new processes
        /// fall silent. An interpretation: mainline's one half.
        exit_threshold: Percent = 50, 0, 100;
    }
}

/// The tunables that are CAS's own.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    group_window: u64,
    group_lifetime: Jiffies,
    groups_max: usize,
    close_window: u64,
    /// In 1/256.
    exit_threshold: u64,
}

impl Bounds {
    fn of(tunables: &Tunables) -> Self {
        Self {
            group_window: tunables.group_window,
            group_lifetime: Ticks::of_hz(tunables.hz).of(tunables.group_lifetime),
            groups_max: tunables.groups_max as usize,
            close_window: tunables.close_window,
            exit_threshold: tunables.exit_threshold * ONE / 100,
        }
    }
}

pub(crate) const LISTINGS: &[Listing] = &[Listing::new(
    "cooperative",
    "anticipatory 2.6.9 that also waits for groups of processes, including successors of ended ones",
    Make::Scheduler(|_| Box::new(new())),
)
.with_source("Seelam et al., OLS 2005; numbers after Linux 2.6.16 to 2.6.32, block/as-iosched.c")
.with_tunables(Tunables::TABLE)];

fn new() -> Anticipatory<Tunables, ByGroup> {
    let las = ByProcess::new(Version::V2_6_9, Ticks::of_hz(1000));
    let bounds = Bounds::of(&Tunables::default());
    Anticipatory::new(ByGroup { las, groups: Groups::default(), bounds }, false)
}

/// LAS's histories, and groups.
pub(crate) struct ByGroup {
    las: ByProcess,
    groups: Groups,
    bounds: Bounds,
}

impl Judges<Tunables> for ByGroup {
    fn tuned(&mut self, tunables: &Tunables) {
        self.las.ticks = Ticks::of_hz(tunables.hz);
        self.bounds = Bounds::of(tunables);
        self.groups.limit(self.bounds.groups_max);
    }
}

impl ByGroup {
    fn group(&self, requester: Requester) -> Option<&Group> {
        self.groups.get(requester.group?)
    }

    /// A process's synchronous request joins a group, or forms one.
    fn join(&mut self, now: Jiffies, requester: &mut Requester, request: &Request) {
        let history = self.las.history(requester.process);
        let joining = Joining {
            now,
            process: Member { slot: requester.process, serial: history.serial },
            start: request.start,
            end: request.end(),
            max_thinktime: self.las.max_thinktime(),
        };
        let near = self.groups.near(history.group, request.start, now, &self.bounds);
        let id =
            near.unwrap_or_else(|| self.groups.form(&joining, self.las.newcomers.exit_no_coop, &self.bounds));
        self.note_continuation(id, joining.process);
        self.groups.join(id, &joining);
        self.las.history_mut(requester.process).group = Some(id);
        requester.group = Some(id);
    }

    /// A process that continues where another one ended is cooperation.
    fn note_continuation(&mut self, id: GroupId, process: Member) {
        let Some(group) = self.groups.get_mut(id) else { return };
        if group.latest != process && !self.las.is_alive(group.latest.slot, group.latest.serial) {
            group.no_coop.down();
            self.las.newcomers.exit_no_coop.down();
        }
    }

    fn is_likely(&self, probability: Probability) -> bool {
        probability.get() > self.bounds.exit_threshold
    }

    /// The probability that no process continues for an ended one in that group.
    fn no_coop(&self, awaited: Requester) -> Probability {
        self.group(awaited).map_or(self.las.newcomers.exit_no_coop, |group| group.no_coop)
    }

    fn is_close(&self, s: &Situation, request: &Queued) -> bool {
        is_close(s.last_sector, request.start, self.bounds.close_window, s.delay())
            || self.las.expected_seek(s.awaited.process) > s.last_sector.distance(request.start)
    }

    /// Rule 5: a process with a history is waited for if it, or its group, is quick enough.
    fn process_thinks_too_long(&self, s: &Situation) -> Option<Break> {
        let own = self.las.history(s.awaited.process).ttime.mean();
        let group = self.group(s.awaited).filter(|group| group.is_cooperating && !group.ttime.is_empty());
        let best = group.map_or(own, |group| own.min(group.ttime.mean()));
        (best > s.antic_expire).then_some(Break::ThinksTooLong)
    }

    /// Rule 6: "if a process just starting I/O belongs to a group, start anticipation".
    fn group_thinks_too_long(&self, s: &Situation) -> Option<Break> {
        if let Some(group) = self.group(s.awaited).filter(|group| !group.ttime.is_empty()) {
            return (group.ttime.mean() > s.antic_expire).then_some(Break::ThinksTooLong);
        }
        let silent = self.las.newcomers.exit_prob.get() * self.no_coop(s.awaited).get();
        let silent = (silent > self.bounds.exit_threshold * ONE).then_some(Break::NewcomersExit);
        self.las.newcomers.too_thoughtful(s.antic_expire).or(silent)
    }

    fn has_ended(&self, slot: Slot) -> bool {
        !self.las.is_running(slot)
    }
}

impl Judgement for ByGroup {
    fn arrived(&mut self, now: Jiffies, request: &Request) -> Option<Requester> {
        let mut requester = self.las.arrived(now, request)?;
        if request.is_sync() {
            self.join(now, &mut requester, request);
        }
        Some(requester)
    }

    fn left_queue(&mut self, requester: Requester, kind: Kind) {
        self.las.left_queue(requester, kind);
        if let Some(group) = requester.group {
            self.groups.left_queue(group);
        }
    }

    fn completed(&mut self, now: Jiffies, requester: Requester, kind: Kind) {
        self.las.completed(now, requester, kind);
        if let Some(group) = requester.group {
            self.groups.completed(group, now);
        }
    }

    fn gone(&mut self, requester: Requester) {
        self.las.gone(requester);
    }

    fn awaits(&mut self, was: Option<Requester>, is: Option<Requester>) {
        self.las.awaits(was, is);
    }

    fn exited(&mut self, process: Process) {
        self.las.exited(process);
    }

    fn can_break(&mut self, s: &Situation, request: Option<&Queued>) -> Option<Break> {
        let awaited = s.awaited;
        let requester = request.and_then(|r| r.requester);
        if requester.is_some_and(|r| r.process == awaited.process) {
            return Some(Break::SameProcess);
        }
        if requester.is_some_and(|r| r.group.is_some() && r.group == awaited.group) {
            return Some(Break::SameGroup);
        }
        if s.is_over() {
            return Some(Break::TimeOver);
        }
        if self.las.history(awaited.process).nr_queued > 0 {
            return Some(Break::HasQueued);
        }
        if request.is_some_and(|r| r.kind == Kind::Sync && self.is_close(s, r)) {
            self.las.restart_thinking(awaited.process, s.now);
            return Some(Break::Close);
        }
        if self.has_ended(awaited.process) {
            self.las.note_exit(awaited.process);
            let alone = self.is_likely(self.no_coop(awaited)).then_some(Break::Exited);
            return alone.or_else(|| self.group_thinks_too_long(s));
        }
        if self.las.history(awaited.process).ttime.is_empty() {
            self.group_thinks_too_long(s)
        } else {
            self.process_thinks_too_long(s)
        }
    }

    fn timed_out(&mut self, now: Jiffies, awaited: Requester) {
        self.las.timed_out(now, awaited);
        if self.has_ended(awaited.process) {
            self.las.newcomers.exit_no_coop.up();
            if let Some(group) = awaited.group.and_then(|id| self.groups.get_mut(id)) {
                group.no_coop.up();
            }
        }
    }

    /// Any member may end the wait.
    fn is_awaited(&self, awaited: Requester, process: Process) -> bool {
        let member = self.las.find(process);
        member == Some(awaited.process)
            || (awaited.group.is_some()
                && member.is_some_and(|slot| self.las.history(slot).group == awaited.group))
    }

    fn inspect(&self, now: Jiffies, awaited: Option<Requester>) -> Vec<Item> {
        self.groups.inspect(now, self.las.ticks, awaited.and_then(|awaited| awaited.group))
    }

    fn hold_reason(&self, awaited: Requester) -> HoldReason {
        let newcomer = self.las.history(awaited.process).ttime.is_empty();
        if newcomer || self.has_ended(awaited.process) {
            HoldReason::AwaitGroup
        } else {
            HoldReason::AwaitProcess
        }
    }
}
