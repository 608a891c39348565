//! TEMPORARY
use crate::{arguments::Reading, error::Error};
use elevator::Sector;
use std::collections::BTreeMap;
use workloads::{Workload, builtin::Builtin};
pub(crate) struct Opened {
    pub(crate) workload: Box<dyn Workload>,
    pub(crate) said: Vec<String>,
    pub(crate) names: BTreeMap<u32, String>,
}
pub(crate) fn open(text: &str, _: &Reading, _: bool, _: Sector) -> Result<Opened, Error> {
    let (name, settings) = text.split_once('{').unwrap_or((text, ""));
    let settings = settings
        .trim_end_matches('}')
        .split(',')
        .filter(|s| !s.is_empty())
        .map(|s| {
            let (a, b) = s.split_once('=').unwrap();
            (a.trim().to_owned(), b.trim().to_owned())
        })
        .collect();
    let workload = Builtin::named(name).unwrap().build(&settings).map_err(|e| Error::Usage(e.to_string()))?;
    Ok(Opened { workload, said: vec![], names: BTreeMap::new() })
}
