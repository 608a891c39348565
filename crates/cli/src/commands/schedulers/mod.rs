//! `dwell schedulers`.

mod kernel;

use clap::Args;
use std::io::Write;

use schedulers::registry::Catalogue;
use schedulers::{Listing, Spec};
use serde_json::json;

use crate::error::Error;
use crate::report::{fitted, table_of_texts, text_width, wide_table_of_texts};
use evaluation::report::format::object;

/// Options of `dwell schedulers`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  dwell schedulers
  dwell schedulers 'stream(deadline)'
  dwell schedulers --kernel dwell-stream")]
pub(crate) struct SchedulersArguments {
    /// Print this scheduler with its tunables; for stream(deadline), the tunables of both
    pub(crate) name: Option<String>,
    /// List the elevators of the kernel module instead
    #[arg(long)]
    pub(crate) kernel: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Print each scheduler of the list on one line, however wide the table becomes
    #[arg(long, conflicts_with_all = ["json", "name"])]
    pub(crate) wide: bool,
}

pub(crate) fn run(arguments: &SchedulersArguments, catalogue: Catalogue) -> Result<(), Error> {
    if arguments.kernel {
        return kernel::run(arguments.name.as_deref(), arguments.json, arguments.wide);
    }
    let specs: Vec<Spec> = match &arguments.name {
        None => catalogue.all().map(Spec::of).collect(),
        Some(name) => find(catalogue, name)?,
    };
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let all: Vec<_> = specs.iter().map(described).collect();
        writeln!(out, "{}", object(&json!({"schedulers": all}))?)?;
    } else if arguments.name.is_some() {
        let pages: Vec<String> = specs.iter().map(page).collect();
        writeln!(out, "{}", fitted(&pages.join("\n\n"), Some(text_width())))?;
    } else {
        writeln!(out, "{}", table(specs.iter().map(Spec::listing), arguments.wide))?;
    }
    Ok(())
}

/// The schedulers that `name` contains: two for `stream(deadline)`.
fn find(catalogue: Catalogue, name: &str) -> Result<Vec<Spec>, Error> {
    let spec = Spec::parse_in(catalogue, name).map_err(|error| Error::Usage(error.to_string()))?;
    // Without parentheses, the policy that a wrapper wraps by default is not listed.
    let layers = if name.contains('(') { usize::MAX } else { 1 };
    Ok(std::iter::successors(Some(&spec), |spec| spec.inside()).take(layers).cloned().collect())
}

fn table(listings: impl Iterator<Item = &'static Listing>, is_wide: bool) -> String {
    let heads = ["scheduler", "description"];
    let mut table = if is_wide { wide_table_of_texts(&heads) } else { table_of_texts(&heads) };
    for listing in listings {
        let name = listing.full_name();
        let wraps = if listing.is_wrapper() { "(...)" } else { "" };
        let also = if listing.plain && name != listing.name {
            format!("\nalso: {}", listing.name)
        } else {
            String::new()
        };
        let needs = needs(listing).map(|needs| format!("\nneeds {needs}")).unwrap_or_default();
        table.add_row([format!("{name}{wraps}{also}"), format!("{}{needs}", listing.about)]);
    }
    table.to_string()
}

/// The host that a scheduler needs, if a disk does not suffice.
fn needs(listing: &Listing) -> Option<&'static str> {
    match () {
        () if listing.needs_array() => Some("an array"),
        () if listing.split => Some("'dwell run', or 'dwell serve --attach --causes'"),
        () => None,
    }
}

/// One scheduler with its tunables and their values.
fn page(spec: &Spec) -> String {
    let listing = spec.listing();
    let mut text = format!("{}: {}\nsource: {}\n", listing.full_name(), listing.about, listing.source);
    for tunable in listing.tunables {
        let value = spec.value(tunable);
        let default =
            if value == tunable.default { String::new() } else { format!("default {}, ", tunable.default) };
        text += &format!(
            "\n  {} = {value}  ({default}from {} to {})\n     {}\n",
            tunable.name,
            tunable.min,
            tunable.max,
            tunable.doc.trim()
        );
    }
    text.trim_end().to_owned()
}

fn described(spec: &Spec) -> serde_json::Value {
    let listing = spec.listing();
    let tunables: Vec<_> = listing
        .tunables
        .iter()
        .map(|t| json!({"name": t.name, "value": spec.value(t).to_string(), "default": t.default.to_string(), "min": t.min.to_string(), "max": t.max.to_string(), "doc": t.doc.trim()}))
        .collect();
    json!({
        "name": listing.full_name(), "plain": listing.plain.then_some(listing.name), "about": listing.about,
        "source": listing.source, "wraps": listing.is_wrapper(), "needs": needs(listing), "tunables": tunables,
    })
}
