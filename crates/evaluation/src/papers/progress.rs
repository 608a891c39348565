//! How far a long command is, and how long it will take: what is done of what is expected, and how fast that went. A bar on
//! a terminal; where there is none, a line now and then.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between two lines where there is no terminal: what takes less says nothing, an hour fills a screen or two.
const EVERY: Duration = Duration::from_secs(30);

/// How far it is.
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
    /// What began last.
    name: String,
}

impl Progress {
    /// For tasks that are expected to take so many seconds of a processor each.
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

    /// A task has ended that was expected to take so long; one of 0 seconds only shows where we are.
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

    /// Says it on stderr every half a minute if that is no terminal, until nobody is left who could send word that it is over.
    pub(super) fn tell_meanwhile(&self, over: &Receiver<()>) {
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

    /// All is done.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// What remains, at the speed so far; before anything is done, at the speed expected.
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
    fn what_is_left_goes_by_the_speed_so_far() {
        let left = |done, elapsed| left(100.0, done, Duration::from_secs(elapsed), 2.0).as_secs();
        assert_eq!(left(0.0, 0), 50, "two threads");
        assert_eq!(left(50.0, 100), 100, "half as fast as expected");
        assert_eq!(left(100.0, 10), 0);
    }

    #[test]
    fn times_are_spoken_in_their_unit() {
        let spoken = |seconds| spoken(Duration::from_secs(seconds));
        assert_eq!((spoken(89), spoken(90), spoken(5400)), ("89 s".into(), "2 min".into(), "1.5 h".into()));
    }

    /// Somewhere to write to that lets the work end with its second line.
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
    fn without_a_terminal_it_is_told_in_lines_until_the_work_is_over() {
        let progress = Progress::new([1e6, 1e6, 1e6].into_iter(), 2);
        progress.begun("cooperative/ffsb-mail");
        let (working, over) = channel();
        let mut out = TwoLines { text: String::new(), working: Some(working) };
        progress.tell_every(Duration::from_millis(1), &over, &mut out);
        let line = "0/3, about 416.7 h left: cooperative/ffsb-mail\n";
        assert_eq!(out.text, line.repeat(2));
    }
}
