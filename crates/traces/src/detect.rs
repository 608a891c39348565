//! Detection of a file's format: by its content, and by its name only where the content leaves a choice.

use crate::format::{Format, Signature};

/// Lines of the head that are compared with the formats.
const LINES: usize = 32;

/// The format of a file.
pub(crate) struct Detected {
    pub(crate) format: Format,
    /// Why another format was not chosen, where there was a choice.
    pub(crate) doubt: Option<&'static str>,
}

/// The format of a file of that name whose content begins with `head`, which may end in the middle of a line.
pub(crate) fn detect(name: &str, head: &[u8]) -> Option<Detected> {
    let certain = |format| Detected { format, doubt: None };
    let start = first(|signature| matches!(signature, Signature::Start(is) if is(head)));
    if let Some(format) = start {
        return Some(certain(format));
    }
    let by_head = || first(|signature| matches!(signature, Signature::Head(is) if is(head)));
    by_lines(name, head).or_else(|| by_head().or_else(|| by_name(name)).map(certain))
}

/// The first format, in the order of [`Format::ALL`], whose signature matches.
fn first(matches: impl Fn(&Signature) -> bool) -> Option<Format> {
    Format::ALL.iter().copied().find(|format| matches(format.signature()))
}

/// The format of at least half of the first lines.
fn by_lines(name: &str, head: &[u8]) -> Option<Detected> {
    let lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let lines: Vec<_> =
        lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")).take(LINES).collect();
    let votes: Vec<Format> = lines.iter().filter_map(|line| by_line(line)).collect();
    let count = |format: Format| votes.iter().filter(|&&vote| vote == format).count();
    let winner = *votes.iter().max_by_key(|&&format| count(format))?;
    if count(winner) * 2 < lines.len() {
        return None;
    }
    Some(match winner {
        // One fraction decides: DiskSim prints whole milliseconds without a fraction only by chance.
        Format::MqSim if votes.contains(&Format::DiskSim) => {
            Detected { format: Format::DiskSim, doubt: None }
        }
        Format::MqSim => five_whole_numbers(name),
        format => Detected { format, doubt: None },
    })
}

/// Five whole numbers a line are MQSim's nanoseconds, unless the file's name suggests DiskSim.
fn five_whole_numbers(name: &str) -> Detected {
    let (format, doubt) = match by_name(name) {
        Some(Format::DiskSim) => (Format::DiskSim, "five whole numbers a line: DiskSim's by the file's name"),
        _ => (Format::MqSim, "five whole numbers a line, so MQSim's and not DiskSim's"),
    };
    Detected { format, doubt: Some(doubt) }
}

fn by_line(line: &[u8]) -> Option<Format> {
    if let Some(format) = first(|signature| matches!(signature, Signature::Line(is) if is(line))) {
        return Some(format);
    }
    let text = std::str::from_utf8(line).ok()?;
    if text.contains(',') {
        let cells: Vec<_> = text.split(',').map(str::trim).take(9).collect();
        return first(|signature| matches!(signature, Signature::Cells(are) if are(&cells)));
    }
    let words: Vec<_> = text.split_ascii_whitespace().take(7).collect();
    first(|signature| matches!(signature, Signature::Words(are) if are(&words)))
}

/// The format that a part of the name between dots suggests: `pgbench.ftrace.gz`, `sda.blktrace.0`.
fn by_name(name: &str) -> Option<Format> {
    let name = name.rsplit(['/', '\\']).next()?.to_ascii_lowercase();
    name.split('.').skip(1).find_map(Format::from_extension)
}
