//! `dwell top`: a device, live in the terminal: any block device, one under an elevator of the kernel module, or a served one.

mod device;
mod kernel;
mod rates;
mod screen;

use capture::topology::Stack;
use clap::Args;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::widgets::Paragraph;
use server::control::Client;

use rates::History;

use crate::commands::ctl::no_server;
use crate::error::Error;
use crate::input::quantity::some_time;
use crate::interrupt;
use crate::report::text_width;

/// Options of `dwell top`.
#[derive(Args, Debug)]
#[command(after_help = "Keys: q or Ctrl-C quits.

Examples:
  dwell top /dev/sda
  dwell top /dev/sda --once --every 5s
  dwell top /run/dwell/disk.ctl")]
pub(crate) struct TopArguments {
    /// A block device: its processes, causes and latencies; or the control socket of 'dwell serve --control'. Under an elevator of Dwell's kernel
    /// module the elevator's decisions and streams are shown, unless --requests is given
    #[arg(value_name = "DEVICE|SOCKET")]
    pub(crate) socket: PathBuf,
    /// Time between updates
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) every: String,
    /// Print the state once, after the time of --every, and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Show processes and latencies also if the device has an elevator of Dwell's kernel module
    #[arg(long)]
    pub(crate) requests: bool,
    /// Print the state of a block device once, as a JSON object, after the time of --every
    #[arg(long)]
    pub(crate) json: bool,
    /// Show all rows and columns, also where they do not fit the terminal, or 80 columns ('COLUMNS' of the environment) in a file or a pipe. Without
    /// it, each table of a block device has 12 rows, among them the programs with the most flushes and the longest waits, and the sums of the others
    #[arg(long)]
    pub(crate) wide: bool,
}

/// Time between two reads of the state. Shorter than the time between two snapshots, so that the strip shows the head's movement between them.
const SAMPLE: Duration = Duration::from_millis(100);

/// Size of the snapshot of a served device with --wide.
const WIDE: usize = 160;
const HEIGHT: u16 = 40;

pub(crate) fn run(arguments: &TopArguments) -> Result<(), Error> {
    let every = some_time("--every", &arguments.every)?.max(SAMPLE);
    let width = (!arguments.wide).then(text_width);
    if kernel::is_device(&arguments.socket) {
        let plain = arguments.requests || arguments.json || !kernel::is_of_the_module(&arguments.socket);
        return match plain {
            true => device::run(&arguments.socket, every, (arguments.once, arguments.json), width),
            false => kernel::run(&arguments.socket, every, arguments.once),
        };
    }
    if arguments.socket.is_dir() {
        // The error names the device that holds the directory.
        return Stack::of(&arguments.socket).map(drop).map_err(Error::from);
    }
    if arguments.json {
        let path = arguments.socket.display();
        return Err(Error::Usage(format!(
            "{path}: no block device; 'dwell ctl {path} show --json' prints the state of a served one"
        )));
    }
    if !is_socket(&arguments.socket) {
        return Err(Error::Usage(format!(
            "{}: neither a block device nor the control socket of a served one; name /dev/sda, or the socket of 'dwell serve --control'",
            arguments.socket.display()
        )));
    }
    let failed = |error: io::Error| no_server(&arguments.socket, &error);
    let mut client = Client::connect(&arguments.socket).map_err(failed)?;
    let mut history = History::new(client.show().map_err(failed)?);
    if arguments.once || !io::stdout().is_terminal() {
        std::thread::sleep(every);
        history.update(client.show().map_err(failed)?);
        history.begin_snapshot();
        return Ok(write!(io::stdout().lock(), "{}", text(&history, width.unwrap_or(WIDE))?)?);
    }
    let mut terminal = ratatui::try_init().map_err(|e| Error::Failed(format!("the terminal: {e}")))?;
    let ended = live(&mut terminal, &mut client, &mut history, every);
    ratatui::restore();
    ended.map_err(failed)
}

/// Whether it is a socket, or a path below another directory than /dev where one may be missing.
fn is_socket(path: &Path) -> bool {
    match path.metadata() {
        Ok(found) => found.file_type().is_socket(),
        Err(_) => path.components().count() > 1 && !path.starts_with("/dev"),
    }
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
            history.begin_snapshot();
        }
        terminal.draw(|frame| screen::draw(history, frame))?;
    }
    Ok(())
}

/// Draws one text after the other until a key or a signal ends the command; waits up to `wait` for a key before each.
fn draw_texts(wait: Duration, mut next: impl FnMut() -> Result<String, Error>) -> Result<(), Error> {
    let failed = |e: io::Error| Error::Failed(format!("the terminal: {e}"));
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let mut draw = || {
        while !interrupt::requested() {
            if event::poll(wait).map_err(failed)? && is_end(&event::read().map_err(failed)?) {
                break;
            }
            let text = next()?;
            terminal.draw(|frame| frame.render_widget(Paragraph::new(text), frame.area())).map_err(failed)?;
        }
        Ok(())
    };
    let ended = draw();
    ratatui::restore();
    ended
}

fn is_end(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let interrupts = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (interrupts || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

/// One snapshot as text without colours.
fn text(history: &History, width: usize) -> Result<String, Error> {
    let failed = |error| Error::Failed(format!("drawing: {error}"));
    let mut terminal =
        Terminal::new(TestBackend::new(u16::try_from(width).unwrap_or(u16::MAX), HEIGHT)).map_err(failed)?;
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
