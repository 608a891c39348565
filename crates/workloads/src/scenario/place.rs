//! Positions of failures in the script: a run reports a process or a path, an error message needs the line.

use machine::Failure;
use machine::kernel::BootError;
use machine::kernel::fs::ImageError;

use super::Scenario;
use super::script::OnDisk;
use crate::programs::os::Session;

/// A script's name and text.
#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    pub(super) file: String,
    pub(super) text: String,
}

impl Source {
    /// The line, from 1, of a byte offset.
    pub(super) fn line(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1
    }

    fn message(&self, at: Option<usize>, what: &str) -> String {
        match at {
            Some(at) if !self.text.is_empty() => format!("{}:{}: {what}", self.file, self.line(at)),
            _ => what.to_owned(),
        }
    }
}

impl Scenario {
    /// Explains why a run ended early, with the line of the process's step.
    pub fn explain(&self, session: &Session, failure: &Failure) -> String {
        let step = |process: &String| session.step_of(process);
        let (at, failure) = match failure {
            Failure::Deadlock { waiting } => {
                let placed = |process| match step(process).filter(|_| !self.source.text.is_empty()) {
                    Some(at) => format!("{process} (line {})", self.source.line(at)),
                    None => process.clone(),
                };
                let waiting: Vec<String> = waiting.iter().map(placed).collect();
                (None, Failure::Deadlock { waiting })
            }
            Failure::NoKernel { process, .. } | Failure::Call { process, .. } => {
                (step(process), failure.clone())
            }
            Failure::NoHooks | Failure::EndOfTime | Failure::Scheduler(_) => (None, failure.clone()),
        };
        self.source.message(at, &failure.to_string())
    }

    /// Explains why the machine cannot boot, with the line of the cause.
    pub fn explain_boot(&self, error: &BootError) -> String {
        let at = match error {
            BootError::Image(ImageError::Refused { path, .. }) => self.item_of(path),
            BootError::Image(ImageError::Outside { offset, .. }) => self.item_at(*offset),
            BootError::Description { field, .. } if field.starts_with("memory.") => {
                self.script.change.memory.as_ref().map(|memory| memory.span().start)
            }
            BootError::Description { field: "file-system.partition", .. } => {
                self.script.change.partition.as_ref().map(|partition| partition.span().start)
            }
            BootError::FileSystem { .. } => {
                self.script.change.layout.as_ref().map(|layout| layout.span().start)
            }
            _ => None,
        };
        self.source.message(at, &error.to_string())
    }

    fn item_of(&self, path: &str) -> Option<usize> {
        let is = |item: &OnDisk| {
            let name = [&item.file, &item.directory, &item.tree, &item.files].into_iter().flatten().next();
            name.is_some_and(|name| {
                (1..=item.copies).any(|copy| {
                    let rest = path.strip_prefix(name.numbered(copy).as_str());
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                })
            })
        };
        self.script.on_disk.iter().find(|item| is(item.get_ref())).map(|item| item.span().start)
    }

    fn item_at(&self, offset: u64) -> Option<usize> {
        let is = |item: &OnDisk| {
            let at = |copy: u32, at: u64| at.saturating_add(u64::from(copy - 1).saturating_mul(item.apart.0));
            item.at.is_some_and(|from| (1..=item.copies).any(|copy| at(copy, from.0) == offset))
        };
        self.script.on_disk.iter().find(|item| is(item.get_ref())).map(|item| item.span().start)
    }
}
