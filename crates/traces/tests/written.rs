//! The table of the documentation has what each format holds.

use std::fmt::Write;
use std::path::Path;

use dwell_traces::Format;
use dwell_traces::write::Field;

const BEGIN: &str = "<!-- formats: DWELL_BLESS=1 cargo test -p dwell-traces --test written -->\n";
const END: &str = "<!-- end of formats -->";

#[test]
fn the_documentation_has_what_each_format_holds() {
    let mut table = "| format | times | does not hold |\n|---|---|---|\n".to_owned();
    let mut formats: Vec<_> =
        Format::ALL.iter().filter_map(|format| Some((format, format.holds()?))).collect();
    formats.sort_by_key(|(format, _)| format.name());
    for (format, holds) in formats {
        let lacks: Vec<_> = Field::ALL
            .iter()
            .filter(|field| !holds.fields.has(**field))
            .map(|field| field.as_str())
            .collect();
        let lacks = if lacks.is_empty() { "-".to_owned() } else { lacks.join(", ") };
        let times = match holds.resolution.as_nanos() {
            1 => "1 ns",
            100 => "100 ns",
            1_000 => "1 us",
            _ => "1 s",
        };
        writeln!(table, "| `{}` | {times} | {lacks} |", format.name()).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/traces.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let begin = text.find(BEGIN).unwrap() + BEGIN.len();
    let end = begin + text[begin..].find(END).unwrap();
    if std::env::var_os("DWELL_BLESS").is_some() {
        std::fs::write(&path, [&text[..begin], &table, &text[end..]].concat()).unwrap();
        return;
    }
    assert!(text[begin..end] == table, "docs/traces.md: run with DWELL_BLESS=1; the table is\n{table}");
}
