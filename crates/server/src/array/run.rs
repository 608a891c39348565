//! An array's servers from their configuration to their reports.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ::control::device_number;
use ::control::protocol::{ArrayState, MemberState, Reply, Request, State};
use disks::array::Layout;
use elevator::Sector;

use super::control::{Command, Listener, aggregate};
use super::md::{self, Found};
use super::{Array, BoxedCoordinator};
use crate::ServeError;
use crate::backend::Backend;
use crate::control::{Line, Order, STOPPED, Stop, state};
use crate::server::{
    Configuration, Report, Server, signals, signals_of, start, stop_without_supervisor, wait_for_signals,
};
use crate::{attach, supervisor};

/// Period of the look at md, whose reports of its own traffic come at once, and at servers that have ended.
const LOOK: Duration = Duration::from_millis(500);

/// Period of the look at a member that is ending.
const LOOK_FOR_END: Duration = Duration::from_millis(20);

/// How long a replacement waits for the end of the member that it replaces.
const ENDING: Duration = Duration::from_secs(10);

/// Makes the configuration of a member in front of a source. The first call for each member is at the start.
pub type MemberFactory = Box<dyn Fn(u32, Option<&Path>) -> Result<Configuration, ServeError> + Send>;

/// The members' scheduler for a name that a user gives, with its coordinator, if it has one.
pub type MemberSchedulers = Box<dyn Fn(&str) -> Result<(String, Option<BoxedCoordinator>), String> + Send>;

pub struct ArrayConfiguration {
    /// Its coordinator, and the layout if it is known.
    pub array: Array,
    /// The members' files or devices; none for what has no store.
    pub sources: Vec<Option<PathBuf>>,
    /// Makes members.
    pub member: MemberFactory,
    /// Makes what members get when they are switched.
    pub schedulers: MemberSchedulers,
    /// md's device, whose superblock has the layout. It need not exist yet.
    pub md: Option<PathBuf>,
    /// The array's control socket. Those of the members are named by the configuration of each.
    pub control: Option<PathBuf>,
    /// Where attached members have their records: those that a killed process of the same supervisor served are continued.
    pub runtime: Option<PathBuf>,
}

/// A member.
struct Slot {
    source: Option<PathBuf>,
    running: Option<Running>,
    report: Option<Report>,
    control: Option<PathBuf>,
    /// Of the latest device in this place; none if it was not served.
    capacity: Option<Sector>,
}

struct Running {
    line: Line,
    /// It was ordered to end.
    is_failing: bool,
    stop: Sender<Stop>,
    device: Option<PathBuf>,
    addresses: Vec<String>,
    waiting: JoinHandle<Result<Report, ServeError>>,
}

/// A running array. Dropping it stops all members.
pub struct ArrayServer {
    array: Array,
    slots: Vec<Slot>,
    member: MemberFactory,
    schedulers: MemberSchedulers,
    md: Option<PathBuf>,
    commands: Receiver<Command>,
    /// Signals and the control socket.
    events: Sender<Command>,
    is_stopping: bool,
    /// The latest switch of schedulers and the settings since, which a replaced member gets too.
    orders: Vec<Request>,
    warned: bool,
    /// A former process served the members.
    is_resumed: bool,
    _control: Option<Listener>,
}

/// Serves an array until SIGINT, SIGTERM, SIGHUP (unless ignored), or an order to stop. A second signal ends the wait for users.
///
/// # Errors
/// A member could not start; nothing is left behind then.
pub fn run_array(
    configuration: ArrayConfiguration,
    started: impl FnOnce(&ArrayServer),
) -> Result<Vec<Option<Report>>, ServeError> {
    let failed = |error| ServeError::io("handling signals", error);
    let signals = signals(false).map_err(failed)?;
    let orphaned =
        supervisor::is_server().then(|| signals_of([libc::SIGUSR1])).transpose().map_err(failed)?;
    supervisor::unblock_signals();
    let mut server = start_array(configuration)?;
    let events = server.events.clone();
    let (stop, stops) = channel();
    let is_asked = Arc::new(AtomicBool::new(false));
    if let Some(orphaned) = orphaned {
        let (stop, is_asked) = (stop.clone(), is_asked.clone());
        let wait = move || stop_without_supervisor(orphaned, &stop, &is_asked);
        thread::Builder::new().name("supervisor".into()).spawn(wait).map_err(failed)?;
    }
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || wait_for_signals(signals, &stop, &is_asked))
        .map_err(failed)?;
    thread::Builder::new()
        .name("stop".into())
        .spawn(move || stops.into_iter().take_while(|_| events.send(Command::Stop).is_ok()).for_each(drop))
        .map_err(failed)?;
    started(&server);
    Ok(server.wait())
}

/// Starts an array; all members are served when this returns.
pub fn start_array(configuration: ArrayConfiguration) -> Result<ArrayServer, ServeError> {
    let ArrayConfiguration { array, sources, member, schedulers, md, control, runtime } = configuration;
    let (events, commands) = channel();
    let left = runtime.as_deref().map(attach::members_left).unwrap_or_default();
    let mut slots = Vec::new();
    slots.extend(sources.into_iter().zip(0..).map(|(source, index)| Slot {
        source: left.get(&index).cloned().or(source),
        running: None,
        report: None,
        control: None,
        capacity: None,
    }));
    let mut server = ArrayServer {
        array,
        slots,
        member,
        schedulers,
        md,
        commands,
        events,
        is_stopping: false,
        orders: Vec::new(),
        warned: false,
        is_resumed: !left.is_empty(),
        _control: None,
    };
    // A member that had failed before the former process was killed stays so.
    let serves = |index: &usize| left.is_empty() || left.contains_key(&(*index as u32));
    // All configurations first: what is wrong with one is found before anything is attached.
    let configurations = (0..server.slots.len())
        .filter(serves)
        .map(|index| server.configuration(index).map(|configuration| (index, configuration)));
    let configurations = configurations.collect::<Result<Vec<_>, _>>()?;
    for (index, configuration) in configurations {
        match (server.start_member(index, configuration), &runtime) {
            (Err(error), Some(runtime)) if server.is_resumed => {
                say!("member {index}: {error}; its users get errors, the others go on");
                attach::abandon_member(runtime, index as u32);
            }
            (started, _) => started?,
        }
    }
    if let Some(path) = control {
        let listener = Listener::listen(&path, server.events.clone())
            .map_err(|error| ServeError::io(format!("listening on {}", path.display()), error))?;
        server._control = Some(listener);
    }
    let capacities: Vec<Option<Sector>> = server.slots.iter().map(|slot| slot.capacity).collect();
    if let Some(note) = unequal(&capacities) {
        say!("{note}");
    }
    server.look_at_md();
    if let Some(array) = server.md.clone() {
        let events = server.events.clone();
        let look = move || events.send(Command::LookAtMd).is_ok();
        thread::Builder::new()
            .name("md".into())
            .spawn(move || md::watch(|| md::open_sync_action(&array), LOOK, look))
            .map_err(|error| ServeError::io("starting", error))?;
    }
    Ok(server)
}

/// A note if members differ in size: an array uses as much of each as the smallest has, and btrfs all of them.
fn unequal(capacities: &[Option<Sector>]) -> Option<String> {
    let sizes =
        (0..).zip(capacities).filter_map(|(member, size): (u32, _)| Some((size.as_ref()?.bytes(), member)));
    let (least, smallest) = sizes.clone().min()?;
    let (most, largest) = sizes.max_by_key(|&(size, _)| size)?;
    (least < most).then(|| {
        format!(
            "note: members differ in size: member {smallest} has {least} bytes, member {largest} {most}; md uses as much of each as the smallest has"
        )
    })
}

impl ArrayServer {
    /// The members' attached devices and addresses, in order.
    pub fn members(&self) -> Vec<(Option<&Path>, &[String])> {
        self.slots
            .iter()
            .map(|slot| match &slot.running {
                Some(running) => (running.device.as_deref(), running.addresses.as_slice()),
                None => (None, [].as_slice()),
            })
            .collect()
    }

    /// Whether members are devices that a former process had attached.
    pub const fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// The array's coordinator and layout.
    pub const fn array(&self) -> &Array {
        &self.array
    }

    pub fn state(&self) -> ArrayState {
        let (mut state, present) = self.array.state();
        // Only members under this policy follow the coordinator.
        state.members =
            self.slots.iter().zip(present).map(|(slot, present)| member_state(slot, present)).collect();
        let mut schedulers = state.members.iter().filter_map(|member| member.scheduler.as_deref());
        state.coordinated &= schedulers.any(|scheduler| scheduler.starts_with("array-"));
        state
    }

    fn configuration(&self, index: usize) -> Result<Configuration, ServeError> {
        let mut configuration = (self.member)(index as u32, self.slots[index].source.as_deref())?;
        configuration.array = Some(self.array.place(index as u32));
        Ok(configuration)
    }

    fn start_member(&mut self, index: usize, configuration: Configuration) -> Result<(), ServeError> {
        let control = configuration.control.clone();
        let server: Server = start(configuration)?;
        let (line, stop) = (server.line.clone(), server.stop.clone());
        let device = server.attached().map(Path::to_path_buf);
        let addresses = server.addresses().to_vec();
        let capacity = server.geometry().capacity;
        let waiting = thread::Builder::new()
            .name(format!("member {index}"))
            .spawn(move || server.wait())
            .map_err(|error| ServeError::io("starting", error))?;
        let slot = &mut self.slots[index];
        slot.control = control;
        slot.capacity = Some(capacity);
        slot.running = Some(Running { line, is_failing: false, stop, device, addresses, waiting });
        Ok(())
    }

    /// Serves until an order to stop has arrived and all members have ended; their reports.
    pub fn wait(&mut self) -> Vec<Option<Report>> {
        loop {
            match self.commands.recv_timeout(LOOK) {
                Ok(Command::Stop) => self.stop(),
                Ok(Command::Request(request, reply)) => {
                    let answer = self.obey(request).unwrap_or_else(Reply::Error);
                    let _ = reply.send(answer);
                }
                Ok(Command::LookAtMd) => self.look_at_md(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.stop(),
            }
            self.collect();
            if self.is_stopping && self.slots.iter().all(|slot| slot.running.is_none()) {
                return self.slots.iter_mut().map(|slot| slot.report.take()).collect();
            }
        }
    }

    /// Stops every member at the same time: each is served until the array on top has closed all of them.
    fn stop(&mut self) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            attach::array_is_ending();
        }
        for running in self.slots.iter().filter_map(|slot| slot.running.as_ref()) {
            let _ = running.stop.send(Stop::Asked);
        }
    }

    /// Takes the reports of servers that have ended.
    fn collect(&mut self) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if let Some(ended) = slot.running.take_if(|running| running.waiting.is_finished()) {
                match ended.waiting.join() {
                    Ok(Ok(report)) => slot.report = Some(report),
                    Ok(Err(error)) => say!("member {index}: {error}"),
                    Err(_) => say!("member {index}: its server panicked"),
                }
                if !self.is_stopping {
                    say!(
                        "member {index}: not served any more; the others go on ('dwell ctl SOCKET member replace' serves another disk)"
                    );
                }
            }
        }
    }

    /// Finds the layout once md has written its superblock, and reads what md does.
    fn look_at_md(&mut self) {
        let Some(array) = self.md.clone() else { return };
        if self.array.layout().is_none() {
            self.look_for_layout();
        }
        let running = self.slots.iter().filter_map(|slot| slot.running.as_ref());
        self.array.set_sync(md::sync(&array, running.filter_map(|running| running.device.as_deref())));
    }

    fn look_for_layout(&mut self) {
        let sources: Vec<&Path> = self.slots.iter().filter_map(|slot| slot.source.as_deref()).collect();
        let found = md::find(&sources).and_then(|found| match found {
            Found::Nothing => md::refuse_old(&sources),
            found => self.take_layout(found),
        });
        if let Err(error) = found
            && !std::mem::replace(&mut self.warned, true)
        {
            say!("not coordinated: {error}");
        }
    }

    fn take_layout(&self, found: Found) -> Result<(), ServeError> {
        let Found::Array(superblock, roles) = found else { return Ok(()) };
        check_order(&superblock.layout, &roles)?;
        self.array.set_layout(superblock.layout)?;
        say!("coordinating {}: {}", superblock.name, superblock.layout);
        Ok(())
    }

    fn obey(&mut self, request: Request) -> Result<Reply, String> {
        match request {
            Request::Array => Ok(Reply::Array(Box::new(self.state()))),
            Request::Show => Ok(Reply::State(Box::new(self.aggregate()?))),
            Request::Switch { scheduler, drain } => {
                let (scheduler, coordinator) = (self.schedulers)(&scheduler)?;
                let reply = self.order_all(&Request::Switch { scheduler, drain })?;
                self.array.set_coordinator(coordinator);
                Ok(reply)
            }
            Request::Tune { .. } => self.order_all(&request),
            Request::MemberFail { member } => {
                self.running(member)?.line.order(Order::Stop).map_err(|_| not_served(member))?;
                if let Some(running) = &mut self.slots[member as usize].running {
                    running.is_failing = true;
                }
                Ok(Reply::Done)
            }
            Request::MemberReplace { member, source } => self.replace(member, source),
            Request::Stop => {
                self.stop();
                Ok(Reply::Done)
            }
            Request::Metrics | Request::Log { .. } | Request::EndLog | Request::Join { .. } => {
                Err("each member has this on its own socket: 'dwell ctl SOCKET array' names them".to_owned())
            }
        }
    }

    fn replace(&mut self, member: u32, source: PathBuf) -> Result<Reply, String> {
        let index = member as usize;
        self.wait_for_end_of(index);
        if self.is_stopping {
            return Err("the array is about to end: it serves no further member".to_owned());
        }
        let slot = self.slots.get(index).ok_or_else(|| no_member(member))?;
        if slot.running.is_some() {
            return Err(format!("member {member} is served; remove it from the array and fail it first"));
        }
        if let Some(other) = self.attached_as(&source) {
            let source = source.display();
            return Err(format!(
                "{source} is the attached device of member {other}: both members would have one disk"
            ));
        }
        let former = self.slots[index].source.replace(source);
        let started = self
            .configuration(index)
            .map(|configuration| self.not_smaller(index, configuration))
            .and_then(|configuration| self.start_member(index, configuration));
        if let Err(error) = started {
            self.slots[index].source = former;
            return Err(error.to_string());
        }
        let line = &self.running(member)?.line;
        for order in &self.orders {
            crate::control::obey(order.clone(), line)?;
        }
        let state = self.state().members.swap_remove(index);
        Ok(Reply::Member(Box::new(state)))
    }

    /// The member that is attached as this device.
    fn attached_as(&self, source: &Path) -> Option<usize> {
        let wanted = device_number::of_node(source)?;
        self.slots.iter().position(|slot| {
            let device = slot.running.as_ref().and_then(|running| running.device.as_deref());
            device.and_then(device_number::of_node) == Some(wanted)
        })
    }

    /// A member that was ordered to stop, or whose disk is gone, ends soon.
    fn wait_for_end_of(&mut self, index: usize) {
        let began = Instant::now();
        loop {
            self.collect();
            let running = self.slots.get(index).and_then(|slot| slot.running.as_ref());
            let is_ending =
                |running: &Running| running.is_failing || is_stopped(running.line.ask(Order::Show));
            let is_ending = running.is_some_and(is_ending);
            if !is_ending || began.elapsed() >= ENDING {
                return;
            }
            thread::sleep(LOOK_FOR_END);
        }
    }

    /// Refuses a replacement that is smaller than the former device in its place: the end of the array would be cut off. If that one was
    /// not served, than the smallest member.
    fn not_smaller(&self, index: usize, mut configuration: Configuration) -> Configuration {
        let slot = &self.slots[index];
        let smallest = || self.slots.iter().filter_map(|slot| slot.capacity).min();
        let (Some(least), Some(source)) = (slot.capacity.or_else(smallest), slot.source.clone()) else {
            return configuration;
        };
        let make = configuration.backend;
        configuration.backend = Box::new(move || -> Result<Box<dyn Backend>, ServeError> {
            let backend = make()?;
            let found = backend.geometry().capacity;
            if found < least {
                let problem = format!(
                    "has {} bytes, and the member that it would replace has {}; a replacement must be at least as large",
                    found.bytes(),
                    least.bytes()
                );
                return Err(ServeError::unfit(&source, &problem));
            }
            Ok(backend)
        });
        configuration
    }

    fn running(&self, member: u32) -> Result<&Running, String> {
        let slot = self.slots.get(member as usize).ok_or_else(|| no_member(member))?;
        slot.running.as_ref().ok_or_else(|| not_served(member))
    }

    /// What each member answers, with its number, without those that are about to end; the first error ends it.
    fn ask_all<T>(&self, ask: impl Fn(&Line) -> Result<T, String>) -> Result<Vec<(u32, T)>, String> {
        let running =
            (0..).zip(&self.slots).filter_map(|(member, slot)| Some((member, slot.running.as_ref()?)));
        let running = running.filter(|(_, running)| !running.is_failing);
        let answers = running.map(|(member, running)| (member, ask(&running.line)));
        let answers = answers.filter(|(_, answer)| !is_stopped(answer.as_ref()));
        answers.map(|(member, answer)| Ok((member, answer?))).collect()
    }

    /// The members as one device.
    fn aggregate(&self) -> Result<State, String> {
        let states = self.ask_all(|line| Ok(state(&*line.ask(Order::Show)?, line.speed)))?;
        aggregate(states).ok_or_else(|| "no member is served".to_owned())
    }

    /// Gives one order to every member.
    fn order_all(&mut self, request: &Request) -> Result<Reply, String> {
        let mut replies = self.ask_all(|line| crate::control::obey(request.clone(), line))?;
        let (_, last) = replies.pop().ok_or_else(|| "no member is served".to_owned())?;
        match request {
            Request::Tune { tunable, .. } => self
                .orders
                .retain(|order| !matches!(order, Request::Tune { tunable: other, .. } if other == tunable)),
            _ => self.orders.clear(),
        }
        self.orders.push(request.clone());
        Ok(last)
    }
}

impl Drop for ArrayServer {
    fn drop(&mut self) {
        self.stop();
        for slot in &mut self.slots {
            if let Some(running) = slot.running.take() {
                let _ = running.waiting.join();
            }
        }
    }
}

fn member_state(slot: &Slot, present: bool) -> MemberState {
    let running = slot.running.as_ref();
    MemberState {
        source: slot.source.as_ref().map_or_else(|| "no store".to_owned(), |path| path.display().to_string()),
        device: running.and_then(|running| running.device.clone()),
        addresses: running.map(|running| running.addresses.clone()).unwrap_or_default(),
        control: slot.control.clone(),
        scheduler: running
            .and_then(|running| running.line.ask(Order::Show).ok())
            .map(|snapshot| snapshot.scheduler.clone()),
        served: running.is_some(),
        present: present && running.is_some(),
    }
}

fn not_served(member: u32) -> String {
    format!("member {member} is not served")
}

/// Whether the answer is that the device has ended.
fn is_stopped<T, E: AsRef<str>>(answer: Result<T, E>) -> bool {
    answer.is_err_and(|error| error.as_ref() == STOPPED)
}

fn no_member(member: u32) -> String {
    format!("there is no member {member}; members are counted from 0")
}

/// The place of each `--member` must be md's place of it: the layout is in md's order.
fn check_order(layout: &Layout, roles: &[Option<u32>]) -> Result<(), ServeError> {
    match md::misplaced(layout, roles) {
        Some((index, role)) => Err(ServeError::Configuration(format!(
            "--member number {index} (from 0) has place {role} in the array; name the members in the array's order"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_unequal_size_are_noted() {
        let sizes = [Some(Sector(8)), None, Some(Sector(16)), Some(Sector(8))];
        let note = unequal(&sizes).unwrap();
        assert!(note.contains("member 0 has 4096 bytes, member 2 8192"), "{note}");
        assert_eq!(unequal(&[Some(Sector(8)), None, Some(Sector(8))]), None);
        assert_eq!(unequal(&[]), None);
    }
}
