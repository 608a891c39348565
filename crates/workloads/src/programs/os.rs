//! Programs as sequences of system calls.
//!
//! A program is an `async` function with access to the operating system, [`Os`]. It can only await steps of the machine, so
//! the executor polls once, and the step that the function awaits is the program's next step.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use elevator::{Priority, Process, Span, Time};
use machine::kernel::{Call, Descriptor, Open, Path, Returned};
use machine::{Barrier, Next, Program, Submitter};

use super::diary::Diary;
use crate::contents::Contents;

/// Barriers with smaller names belong to scripts.
const FIRST_MEETING: u32 = 1 << 16;

/// State shared by the programs of a run: process numbers, measurements, and the end of the run.
pub struct Session {
    scale: f64,
    contents: Contents,
    next_task: Cell<u32>,
    next_meeting: Cell<u32>,
    /// Number of programs that the run waits for.
    awaited: Cell<u32>,
    diary: RefCell<Diary>,
    /// The current step of each process: its position in the script.
    steps: RefCell<BTreeMap<String, usize>>,
    /// Number of machines.
    servers: u32,
    /// What jobs of fio share.
    fio: crate::fio::Run,
}

impl Session {
    /// A session at a scale (1 is full size) with this initial content. Its first process has number 1.
    pub fn new(scale: f64, contents: Contents) -> Rc<Self> {
        Self::over(scale, contents, 1)
    }

    /// The same for several machines, each with this content.
    pub fn over(scale: f64, contents: Contents, servers: u32) -> Rc<Self> {
        Rc::new(Self {
            servers,
            scale,
            contents,
            next_task: Cell::new(1),
            next_meeting: Cell::new(FIRST_MEETING),
            awaited: Cell::new(0),
            diary: RefCell::default(),
            steps: RefCell::default(),
            fio: crate::fio::Run::default(),
        })
    }

    /// Records the step that a process begins.
    pub(crate) fn comes_to(&self, process: &str, step: usize) {
        self.steps.borrow_mut().insert(process.to_owned(), step);
    }

    /// The current step of a process or of the process that started it.
    pub(crate) fn step_of(&self, process: &str) -> Option<usize> {
        let steps = self.steps.borrow();
        let mut names = std::iter::successors(Some(process), |name| Some(name.rsplit_once('/')?.0));
        names.find_map(|name| steps.get(name).copied())
    }

    pub const fn scale(&self) -> f64 {
        self.scale
    }

    /// What jobs of fio share.
    pub(crate) const fn fio(&self) -> &crate::fio::Run {
        &self.fio
    }

    /// Number of machines.
    pub const fn servers(&self) -> u32 {
        self.servers
    }

    /// Initial directories and files below a directory.
    pub fn contents_below(&self, root: &str) -> (Vec<Path>, Vec<Path>) {
        self.contents.below(root)
    }

    /// Reserves `count` barrier names; returns the first.
    pub fn meetings(&self, count: u32) -> u32 {
        let first = self.next_meeting.get();
        self.next_meeting.set(first + count);
        first
    }

    /// The measurements so far.
    pub fn diary(&self) -> Diary {
        self.diary.borrow().clone()
    }

    /// A new process with the next number.
    pub fn process(&self) -> Process {
        let task = self.next_task.get();
        self.next_task.set(task + 1);
        Process::single(task)
    }

    /// Whether all programs that the run waits for have ended.
    fn is_over(&self) -> bool {
        self.awaited.get() == 0
    }
}

/// Exchange between a program and the engine: the next step and the result of the last call.
struct Seat {
    asks: Cell<Option<Next>>,
    returned: RefCell<Option<Returned>>,
    now: Cell<Time>,
}

/// The operating system as seen by a process.
#[derive(Clone)]
pub struct Os {
    seat: Rc<Seat>,
    session: Rc<Session>,
    who: Rc<Submitter>,
    copy: u32,
    part: Part,
}

/// A step: passes its request when it is polled first, and returns the answer when it is polled again.
struct Step<'a> {
    seat: &'a Seat,
    next: Option<Next>,
}

impl Future for Step<'_> {
    type Output = Option<Returned>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.next.take() {
            Some(next) => {
                self.seat.asks.set(Some(next));
                Poll::Pending
            }
            None => Poll::Ready(self.seat.returned.borrow_mut().take()),
        }
    }
}

impl Os {
    fn step(&self, next: Next) -> Step<'_> {
        Step { seat: &self.seat, next: Some(next) }
    }

    /// Makes a call; the run ends if it fails.
    async fn call(&self, call: Call) -> Returned {
        self.step(Next::Call(call)).await.unwrap_or(Returned::Done)
    }

    async fn bytes(&self, call: Call) -> u64 {
        match self.call(call).await {
            Returned::Bytes(bytes) => bytes,
            _ => 0,
        }
    }

    /// The name of the process.
    pub fn name(&self) -> &str {
        &self.who.name
    }

    /// The number of the process in the run.
    pub(crate) fn number(&self) -> u64 {
        self.who.process.map_or(0, |process| u64::from(process.task))
    }

    /// The copy's number, from 1, which `{n}` stands for.
    pub const fn copy(&self) -> u32 {
        self.copy
    }

    /// The scale; 1 is full size.
    pub fn scale(&self) -> f64 {
        self.session.scale()
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    pub fn now(&self) -> Time {
        self.seat.now.get()
    }

    pub async fn open(&self, path: &Path, how: Open) -> Descriptor {
        match self.call(Call::Open(Path::clone(path), how)).await {
            Returned::Opened(file) => file,
            _ => Descriptor(0),
        }
    }

    pub async fn close(&self, file: Descriptor) {
        self.call(Call::Close(file)).await;
    }

    /// `read(2)`: bytes read; 0 at the end.
    pub async fn read(&self, file: Descriptor, bytes: u64) -> u64 {
        self.timed_read(Call::Read(file, bytes)).await
    }

    /// `pread(2)`.
    pub async fn read_at(&self, file: Descriptor, at: u64, bytes: u64) -> u64 {
        self.timed_read(Call::ReadAt(file, at, bytes)).await
    }

    async fn timed_read(&self, call: Call) -> u64 {
        let asked = self.now();
        let bytes = self.bytes(call).await;
        self.session.diary.borrow_mut().read(&self.who.name, asked, self.now(), bytes);
        bytes
    }

    pub async fn write(&self, file: Descriptor, bytes: u64) {
        self.timed_write(Call::Write(file, bytes)).await;
    }

    /// `pwrite(2)`.
    pub async fn write_at(&self, file: Descriptor, at: u64, bytes: u64) {
        self.timed_write(Call::WriteAt(file, at, bytes)).await;
    }

    async fn timed_write(&self, call: Call) {
        let asked = self.now();
        let bytes = self.bytes(call).await;
        self.session.diary.borrow_mut().wrote(&self.who.name, asked, self.now(), bytes);
    }

    pub async fn fsync(&self, file: Descriptor) {
        let asked = self.now();
        self.call(Call::Fsync(file)).await;
        self.session.diary.borrow_mut().synced(&self.who.name, asked, self.now());
    }

    pub async fn fdatasync(&self, file: Descriptor) {
        let asked = self.now();
        self.call(Call::Fdatasync(file)).await;
        self.session.diary.borrow_mut().synced(&self.who.name, asked, self.now());
    }

    /// Records a transaction that began at `from` and is committed.
    pub fn committed(&self, from: Time) {
        self.session.diary.borrow_mut().committed(&self.who.name, from, self.now());
    }

    pub async fn sync(&self) {
        self.call(Call::Sync).await;
    }

    /// Drops a file from the page cache (`posix_fadvise(2)`).
    pub async fn forget(&self, path: &Path) {
        let file = self.open(path, Open::default()).await;
        self.call(Call::Forget(file)).await;
        self.close(file).await;
    }

    pub async fn mkdir(&self, path: &Path) {
        self.call(Call::Mkdir(Path::clone(path))).await;
    }

    pub async fn unlink(&self, path: &Path) {
        self.call(Call::Unlink(Path::clone(path))).await;
    }

    pub async fn rename(&self, from: &Path, to: &Path) {
        self.call(Call::Rename(Path::clone(from), Path::clone(to))).await;
    }

    /// `stat(2)`: the length.
    pub async fn stat(&self, path: &Path) -> u64 {
        self.bytes(Call::Stat(Path::clone(path))).await
    }

    /// All names of a directory, in its order; directories end in `/`.
    pub async fn readdir(&self, path: &Path) -> Vec<Path> {
        match self.call(Call::Readdir(Path::clone(path))).await {
            Returned::Entries(names) => names,
            _ => Vec::new(),
        }
    }

    /// Accesses anonymous memory.
    pub async fn touch(&self, at: u64, bytes: u64, write: bool) {
        self.call(Call::Touch(at, bytes, write)).await;
    }

    /// Computes or sleeps.
    pub async fn think(&self, span: Span) {
        if span > Span::ZERO {
            self.step(Next::Think(span)).await;
        }
    }

    /// Waits at a barrier.
    pub async fn meet(&self, meeting: Barrier) {
        self.step(Next::Barrier(meeting)).await;
    }

    /// Waits at a barrier across machines.
    pub async fn gather(&self, meeting: Barrier) {
        self.step(Next::ClusterBarrier(meeting)).await;
    }

    /// Starts a child process with the same priority. Terms of the parent do not apply to it.
    pub async fn fork<P, F>(&self, name: &str, body: P)
    where
        P: FnOnce(Self) -> F,
        F: Future<Output = ()> + 'static,
    {
        self.fork_with(name, self.who.priority, body).await;
    }

    /// Starts a child process with a priority.
    pub async fn fork_with<P, F>(&self, name: &str, priority: Priority, body: P)
    where
        P: FnOnce(Self) -> F,
        F: Future<Output = ()> + 'static,
    {
        let process = Some(self.session.process());
        self.start(Submitter { process, priority, name: name.to_owned() }, body).await;
    }

    /// Starts a thread of this process. Terms of the process apply to it.
    pub async fn thread<P, F>(&self, name: &str, body: P)
    where
        P: FnOnce(Self) -> F,
        F: Future<Output = ()> + 'static,
    {
        let own = self.session.process();
        let group = self.who.process.map_or(own.group, |process| process.group);
        let process = Some(Process::thread(own.task, group));
        self.start(Submitter { process, priority: self.who.priority, name: name.to_owned() }, body).await;
    }

    async fn start<P, F>(&self, who: Submitter, body: P)
    where
        P: FnOnce(Self) -> F,
        F: Future<Output = ()> + 'static,
    {
        let start = Start {
            part: Part::Child { beside: self.part.is_background() },
            copy: self.copy,
            after: Span::ZERO,
        };
        let program = program(&self.session, &who, start, body);
        self.step(Next::Spawn(who, program)).await;
    }

    /// Waits for all children.
    pub async fn wait(&self) {
        self.step(Next::AwaitChildren).await;
    }
}

/// The relation of a program to the end of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The run waits for it.
    Measured,
    /// It runs in the background and is stopped at the end of the run.
    Beside {
        /// It waits at barriers.
        meets: bool,
    },
    /// Its parent waits for it.
    Child {
        /// Its parent is a background process that waits at no barrier.
        beside: bool,
    },
}

impl Part {
    /// Whether no measured process waits for it.
    const fn is_background(self) -> bool {
        matches!(self, Self::Beside { meets: false } | Self::Child { beside: true })
    }
}

/// How a program starts.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Its relation to the end of the run.
    pub part: Part,
    /// The copy's number, from 1.
    pub copy: u32,
    /// Delay of its start.
    pub after: Span,
}

struct Running<F> {
    seat: Rc<Seat>,
    session: Rc<Session>,
    name: String,
    part: Part,
    /// The remaining delay of its start.
    after: Option<Span>,
    started: bool,
    future: Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Program for Running<F> {
    fn next(&mut self, now: Time) -> Next {
        if matches!(self.part, Part::Beside { .. }) && self.session.is_over() {
            return Next::Exit;
        }
        if let Some(after) = self.after.take() {
            return Next::Think(after);
        }
        if !self.started {
            self.started = true;
            self.session.diary.borrow_mut().started(&self.name, now);
        }
        self.seat.now.set(now);
        if self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            return self.seat.asks.take().unwrap_or(Next::Exit);
        }
        self.session.diary.borrow_mut().ended(&self.name, now);
        if self.part == Part::Measured {
            self.session.awaited.set(self.session.awaited.get() - 1);
        }
        Next::Exit
    }

    fn returned(&mut self, returned: Returned) -> bool {
        *self.seat.returned.borrow_mut() = Some(returned);
        false
    }

    fn is_background(&self) -> bool {
        self.part.is_background()
    }
}

/// Turns a function into a program.
pub fn program<P, F>(session: &Rc<Session>, who: &Submitter, start: Start, body: P) -> Box<dyn Program>
where
    P: FnOnce(Os) -> F,
    F: Future<Output = ()> + 'static,
{
    if start.part == Part::Measured {
        session.awaited.set(session.awaited.get() + 1);
    }
    let seat =
        Rc::new(Seat { asks: Cell::new(None), returned: RefCell::new(None), now: Cell::new(Time::ZERO) });
    let os = Os {
        seat: Rc::clone(&seat),
        session: Rc::clone(session),
        who: Rc::new(who.clone()),
        copy: start.copy,
        part: start.part,
    };
    Box::new(Running {
        seat,
        session: Rc::clone(session),
        name: who.name.clone(),
        part: start.part,
        after: (start.after > Span::ZERO).then_some(start.after),
        started: false,
        future: Box::pin(body(os)),
    })
}
