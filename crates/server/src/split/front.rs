//! The front end of agents: it submits nothing, and receives the calls of their programs.

use std::io;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use elevator::Time;
use elevator::queue::Queue;

use super::{Observed, SplitHost};
use crate::front::{FrontEnd, Host};
use crate::operation::Answer;
use crate::poller::{Interest, Source};
use crate::statistics::Watch;

/// How often the kernel's events are read while agents are connected, and otherwise: before the memory between the kernel and this thread is
/// full, which takes 74,898 events.
const BUSY: Duration = Duration::from_millis(5);
const QUIET: Duration = Duration::from_millis(50);

/// The front end.
pub(crate) struct Admission {
    /// Until the start: where the observer of the attached device will come from.
    awaited: Option<Receiver<Observed>>,
    next: Option<Instant>,
}

impl Admission {
    pub(crate) const fn new(awaited: Receiver<Observed>) -> Self {
        Self { awaited: Some(awaited), next: None }
    }
}

/// Calls the host, if this device has one.
fn with_host<R>(
    host: &mut Host<'_>,
    call: impl FnOnce(&mut SplitHost, &mut Queue<Watch>, Time) -> R,
) -> Option<R> {
    let now = host.now;
    let device = host.device();
    let mut split = device.split.take()?;
    let result = call(&mut split, device.queue(), now);
    device.split = Some(split);
    Some(result)
}

impl FrontEnd for Admission {
    fn start(&mut self, host: &mut Host<'_>) -> io::Result<()> {
        host.device().split = self.awaited.take().map(|awaited| Box::new(SplitHost::new(awaited)));
        self.next = Some(Instant::now() + QUIET);
        Ok(())
    }

    fn ready(&mut self, number: u32, host: &mut Host<'_>) {
        with_host(host, |split, queue, now| split.receive(queue, now, number as usize));
    }

    fn answered(&mut self, _answer: Answer, _host: &mut Host<'_>) {}

    fn woken(&mut self, _cookie: u64, _host: &mut Host<'_>) {}

    fn flush(&mut self, host: &mut Host<'_>) {
        let new = with_host(host, |split, _, _| std::mem::take(&mut split.new)).unwrap_or_default();
        for index in new {
            let source = Source { front: host.front, number: index as u32 };
            let stream = host.device.split.as_ref().and_then(|split| split.stream(index));
            if stream.is_none_or(|stream| host.poller.add(stream, source, Interest::READ).is_err()) {
                with_host(host, |split, queue, now| split.part(queue, now, index));
            }
        }
        let acted = with_host(host, |split, queue, now| {
            let alarm = split.act(queue, now);
            (alarm, split.agents.iter().any(Option::is_some))
        });
        let Some((alarm, is_busy)) = acted else { return };
        for (index, agent) in host.device.split.iter_mut().flat_map(|split| split.agents()) {
            if agent.has_unsent() != agent.awaits_room {
                let source = Source { front: host.front, number: index as u32 };
                let interest = Interest { read: true, write: agent.has_unsent() };
                // If it fails, the next round tries again.
                if host.poller.modify(&agent.stream, source, interest).is_ok() {
                    agent.awaits_room = agent.has_unsent();
                }
            }
        }
        let longest = if is_busy { BUSY } else { QUIET };
        let alarm = alarm.map(|span| Duration::from_nanos(span.as_nanos()));
        let wait = alarm.unwrap_or(longest).clamp(Duration::from_micros(100), longest);
        self.next = Some(Instant::now() + wait);
    }

    fn stop(&mut self, host: &mut Host<'_>) {
        with_host(host, |split, queue, now| split.end(queue, now));
    }

    fn is_done(&self) -> bool {
        true
    }

    fn due(&self) -> Option<Instant> {
        self.next
    }
}
