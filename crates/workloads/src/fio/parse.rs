//! The lines of a job file: sections, options, comments.

/// A job file is malformed or has unsupported options.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct JobFileError {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The option and the problem.
    pub problem: String,
}

impl JobFileError {
    /// Combines errors into one with a line for each, so that one run reports all of them. Those of global options come once.
    pub(super) fn together(problems: Vec<Self>) -> Option<Self> {
        let mut each: Vec<Self> = Vec::new();
        for problem in problems {
            if !each.contains(&problem) {
                each.push(problem);
            }
        }
        each.sort_by_key(|problem| problem.line);
        each.into_iter().reduce(|mut all, other| {
            all.problem.push_str(&format!("\n{other}"));
            all
        })
    }
}

/// An option: `name` or `name=value`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) value: Option<String>,
    pub(super) line: usize,
}

/// A section: `[global]` or a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) settings: Vec<Setting>,
}

/// A line without its comment. As in fio, a comment may follow an option.
fn content(line: &str) -> &str {
    line.find([';', '#']).map_or(line, |comment| &line[..comment]).trim()
}

/// Whether the first line with content is a `[section]`.
pub(super) fn begins_with_section(head: &[u8]) -> bool {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let mut lines = head.split(|&byte| byte == b'\n').map(std::str::from_utf8);
    let first = lines.find(|line| !line.is_ok_and(|line| content(line).is_empty()));
    let section = |line| content(line).strip_prefix('[')?.strip_suffix(']');
    // TOML doubles the brackets of tables.
    matches!(first, Some(Ok(line)) if section(line).is_some_and(|name| !name.starts_with('[')))
}

pub(super) fn sections(file: &str, text: &str) -> Result<Vec<Section>, JobFileError> {
    let mut sections: Vec<Section> = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let content = content(raw);
        let error = |problem: &str| JobFileError { file: file.to_owned(), line, problem: problem.to_owned() };
        if content.is_empty() {
            continue;
        }
        if let Some(rest) = content.strip_prefix('[') {
            let name =
                rest.strip_suffix(']').ok_or_else(|| error("a section's name must end with ']'"))?.trim();
            if name.is_empty() {
                return Err(error("a section needs a name"));
            }
            sections.push(Section { name: name.to_owned(), line, settings: Vec::new() });
            continue;
        }
        if let Some(of) = content.strip_prefix("include") {
            let of = of.trim();
            let problem =
                format!("option 'include {of}': job files are read alone; insert the text of {of} here");
            return Err(error(&problem));
        }
        let section = sections.last_mut().ok_or_else(|| error("an option precedes the first [section]"))?;
        section.settings.push(setting(content, line));
    }
    Ok(sections)
}

fn setting(content: &str, line: usize) -> Setting {
    match content.split_once('=') {
        Some((name, value)) => {
            Setting { name: name.trim().to_lowercase(), value: Some(value.trim().to_owned()), line }
        }
        None => Setting { name: content.to_lowercase(), value: None, line },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_files_begin_with_a_section() {
        for job in
            ["[a]\nrw=read\n", "; mine\r\n\r\n  [global] # all\r\ndirect=1", "\u{feff}[a]", "#\n[a b]\n\u{0}"]
        {
            assert!(begins_with_section(job.as_bytes()), "{job}");
        }
        let others: [&[u8]; 7] = [
            b"",
            b"# none\n",
            b"direct=1\n[a]",
            b"[[process]]",
            b"[a\n[b]",
            b"\xff\n[a]",
            b"x-1 [000] 1.5: y",
        ];
        for other in others {
            assert!(!begins_with_section(other), "{other:?}");
        }
    }

    #[test]
    fn sections_options_and_comments() {
        let sections = sections("f", "; c\n[global]\ndirect=1\n# c\n[a b]\nstonewall\n").unwrap();
        assert_eq!(sections.len(), 2);
        assert_eq!(sections[1].name, "a b");
        assert_eq!(sections[1].settings[0], Setting { name: "stonewall".into(), value: None, line: 6 });
        let behind = super::sections("f", "[a] ; c\nruntime=60  # a minute\n").unwrap();
        assert_eq!((behind[0].name.as_str(), behind[0].settings[0].value.as_deref()), ("a", Some("60")));
        let marked = super::sections("f", "\u{feff}[a]\r\nsize=4k\r\n").unwrap();
        assert_eq!((marked[0].name.as_str(), marked[0].settings[0].value.as_deref()), ("a", Some("4k")));
        assert_eq!(super::sections("f", "x=1").unwrap_err().line, 1);
        assert_eq!(super::sections("f", "\n[a").unwrap_err().line, 2);
    }
}
