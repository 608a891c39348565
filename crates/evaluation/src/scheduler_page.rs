//! A scheduler in a TOML file.

use schedulers::Spec;
use schedulers::registry::Catalogue;
use toml::de::{DeTable, DeValue};

use crate::error::Error;

/// The scheduler of a TOML file: `scheduler = "stream(deadline)"`, and one line for each tunable of it or of the wrapped policy.
/// `file` is the name in errors.
///
/// # Errors
/// [`Error::Input`] with the line.
pub fn scheduler_page(catalogue: Catalogue, file: &str, page: &str) -> Result<Spec, Error> {
    let line = |at: usize| 1 + page.bytes().take(at).filter(|&byte| byte == b'\n').count();
    let wrong = |at: usize, problem: &str| Error::Input(format!("{file}:{}: {problem}", line(at)));
    let table = DeTable::parse(page)
        .map_err(|error| wrong(error.span().map_or(0, |span| span.start), error.message()))?;
    let table = table.get_ref();
    let needed = "expected a line such as scheduler = \"stream(deadline)\"";
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(page: &str) -> Result<String, String> {
        let spec = scheduler_page(Catalogue::default(), "s.toml", page);
        spec.map(|spec| spec.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_toml_file_is_equivalent_to_braces() {
        let page = "# slow\nscheduler = \"stream(deadline)\"\nstream_time_slice = \"50ms\"\nfifo_batch = 8\n\
                    wait_after_writes = true\n";
        let full = "stream(deadline-2.6.32{fifo_batch=8}){stream_time_slice=50ms, wait_after_writes=on}";
        assert_eq!(read(page).unwrap(), full);
        assert_eq!(Spec::parse(full).unwrap().to_string(), full);
    }

    #[test]
    fn errors_in_a_toml_file_have_its_line() {
        for (page, expected) in [
            ("", "s.toml:1: expected a line such as"),
            ("scheduler = 3\n", "s.toml:1: expected a line such as"),
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
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn the_fuzzing_seed_is_valid() {
        let seed = include_str!("../../../fuzz/seeds/scheduler_page/slow.toml");
        assert_eq!(read(seed).unwrap(), "stream(deadline-2.6.32{fifo_batch=8}){stream_time_slice=50ms}");
    }
}
