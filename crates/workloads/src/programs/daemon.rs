//! A daemon of a parallel file system (the stream paper's pvfs2-server): clients request pieces of files, and any free thread
//! of the daemon issues the I/O, so the issuing task does not identify the client.
//!
//! "The processes take turns reading 64KB blocks of data sequentially from a 1GB file": with eight processes and eight
//! servers that store a file in units of 64 KB, each process reads from one server, and mpi-io-test synchronises them
//! (`MPI_Barrier`) before every block. So in a run over several servers the parts of a program on each server wait for each
//! other. "The daemon maintains a pool of threads and uses any available thread to dispatch its requests to the kernel."

use std::cell::RefCell;
use std::rc::Rc;

use elevator::Random;
use elevator::Span;
use machine::Barrier;
use machine::kernel::{Open, Path};
use serde::Deserialize;

use super::os::Os;
use super::units::{Bytes, Delay, Name, Size};

/// Programs that read a file each through a daemon with a thread pool.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Daemon {
    /// The programs' files; `{p}` is the program's number, from 1.
    pub files: Name,
    /// Number of programs.
    #[serde(default = "programs")]
    pub programs: u32,
    /// Threads of the daemon.
    #[serde(default = "threads")]
    pub threads: u32,
    /// Bytes read of each file.
    pub bytes: Size,
    #[serde(default = "block")]
    pub block: Bytes,
    /// Time from an answer to the arrival of the next request: the network.
    #[serde(default = "turn")]
    pub turn: Delay,
    /// Seed of the thread selection.
    #[serde(default)]
    pub seed: u64,
}

fn programs() -> u32 {
    4
}

fn threads() -> u32 {
    16
}

fn block() -> Bytes {
    Bytes(64 << 10)
}

/// A round trip of 64 KB over a network of 1 Gb/s takes about 0.6 ms.
fn turn() -> Delay {
    Delay(Span::from_micros(600))
}

/// The task of a thread.
struct Job {
    file: Path,
    at: u64,
}

/// The daemon's state: a job for each thread, and the free threads.
struct Desk {
    jobs: Vec<Option<Job>>,
    free: Vec<usize>,
    random: Random,
    programs_left: u32,
}

impl Daemon {
    /// Executes the step: ends when all programs have read their files.
    pub async fn run(&self, os: &Os) {
        let threads = self.threads.max(self.programs) as usize;
        let desk = Rc::new(RefCell::new(Desk {
            jobs: (0..threads).map(|_| None).collect(),
            free: (0..threads).collect(),
            // Daemons of different processes select different threads.
            random: Random::new(self.seed ^ 0xdae ^ os.number() << 16),
            programs_left: self.programs,
        }));
        // Barriers with thread t: 2t to hand over a job, 2t + 1 for its completion.
        let meetings = os.session().meetings(2 * threads as u32);
        for thread in 0..threads {
            let (own, desk, name) = (self.clone(), Rc::clone(&desk), format!("{}/pool", os.name()));
            os.fork(&name, |os| async move { own.thread(&os, &desk, meetings, thread).await }).await;
        }
        for number in 1..=self.programs {
            let (own, desk, name) =
                (self.clone(), Rc::clone(&desk), format!("{}/program-{number}", os.name()));
            os.fork(&name, |os| async move { own.program(&os, &desk, meetings, number).await }).await;
        }
        os.wait().await;
    }

    async fn program(&self, os: &Os, desk: &RefCell<Desk>, meetings: u32, number: u32) {
        let file = Path::from(self.files.of(os).replace("{p}", &number.to_string()));
        let (bytes, block) = (self.bytes.at(os.scale()), self.block.0.max(1));
        let servers = os.session().servers();
        for n in 0..bytes.div_ceil(block) {
            if servers > 1 {
                os.gather(Barrier { name: number, members: servers }).await;
            }
            let thread = {
                let mut desk = desk.borrow_mut();
                // There are as many threads as programs, so one is always free.
                let free = desk.free.len().max(1) as u64;
                let pick = desk.random.below(free) as usize;
                let thread = desk.free.swap_remove(pick);
                desk.jobs[thread] = Some(Job { file: Path::clone(&file), at: n * block });
                thread
            };
            os.meet(handing(meetings, thread)).await;
            os.meet(done(meetings, thread)).await;
            desk.borrow_mut().free.push(thread);
            os.think(self.turn.0).await;
        }
        let dismissed = {
            let mut desk = desk.borrow_mut();
            desk.programs_left -= 1;
            if desk.programs_left == 0 { std::mem::take(&mut desk.free) } else { Vec::new() }
        };
        for thread in dismissed {
            os.meet(handing(meetings, thread)).await;
        }
    }

    async fn thread(&self, os: &Os, desk: &RefCell<Desk>, meetings: u32, thread: usize) {
        let mut open: Vec<(Path, machine::kernel::Descriptor)> = Vec::new();
        loop {
            os.meet(handing(meetings, thread)).await;
            let Some(Job { file, at }) = desk.borrow_mut().jobs[thread].take() else { return };
            let descriptor = match open.iter().find(|(path, _)| *path == file) {
                Some((_, descriptor)) => *descriptor,
                None => {
                    let descriptor = os.open(&file, Open::default()).await;
                    open.push((file, descriptor));
                    descriptor
                }
            };
            os.read_at(descriptor, at, self.block.0.max(1)).await;
            os.meet(done(meetings, thread)).await;
        }
    }
}

fn handing(meetings: u32, thread: usize) -> Barrier {
    Barrier { name: meetings + 2 * thread as u32, members: 2 }
}

fn done(meetings: u32, thread: usize) -> Barrier {
    Barrier { name: meetings + 2 * thread as u32 + 1, members: 2 }
}
