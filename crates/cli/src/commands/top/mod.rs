//! `dwell top`: a served device, or one under an elevator of the kernel module, live in the terminal.

mod kernel;
mod rates;
mod screen;

use clap::Args;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use server::control::Client;

use rates::History;

use crate::commands::ctl::no_server;
use crate::error::Error;
use crate::input::quantity::span;
use crate::interrupt;

/// Options of `dwell top`.
#[derive(Args, Debug)]
#[command(after_help = "Keys: q or Ctrl-C quits.

Examples:
  dwell top /run/dwell/disk.ctl
  dwell top /dev/sda")]
pub(crate) struct TopArguments {
    /// The control socket of 'dwell serve --control', or a device under an elevator of Dwell's kernel module
    pub(crate) socket: PathBuf,
    /// Time between updates
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) every: String,
    /// Print the state once and exit, for scripts
    #[arg(long)]
    pub(crate) once: bool,
}

/// Time between two reads of the state. Shorter than the time between two pictures, so that the strip shows the head's movement between them.
const SAMPLE: Duration = Duration::from_millis(100);

/// Size of the picture if standard output is not a terminal.
const WIDTH: u16 = 110;
const HEIGHT: u16 = 40;

pub(crate) fn run(arguments: &TopArguments) -> Result<(), Error> {
    let every = span("--every", &arguments.every)?.max(SAMPLE);
    if kernel::is_device(&arguments.socket) {
        return kernel::run(&arguments.socket, every, arguments.once);
    }
    let failed = |error: io::Error| no_server(&arguments.socket, &error);
    let mut client = Client::connect(&arguments.socket).map_err(failed)?;
    let mut history = History::new(client.show().map_err(failed)?);
    if arguments.once || !io::stdout().is_terminal() {
        std::thread::sleep(every);
        history.update(client.show().map_err(failed)?);
        history.picture();
        return Ok(write!(io::stdout().lock(), "{}", text(&history)?)?);
    }
    let mut terminal = ratatui::try_init().map_err(|e| Error::Failed(format!("the terminal: {e}")))?;
    let ended = live(&mut terminal, &mut client, &mut history, every);
    ratatui::restore();
    ended.map_err(failed)
}

/// Draws until a key or a signal ends the command.
fn live(
    terminal: &mut ratatui::DefaultTerminal,
    client: &mut Client,
    history: &mut History,
    every: Duration,
) -> io::Result<()> {
    let mut drawn = Instant::now();
    while !interrupt::requested() {
        if event::poll(SAMPLE)? && is_end(&event::read()?) {
            return Ok(());
        }
        history.update(client.show()?);
        if drawn.elapsed() >= every {
            drawn = Instant::now();
            history.picture();
        }
        terminal.draw(|frame| screen::draw(history, frame))?;
    }
    Ok(())
}

fn is_end(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let interrupts = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (interrupts || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

/// One picture as text without colours.
fn text(history: &History) -> Result<String, Error> {
    let failed = |error| Error::Failed(format!("drawing: {error}"));
    let mut terminal = Terminal::new(TestBackend::new(WIDTH, HEIGHT)).map_err(failed)?;
    terminal.draw(|frame| screen::draw(history, frame)).map_err(failed)?;
    Ok(lines(terminal.backend().buffer()))
}

fn lines(buffer: &Buffer) -> String {
    let area = buffer.area;
    let line = |y| {
        let cells: String = (0..area.width).map(|x| buffer[(x, y)].symbol()).collect();
        cells.trim_end().to_owned()
    };
    let all: Vec<String> = (0..area.height).map(line).collect();
    let last = all.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    all[..last].iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests;
