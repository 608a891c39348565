//! Output files: checks before a long run, and compression.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use traces::write::{Compressed, not_written};

use crate::error::Error;
use crate::interrupt;
use evaluation::report::page::GENERATOR;
use study::unfinished::create;

/// Rejects a block device as an output file, because the output would overwrite it, and a socket, which cannot be opened.
pub(crate) fn reject_device(path: &Path) -> Result<(), Error> {
    match path.metadata() {
        Ok(found) if found.file_type().is_block_device() => Err(Error::Usage(format!(
            "{}: is a block device, which the output would overwrite; name a file",
            path.display()
        ))),
        Ok(found) if found.file_type().is_socket() => {
            Err(Error::Usage(format!("{}: is a socket; name a file", path.display())))
        }
        _ => Ok(()),
    }
}

/// Checks before a long run that the file can be written. Does not change the file.
pub(crate) fn check_writable(path: &Path) -> Result<(), Error> {
    reject_device(path)?;
    let found = path.metadata().ok();
    // Opening and closing a pipe would signal the end of data to its reader.
    if found.as_ref().is_some_and(|found| !found.is_file() && !found.is_dir()) {
        return Ok(());
    }
    let tried = OpenOptions::new().append(true).create(true).open(path);
    tried.map_err(|error| Error::written(path.display(), &error))?;
    if found.is_none() {
        // This check created the file.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Rejects a file that exists, unless `--overwrite` is given: a measurement cannot be repeated. Pipes and `/dev/null` may be named; so may an
/// empty file (`mktemp`).
pub(crate) fn is_free(path: &Path, overwrite: bool) -> Result<(), Error> {
    match path.metadata() {
        Ok(found) if found.is_file() && found.len() > 0 && !overwrite => Err(Error::Usage(format!(
            "{}: exists; name another file, or replace it with --overwrite",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// What Dwell generates and can generate again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Generated {
    /// An HTML report.
    Report,
    /// A report of a study: HTML, or Markdown if the extension is `md`.
    StudyReport,
    /// A decision log.
    Log,
}

impl Generated {
    fn is_in(self, head: &[u8]) -> bool {
        let head = String::from_utf8_lossy(head);
        match self {
            Self::Report | Self::StudyReport => head.contains(GENERATOR),
            Self::Log => head.lines().take(2).any(|line| {
                let is_event = |word| EVENTS.contains(&word);
                line.starts_with("{\"scheduler\":")
                    || line.contains("\"what\":")
                    || line.split_whitespace().any(is_event)
            }),
        }
    }

    /// Rejects an extension of another format: a browser or a PDF viewer would not open the file. A pipe, a device and an empty file (`mktemp`) may
    /// have any name.
    fn check_extension(self, path: &Path) -> Result<(), Error> {
        let expected = match self {
            Self::Report => "a report is HTML; use the extension .html",
            Self::StudyReport => "a report is HTML or Markdown; use the extension .html or .md",
            Self::Log => return Ok(()),
        };
        let is_named = path.metadata().is_ok_and(|found| !found.is_file() || found.len() == 0);
        let is_known = |found: &OsStr| {
            let extensions: &[&str] =
                if self == Self::StudyReport { &["html", "htm", "md"] } else { &["html", "htm"] };
            extensions.iter().any(|of| found.eq_ignore_ascii_case(of))
        };
        match path.extension() {
            Some(found) if !is_named && !is_known(found) => {
                Err(Error::Usage(format!("{}: {expected}", path.display())))
            }
            _ => Ok(()),
        }
    }
}

/// The events of a decision log in text.
const EVENTS: [&str; 5] = ["insert", "merge", "dispatch", "hold", "complete"];

/// Checks before a long run that a generated file can be written: it replaces only a file of its own kind. Pipes, `/dev/null` and empty files may
/// be named.
pub(crate) fn check_generated(path: &Path, what: Generated) -> Result<(), Error> {
    what.check_extension(path)?;
    check_writable(path)?;
    if !path.metadata().is_ok_and(|found| found.is_file() && found.len() > 0) {
        return Ok(());
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(1024).read_to_end(&mut head));
    // A file that can be written but not read is not known to be replaceable.
    if read.is_ok() && what.is_in(&head) {
        return Ok(());
    }
    let kind = match what {
        Generated::Report | Generated::StudyReport => "report",
        Generated::Log => "decision log",
    };
    Err(Error::Usage(format!(
        "{}: exists and is no {kind} of dwell; name another file, or remove it",
        path.display()
    )))
}

/// Whether both paths name one regular file, by its inode if it exists. `-` is standard input.
pub(crate) fn is_same(input: &Path, output: &Path) -> bool {
    let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
    match (input.metadata(), output.metadata()) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        (Err(_), Err(_)) => {
            let place = |path: &Path| {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
                Some(folder.join(path.file_name()?))
            };
            place(input).is_some_and(|input| Some(input) == place(output))
        }
        _ => false,
    }
}

/// Rejects an output file, given by its option, that is an input file or another output file.
pub(crate) fn check_distinct(outputs: &[(&str, &Path)], inputs: &[&Path]) -> Result<(), Error> {
    for (index, (option, path)) in outputs.iter().enumerate() {
        let shown = path.display();
        if inputs.iter().any(|input| is_same(input, path)) {
            return Err(Error::Usage(format!(
                "{option} {shown}: the file is an input of this command and would be overwritten; name another file"
            )));
        }
        if let Some((other, _)) = outputs[..index].iter().find(|(_, other)| is_same(other, path)) {
            return Err(Error::Usage(format!(
                "{other} and {option} name the same file, {shown}; name two files"
            )));
        }
    }
    Ok(())
}

/// An output file that compresses by its extension, or standard output. [Complete](Output::complete) it after it is finished.
pub(crate) fn sink(to: &Path) -> Result<Compressed<Output>, Error> {
    Ok(Compressed::new(&to.to_string_lossy(), created(to)?))
}

/// The same for a measurement that cannot be repeated: after a failure the file has what was written until then, unless that is nothing.
pub(crate) fn sink_in_place(to: &Path) -> Result<Compressed<Output>, Error> {
    Ok(Compressed::new(&to.to_string_lossy(), Output::open(to, true)?))
}

/// A new or replaced output file, or standard output.
pub(crate) fn created(to: &Path) -> Result<Output, Error> {
    Output::open(to, false)
}

/// Writes a whole file, or standard output.
pub(crate) fn write(to: &Path, content: &[u8]) -> Result<(), Error> {
    write_into(to, created(to)?, content)
}

/// The same; of a file with the system's details, which only its owner may read.
pub(crate) fn write_private(to: &Path, content: &[u8]) -> Result<(), Error> {
    let out = created(to)?;
    if let Some(Unfinished::Named(path, _) | Unfinished::InPlace(path)) = &out.unfinished {
        let owners = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, owners).map_err(|error| Error::written(to.display(), &error))?;
    }
    write_into(to, out, content)
}

fn write_into(to: &Path, mut out: Output, content: &[u8]) -> Result<(), Error> {
    let written = out.write_all(content).and_then(|()| out.complete());
    written.map_err(|error| match to == Path::new("-") {
        true => Error::from(error),
        false => Error::written(to.display(), &error),
    })
}

/// An output file under a temporary name beside its own until it is complete, so that a full disk leaves no empty or partial file. Standard output,
/// pipes and files in a directory that is not writable are written directly.
pub(crate) struct Output {
    writer: Box<dyn Write>,
    unfinished: Option<Unfinished>,
}

/// A file that is removed unless it is completed.
enum Unfinished {
    /// The temporary name, and the final one.
    Named(PathBuf, PathBuf),
    /// Written under its own name; kept if it has any content.
    InPlace(PathBuf),
}

impl Output {
    fn open(to: &Path, in_place: bool) -> Result<Self, Error> {
        reject_device(to)?;
        if to == Path::new("-") {
            return Ok(Self { writer: Box::new(std::io::stdout().lock()), unfinished: None });
        }
        let _reader = await_reader(to)?;
        let failed = |error: std::io::Error| Error::written(to.display(), &error);
        let found = to.metadata();
        // Links in /dev and /proc lead to an open file of this process, which a new one would not replace.
        let is_open = ["/dev", "/proc"].iter().any(|folder| to.starts_with(folder));
        if is_open || found.as_ref().is_ok_and(|found| !found.is_file()) {
            let file = File::create(to).map_err(failed)?;
            return Ok(Self { writer: Box::new(file), unfinished: None });
        }
        // A symbolic link stays, and its target is replaced.
        let path = to.canonicalize().unwrap_or_else(|_| to.to_owned());
        if !in_place {
            match create(&path) {
                Ok((file, temporary)) => {
                    // Of a replaced file; without permission to set them, those of a new file.
                    if let Ok(found) = found {
                        let _ = file.set_permissions(found.permissions());
                    }
                    let unfinished = Some(Unfinished::Named(temporary, path));
                    return Ok(Self { writer: Box::new(file), unfinished });
                }
                // The file itself may be writable.
                Err(_) if found.is_ok() => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let file = File::create(&path).map_err(failed)?;
        Ok(Self { writer: Box::new(file), unfinished: Some(Unfinished::InPlace(path)) })
    }

    /// Gives the file its name.
    pub(crate) fn complete(mut self) -> std::io::Result<()> {
        self.writer.flush()?;
        if let Some(Unfinished::Named(temporary, path)) = &self.unfinished {
            std::fs::rename(temporary, path)?;
        }
        self.unfinished = None;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = match self.unfinished.take() {
            Some(Unfinished::Named(temporary, _)) => std::fs::remove_file(temporary),
            Some(Unfinished::InPlace(path)) if path.metadata().is_ok_and(|found| found.len() == 0) => {
                std::fs::remove_file(path)
            }
            _ => Ok(()),
        };
    }
}

/// Waits until a named pipe has a reader, or until Ctrl-C. Opening the pipe directly would block and ignore Ctrl-C.
fn await_reader(to: &Path) -> Result<Option<OwnedFd>, Error> {
    if !to.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
        return Ok(None);
    }
    loop {
        match rustix::fs::open(to, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()) {
            Ok(pipe) => return Ok(Some(pipe)),
            Err(Errno::NXIO) if interrupt::requested() => return Err(Error::Interrupted),
            Err(Errno::NXIO) => std::thread::sleep(Duration::from_millis(50)),
            Err(error) => return Err(Error::written(to.display(), &error.into())),
        }
    }
}

/// Rejects an extension of a compression that Dwell does not write.
pub(crate) fn check_compression(to: &Path) -> Result<(), Error> {
    let to = to.to_string_lossy();
    not_written(&to).map_or(Ok(()), |extension| {
        let problem = format!("'{to}': Dwell does not write .{extension}; use .gz, .zst or no compression");
        Err(Error::Usage(problem))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_to_a_block_device_is_rejected() {
        let nodes = std::fs::read_dir("/dev").unwrap().flatten().map(|entry| entry.path());
        let is_device =
            |path: &PathBuf| path.metadata().is_ok_and(|found| found.file_type().is_block_device());
        let Some(device) = nodes.into_iter().find(is_device) else {
            return eprintln!("SKIPPED: there is no block device in /dev");
        };
        let refused = |result| matches!(result, Err(Error::Usage(_)));
        assert!(refused(reject_device(&device)) && refused(check_writable(&device)));
        assert!(reject_device(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn the_write_check_does_not_change_the_file() {
        let path = std::env::temp_dir().join(format!("dwell-written-{}", std::process::id()));
        assert!(check_writable(&path).is_ok() && !path.exists());
        std::fs::write(&path, "kept").unwrap();
        assert!(check_writable(&path).is_ok());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
        assert!(matches!(check_writable(&path.join("below")), Err(Error::Failed(_))));
        std::fs::remove_file(path).unwrap();
        assert!(matches!(check_writable(&std::env::temp_dir()), Err(Error::Failed(_))));
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Regression: on a full disk an empty file stayed under the final name, and the next attempt needed --overwrite.
    #[test]
    fn a_file_that_is_not_completed_leaves_the_former_one_or_none() {
        let folder = std::env::temp_dir().join(format!("dwell-completed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("report.html");
        let abandon = |in_place| drop(Output::open(&path, in_place).unwrap());
        abandon(false);
        abandon(true);
        assert!(names(&folder).is_empty(), "{:?}", names(&folder));
        write(&path, b"first").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        created(&path).unwrap().write_all(b"second").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"first", "not completed");
        // What a recording has until the disk is full is kept.
        let recording = folder.join("io.trace");
        Output::open(&recording, true).unwrap().write_all(b"half").unwrap();
        assert_eq!(std::fs::read(&recording).unwrap(), b"half");
        std::os::unix::fs::symlink("report.html", folder.join("link")).unwrap();
        write(&folder.join("link"), b"third").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"third");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
        // Regression: other users could read the bundle of `doctor`.
        write_private(&path, b"fourth").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(names(&folder), ["io.trace", "link", "report.html"]);
        assert!(folder.join("link").symlink_metadata().unwrap().is_symlink());
        assert!(matches!(write(&folder.join("none/below"), b"text"), Err(Error::Failed(_))));
        write(Path::new("/dev/null"), b"text").unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_overwrite_replaces_a_measurement() {
        let path = std::env::temp_dir().join(format!("dwell-free-{}", std::process::id()));
        assert!(is_free(&path, false).is_ok());
        std::fs::write(&path, "").unwrap();
        assert!(is_free(&path, false).is_ok(), "an empty file has no measurement");
        std::fs::write(&path, "# dwell recording 1\n").unwrap();
        let refused = is_free(&path, false);
        let replaced = is_free(&path, true);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(refused, Err(Error::Usage(text)) if text.contains("--overwrite")));
        assert!(replaced.is_ok() && is_free(Path::new("/dev/null"), false).is_ok());
    }

    #[test]
    fn a_generated_file_replaces_only_its_own_kind() {
        let path = std::env::temp_dir().join(format!("dwell-generated-{}", std::process::id()));
        let report = evaluation::report::page::Page::new("a report").end("");
        let text = "# noop\n      0.000000 insert   #1 R 0+8 by 1\n";
        let json = "{\"scheduler\":\"noop\",\"at_ns\":0,\"what\":{}}\n";
        let can = |content: &str, what| {
            std::fs::write(&path, content).unwrap();
            check_generated(&path, what).is_ok()
        };
        for what in [Generated::Report, Generated::Log] {
            assert!(can("", what) && !can("kept", what) && !can("<!doctype html><title>mine</title>", what));
        }
        assert!(can(&report, Generated::Report) && !can(&report, Generated::Log));
        assert!(can(text, Generated::Log) && can(json, Generated::Log) && !can(text, Generated::Report));
        std::fs::remove_file(&path).unwrap();
        assert!(check_generated(&path, Generated::Report).is_ok());
        assert!(check_generated(Path::new("/dev/null"), Generated::Log).is_ok());
    }

    #[test]
    fn the_extension_of_a_report_is_that_of_its_format() {
        let folder = std::env::temp_dir().join(format!("dwell-extension-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let is_accepted = |name: &str, what| match check_generated(&folder.join(name), what) {
            Err(Error::Usage(problem)) => {
                assert!(problem.contains(": a report is HTML"), "{problem}");
                false
            }
            other => other.is_ok(),
        };
        for name in ["a.html", "a.htm", "a.HTML", "report"] {
            assert!(is_accepted(name, Generated::Report), "{name}");
        }
        for name in ["a.pdf", "a.md", "a.html.gz", "a.2"] {
            assert!(!is_accepted(name, Generated::Report) && is_accepted(name, Generated::Log), "{name}");
        }
        assert!(is_accepted("a.md", Generated::StudyReport) && is_accepted("a.MD", Generated::StudyReport));
        assert!(!is_accepted("a.pdf", Generated::StudyReport));
        // `mktemp`
        std::fs::write(folder.join("tmp.Xa3f"), "").unwrap();
        assert!(is_accepted("tmp.Xa3f", Generated::Report));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_output_that_is_an_input_or_another_output_is_rejected() {
        let folder = std::env::temp_dir().join(format!("dwell-apart-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("below")).unwrap();
        let path = |name: &str| folder.join(name);
        std::fs::write(path("input"), "kept").unwrap();
        std::fs::hard_link(path("input"), path("link")).unwrap();
        std::os::unix::fs::symlink(path("input"), path("symlink")).unwrap();
        let refused = |outputs: &[(&str, &Path)]| check_distinct(outputs, &[&path("input")]).is_err();
        for same in ["input", "link", "symlink", "below/../input"] {
            assert!(refused(&[("--report", &path(same))]), "{same}");
        }
        assert!(refused(&[("--report", &path("new")), ("--explain", &path("below/../new"))]));
        assert!(!refused(&[("--report", &path("new")), ("--explain", &path("below/new"))]));
        let null = Path::new("/dev/null");
        assert!(!refused(&[("--report", null), ("--explain", null)]));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
