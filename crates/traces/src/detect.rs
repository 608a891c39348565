//! Which format a file is in: by what it contains, and only where that leaves a choice, by its name.

use crate::format::{Format, blkparse, blktrace, dwell, fio, ftrace, srt, vscsi};

/// Lines that are looked at.
const LINES: usize = 32;

/// What was made of a file's head.
pub(crate) struct Detected {
    pub(crate) format: Format,
    /// Why not another, where there was a choice.
    pub(crate) doubt: Option<&'static str>,
}

/// The format of a file of that name whose content begins so. `head` may end in the middle of a line.
pub(crate) fn detect(name: &str, head: &[u8]) -> Option<Detected> {
    let certain = |format| Some(Detected { format, doubt: None });
    if blktrace::looks_like(head) {
        return certain(Format::Blktrace);
    }
    if srt::header_bytes(head).is_some() {
        return certain(Format::Srt);
    }
    if dwell::looks_like(head) {
        return certain(Format::Dwell);
    }
    if fio::looks_like(head) {
        return certain(Format::Fio);
    }
    if let Some(detected) = by_lines(name, head) {
        return Some(detected);
    }
    if ftrace::looks_like(head) {
        return certain(Format::Ftrace);
    }
    if vscsi::looks_like(head) {
        return certain(Format::Vscsi);
    }
    by_name(name).and_then(certain)
}

/// The format that most of the first lines are in.
fn by_lines(name: &str, head: &[u8]) -> Option<Detected> {
    let lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let lines: Vec<_> =
        lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")).take(LINES).collect();
    let judged: Vec<Shape> = lines.iter().filter_map(|line| shape(line)).collect();
    let winner =
        *judged.iter().max_by_key(|&&shape| judged.iter().filter(|&&other| other == shape).count())?;
    let votes = judged.iter().filter(|&&shape| shape == winner).count();
    if votes * 2 < lines.len() {
        return None;
    }
    Some(match winner {
        Shape::Certain(format) => Detected { format, doubt: None },
        // One fraction is enough: DiskSim prints whole milliseconds without one only by chance.
        Shape::FiveNumbers if judged.contains(&Shape::Certain(Format::DiskSim)) => {
            Detected { format: Format::DiskSim, doubt: None }
        }
        Shape::FiveNumbers => whole_numbers(name),
    })
}

/// Five whole numbers a line: MQSim's nanoseconds, unless the name says DiskSim.
fn whole_numbers(name: &str) -> Detected {
    let (format, doubt) = match by_name(name) {
        Some(Format::DiskSim) => (Format::DiskSim, "five whole numbers a line: DiskSim's by the file's name"),
        _ => (Format::MqSim, "five whole numbers a line, so MQSim's and not DiskSim's"),
    };
    Detected { format, doubt: Some(doubt) }
}

/// A format that the name's parts between dots speak of: `pgbench.ftrace.gz`, `sda.blktrace.0`.
fn by_name(name: &str) -> Option<Format> {
    let name = name.rsplit(['/', '\\']).next()?.to_ascii_lowercase();
    name.split('.').skip(1).find_map(|part| match part {
        "ascii" | "disksim" => Some(Format::DiskSim),
        "iolog" => Some(Format::Fio),
        _ => Format::from_name(part),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Certain(Format),
    FiveNumbers,
}

fn shape(line: &[u8]) -> Option<Shape> {
    if blkparse::looks_like(line) {
        return Some(Shape::Certain(Format::Blkparse));
    }
    let text = std::str::from_utf8(line).ok()?;
    if text.contains(',') {
        let cells: Vec<_> = text.split(',').map(str::trim).take(9).collect();
        return csv(&cells).map(Shape::Certain);
    }
    let words: Vec<_> = text.split_ascii_whitespace().take(7).collect();
    match *words {
        ["R" | "W", _, block, count, service, gap]
            if [block, count, service, gap].into_iter().all(is_decimal) =>
        {
            Some(Shape::Certain(Format::DiskSimValidate))
        }
        [at, device, block, count, flags] if [device, block, count].into_iter().all(is_whole) => {
            match (is_whole(at), matches!(flags, "0" | "1")) {
                (true, true) => Some(Shape::FiveNumbers),
                _ => (is_decimal(at) && is_hex(flags)).then_some(Shape::Certain(Format::DiskSim)),
            }
        }
        _ => None,
    }
}

fn csv(cells: &[&str]) -> Option<Format> {
    match *cells {
        ["version", "time", "op", "size", "lbn"] => Some(Format::CloudPhysics),
        [stamp, _, disk, kind, offset, size, response]
            if [disk, offset, size].into_iter().all(is_whole)
                && is_decimal(stamp)
                && is_decimal(response)
                && is_direction(kind) =>
        {
            Some(Format::Msr)
        }
        [asu, lba, size, kind, stamp, ..]
            if [asu, lba, size].into_iter().all(is_whole) && is_direction(kind) && is_decimal(stamp) =>
        {
            Some(Format::Spc)
        }
        [device, kind, offset, length, stamp]
            if [device, offset, length, stamp].into_iter().all(is_whole) && is_direction(kind) =>
        {
            Some(Format::Alibaba)
        }
        ["1" | "2", time, op, size, lbn]
            if [time, size, lbn].into_iter().all(is_whole) && op.len() <= 4 && is_hex(op) =>
        {
            Some(Format::CloudPhysics)
        }
        [stamp, offset, size, "0" | "1", volume]
            if [stamp, offset, size, volume].into_iter().all(is_whole) =>
        {
            Some(Format::Tencent)
        }
        _ => None,
    }
}

fn is_whole(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_decimal(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    is_whole(whole) && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hex(text: &str) -> bool {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_direction(text: &str) -> bool {
    ["r", "w", "read", "write"].iter().any(|word| text.eq_ignore_ascii_case(word))
}
