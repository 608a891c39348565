//! Schedulers as the command line names them: `stream(deadline){stream_time_slice=50ms}`, or a page of TOML that says the same.

use schedulers::Spec;
use schedulers::registry::Catalogue;
use toml::de::{DeTable, DeValue};

use crate::error::Error;
use crate::text_file;

/// The scheduler that `text` names.
pub(crate) fn spec(catalogue: Catalogue, text: &str) -> Result<Spec, Error> {
    if is_page(text) {
        let page = text_file::read(text, "scheduler's page")?;
        return scheduler_page(catalogue, text, &page);
    }
    Spec::parse_in(catalogue, text).map_err(|error| Error::Usage(error.to_string()))
}

/// Rejects a scheduler with a part above the block layer.
pub(crate) fn without_split_hooks(spec: Spec) -> Result<Spec, Error> {
    let hint = "the modelled machine of 'dwell run' has them";
    spec.at_the_block().map_err(|error| Error::Usage(format!("{}; {hint}", error.kind)))
}

/// The scheduler that `text` names, for one device: what needs an array or a machine around it is refused.
pub(crate) fn of_one_device(catalogue: Catalogue, text: &str) -> Result<Spec, Error> {
    let spec = without_split_hooks(spec(catalogue, text)?)?;
    if spec.listing().needs_array() {
        return Err(Error::Usage(format!(
            "{spec} directs the members of an array, and this is one device; use stream(...)"
        )));
    }
    Ok(spec)
}

/// The scheduler of a page of TOML: `scheduler = "stream(deadline)"`, and tunables of it or of what it wraps, a line each.
/// `file` is what the page is called where something is wrong with it.
///
/// # Errors
/// [`Error::Input`] with the line.
pub fn scheduler_page(catalogue: Catalogue, file: &str, page: &str) -> Result<Spec, Error> {
    let line = |at: usize| 1 + page.bytes().take(at).filter(|&byte| byte == b'\n').count();
    let wrong = |at: usize, problem: &str| Error::Input(format!("{file}:{}: {problem}", line(at)));
    let table = DeTable::parse(page)
        .map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message()))?;
    let table = table.get_ref();
    let needed = "a line such as scheduler = \"stream(deadline)\" is needed";
    let name = table.get("scheduler").ok_or_else(|| wrong(0, needed))?;
    let DeValue::String(named) = name.get_ref() else { return Err(wrong(name.span().start, needed)) };
    let mut spec =
        Spec::parse_in(catalogue, named).map_err(|error| wrong(name.span().start, &error.to_string()))?;
    for (key, value) in table.iter().filter(|(key, _)| key.get_ref() != "scheduler") {
        let text = match value.get_ref() {
            DeValue::String(text) => text.as_ref(),
            _ => &page[value.span()],
        };
        let set = spec.with_tunable(key.get_ref(), text);
        spec = set.map_err(|error| wrong(key.span().start, &error.kind.to_string()))?;
    }
    Ok(spec)
}

/// What a server that runs elsewhere is told instead of a page's name: the full name with its settings.
pub(crate) fn full_name(catalogue: Catalogue, text: &str) -> Result<String, Error> {
    if is_page(text) { spec(catalogue, text).map(|spec| spec.to_string()) } else { Ok(text.to_owned()) }
}

fn is_page(text: &str) -> bool {
    text.ends_with(".toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(page: &str) -> Result<String, String> {
        let spec = scheduler_page(Catalogue::default(), "s.toml", page);
        spec.map(|spec| spec.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_page_says_what_braces_say() {
        let page = "# slow\nscheduler = \"stream(deadline)\"\nstream_time_slice = \"50ms\"\nfifo_batch = 8\n\
                    wait_after_writes = true\n";
        let full = "stream(deadline-2.6.32{fifo_batch=8}){stream_time_slice=50ms, wait_after_writes=on}";
        assert_eq!(read(page).unwrap(), full);
        assert_eq!(Spec::parse(full).unwrap().to_string(), full);
    }

    #[test]
    fn what_is_wrong_with_a_page_is_told_with_its_line() {
        for (page, said) in [
            ("", "s.toml:1: a line such as"),
            ("scheduler = 3\n", "s.toml:1: a line such as"),
            (
                "\nscheduler = \"dedline\"\n",
                "s.toml:2: no scheduler is called 'dedline'; did you mean 'deadline'?",
            ),
            (
                "scheduler = \"deadline\"\nfifo_bach = 8\n",
                "s.toml:2: 'deadline-2.6.32' has no tunable 'fifo_bach'",
            ),
            (
                "scheduler = \"deadline\"\n\nread_expire = 8\n",
                "s.toml:3: 'read_expire': expected a length of time",
            ),
            ("scheduler = \"deadline\"\nx =\n", "s.toml:2: "),
        ] {
            let error = read(page).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn fuzzing_begins_with_what_is_understood() {
        let seed = include_str!("../../../fuzz/seeds/scheduler_page/slow.toml");
        assert_eq!(read(seed).unwrap(), "stream(deadline-2.6.32{fifo_batch=8}){stream_time_slice=50ms}");
    }
}
