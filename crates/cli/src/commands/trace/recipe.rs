//! `dwell trace recipe`: scripts that record a device with other tools, for machines on which `dwell` is not installed.

use std::io::Write;

use elevator::text::did_you_mean;

use crate::error::Error;

/// Name, requirement, and script.
const RECIPES: [(&str, &str, &str); 3] = [
    ("ftrace", "the kernel's tracer; nothing to install", include_str!("recipes/ftrace.sh")),
    ("blktrace", "the package blktrace", include_str!("recipes/blktrace.sh")),
    ("bpftrace", "the package bpftrace", include_str!("recipes/bpftrace.sh")),
];

/// The names of the recipes.
pub(crate) const NAMES: [&str; 3] = [RECIPES[0].0, RECIPES[1].0, RECIPES[2].0];

/// Prints a script, or the list of them.
pub(super) fn run(name: Option<&str>) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    let Some(name) = name else {
        for (name, needs, _) in RECIPES {
            writeln!(out, "{name:<10} {needs}")?;
        }
        return Ok(writeln!(out, "\n'dwell trace recipe NAME' prints a shell script.")?);
    };
    let names = RECIPES.iter().map(|(name, _, _)| *name);
    let Some((_, _, script)) = RECIPES.iter().find(|(known, _, _)| *known == name) else {
        let hint = did_you_mean(name, names.clone());
        let known = names.collect::<Vec<_>>().join(", ");
        return Err(Error::Usage(format!("'{name}' is not a recipe; recipes are {known}{hint}")));
    };
    Ok(write!(out, "{script}")?)
}
