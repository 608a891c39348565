//! Which of a job's files the next request accesses (`nrfiles`, `openfiles`, `file_service_type`).

use elevator::Random;

use super::job::{Job, Service};

/// Drawings of a random file before the next one that qualifies is taken.
const DRAWINGS: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Closed,
    Open,
    Ended,
}

/// The turns of a job's files.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    service: Service,
    /// Requests of a turn.
    length: u64,
    files: Vec<State>,
    open: usize,
    open_max: usize,
    /// The file after the last one whose turn it was.
    next: usize,
    current: Option<usize>,
    /// Requests of the present turn that are left.
    left: u64,
}

impl Turns {
    pub(super) fn new(job: &Job) -> Self {
        Self {
            service: job.service,
            length: job.service_requests,
            files: vec![State::Closed; job.regions.len()],
            open: 0,
            open_max: job.open_files,
            next: 0,
            current: None,
            left: 0,
        }
    }

    /// The file of the next request; `None` if all have ended.
    pub(super) fn next(&mut self, random: &mut Random) -> Option<usize> {
        if let Some(current) = self.current.filter(|&file| self.files[file] == State::Open) {
            if self.service == Service::Sequential {
                return Some(current);
            }
            if self.left > 0 {
                self.left -= 1;
                return Some(current);
            }
        }
        let count = self.files.len();
        let first = if self.service == Service::Random && count > 1 { self.draw(random) } else { self.next };
        let file = (first..count).chain(0..first).find(|&file| self.qualifies(file))?;
        if self.files[file] == State::Closed {
            (self.files[file], self.open) = (State::Open, self.open + 1);
        }
        (self.current, self.next, self.left) = (Some(file), (file + 1) % count, self.length - 1);
        Some(file)
    }

    fn draw(&self, random: &mut Random) -> usize {
        let mut drawn = 0;
        for _ in 0..DRAWINGS {
            drawn = random.below(self.files.len() as u64) as usize;
            if self.qualifies(drawn) {
                break;
            }
        }
        drawn
    }

    fn qualifies(&self, file: usize) -> bool {
        match self.files[file] {
            State::Open => true,
            State::Closed => self.open < self.open_max,
            State::Ended => false,
        }
    }

    /// A file has ended: its place is free for another one.
    pub(super) fn end(&mut self, file: usize) {
        if self.files[file] == State::Open {
            self.open -= 1;
        }
        self.files[file] = State::Ended;
    }

    /// All files begin anew.
    pub(super) fn begin(&mut self) {
        self.files.fill(State::Closed);
        (self.open, self.current, self.left) = (0, None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(job: &Job, length: usize, requests: usize) -> Vec<usize> {
        let (mut turns, mut random) = (Turns::new(job), Random::new(1));
        let mut done = vec![0; job.regions.len()];
        let mut order = Vec::new();
        while let Some(file) = turns.next(&mut random).filter(|_| order.len() < requests) {
            if done[file] == length {
                turns.end(file);
                continue;
            }
            done[file] += 1;
            order.push(file);
        }
        order
    }

    fn job(files: usize) -> Job {
        let mut job = Job::new("x");
        job.regions = vec![job.regions[0].clone(); files];
        job.open_files = files;
        job
    }

    /// As fio 3.33 wrote into its I/O log.
    #[test]
    fn files_take_turns_as_in_fio() {
        assert_eq!(order(&job(3), 2, 9), [0, 1, 2, 0, 1, 2]);
        assert_eq!(order(&Job { open_files: 2, ..job(3) }, 2, 9), [0, 1, 0, 1, 2, 2]);
        assert_eq!(order(&Job { open_files: 1, ..job(3) }, 2, 9), [0, 0, 1, 1, 2, 2]);
        assert_eq!(order(&Job { service_requests: 2, ..job(3) }, 3, 9), [0, 0, 1, 1, 2, 2, 0, 1, 2]);
        assert_eq!(order(&Job { service: Service::Sequential, ..job(2) }, 2, 9), [0, 0, 1, 1]);
        assert_eq!(order(&job(1), 3, 9), [0, 0, 0]);
    }

    #[test]
    fn random_files_all_end() {
        let random = order(&Job { service: Service::Random, ..job(40) }, 3, usize::MAX);
        assert_eq!(random.len(), 120);
        let neighbours = random.windows(2).filter(|pair| pair[1] == (pair[0] + 1) % 40).count();
        assert!(neighbours < 40, "{random:?}");
    }

    #[test]
    fn files_that_begin_anew_have_no_turn_left() {
        let (mut turns, mut random) = (Turns::new(&Job { service_requests: 5, ..job(2) }), Random::new(1));
        assert_eq!(turns.next(&mut random), Some(0));
        (0..2).for_each(|file| turns.end(file));
        assert_eq!(turns.next(&mut random), None);
        turns.begin();
        assert_eq!(turns.next(&mut random), Some(1));
    }
}
