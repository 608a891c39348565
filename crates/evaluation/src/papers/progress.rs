//! The progress of a long command: the finished share of the expected work, and an estimate of the remaining time. A bar on
//! a terminal, otherwise a line per half minute.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time between two lines without a terminal: shorter commands print none, an hour prints 120.
const EVERY: Duration = Duration::from_secs(30);

pub(super) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    threads: f64,
    state: Mutex<State>,
}

struct State {
    tasks: usize,
    done: usize,
    cost: f64,
    cost_done: f64,
    /// The task that began last.
    name: String,
}

impl Progress {
    /// For tasks with these expected processor times in seconds.
    pub(super) fn new(costs: impl Iterator<Item = f64>, threads: usize) -> Self {
        let costs: Vec<f64> = costs.collect();
        let cost: f64 = costs.iter().sum();
        let shown = std::io::stderr().is_terminal() && !costs.is_empty();
        let length = (cost * 1000.0).ceil() as u64;
        let bar = if shown { ProgressBar::new(length) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {prefix} {wide_msg}") {
            bar.set_style(style);
        }
        let state =
            Mutex::new(State { tasks: costs.len(), done: 0, cost, cost_done: 0.0, name: String::new() });
        let progress = Self { bar, begun: Instant::now(), threads: threads.max(1) as f64, state };
        progress.done(0.0);
        progress
    }

    /// A task begins.
    pub(super) fn begun(&self, name: &str) {
        self.bar.set_message(name.to_owned());
        if let Ok(mut state) = self.state.lock() {
            name.clone_into(&mut state.name);
        }
    }

    /// A task with the expected time `cost` has ended; 0 only updates the display.
    pub(super) fn done(&self, cost: f64) {
        let Ok(mut state) = self.state.lock() else { return };
        state.done += usize::from(cost > 0.0);
        state.cost_done += cost;
        self.bar.set_position((state.cost_done * 1000.0) as u64);
        self.bar.set_prefix(self.standing(&state));
    }

    fn standing(&self, state: &State) -> String {
        let left = left(state.cost, state.cost_done, self.begun.elapsed(), self.threads);
        format!("{}/{}, about {} left:", state.done, state.tasks, spoken(left))
    }

    /// Prints a line on stderr every half minute, unless that is a terminal, until all senders of `over` are dropped.
    pub(super) fn print_until(&self, over: &Receiver<()>) {
        let mut stderr = std::io::stderr();
        if !stderr.is_terminal() {
            self.tell_every(EVERY, over, &mut stderr);
        }
    }

    fn tell_every(&self, every: Duration, over: &Receiver<()>, out: &mut dyn Write) {
        while over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            let Ok(state) = self.state.lock() else { return };
            let line = format!("{} {}", self.standing(&state), state.name);
            drop(state);
            if writeln!(out, "{line}").is_err() {
                return;
            }
        }
    }

    /// Ends the display.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// The remaining time at the speed so far; before the first task has ended, at the expected speed.
fn left(cost: f64, done: f64, elapsed: Duration, threads: f64) -> Duration {
    let speed = if done > 0.0 { elapsed.as_secs_f64() / done } else { 1.0 / threads };
    Duration::try_from_secs_f64((cost - done).max(0.0) * speed).unwrap_or(Duration::MAX)
}

fn spoken(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..90 => format!("{seconds} s"),
        90..5400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{:.1} h", time.as_secs_f64() / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    #[test]
    fn the_remaining_time_follows_the_speed_so_far() {
        let left = |done, elapsed| left(100.0, done, Duration::from_secs(elapsed), 2.0).as_secs();
        assert_eq!(left(0.0, 0), 50, "two threads");
        assert_eq!(left(50.0, 100), 100, "half as fast as expected");
        assert_eq!(left(100.0, 10), 0);
    }

    #[test]
    fn times_are_printed_in_a_suitable_unit() {
        let spoken = |seconds| spoken(Duration::from_secs(seconds));
        assert_eq!((spoken(89), spoken(90), spoken(5400)), ("89 s".into(), "2 min".into(), "1.5 h".into()));
    }

    /// A writer that ends the work at its second line.
    struct TwoLines {
        text: String,
        working: Option<Sender<()>>,
    }

    impl Write for TwoLines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.text.push_str(std::str::from_utf8(bytes).unwrap());
            if self.text.lines().count() == 2 {
                self.working = None;
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn without_a_terminal_lines_are_printed_until_the_work_ends() {
        let progress = Progress::new([1e6, 1e6, 1e6].into_iter(), 2);
        progress.begun("cooperative/ffsb-mail");
        let (working, over) = channel();
        let mut out = TwoLines { text: String::new(), working: Some(working) };
        progress.tell_every(Duration::from_millis(1), &over, &mut out);
        let line = "0/3, about 416.7 h left: cooperative/ffsb-mail\n";
        assert_eq!(out.text, line.repeat(2));
    }
}
