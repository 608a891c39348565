//! `dwell trace patterns`: the kinds of load and clusters that the tuner would recognise in a recording. It chooses no scheduler, because a
//! recording has results of one scheduler only.

use std::collections::BTreeMap;
use std::io::Write;

use comfy_table::Table;
use elevator::text::counted;
use elevator::{Span, Time};
use evaluation::windows::{Clusters, Cutter};
use serde_json::{Value, json};
use traces::Record;
use tuner::{Analyser, Metric, Observed, Parameters, Random, SchedulerId, State, Why, Window};

use super::kinds::{NAMED, access_classes};
use crate::error::Error;
use crate::report::table_of_texts;
use evaluation::report::format::{object, percent, time};

/// The kinds of load in a recording, the time at which each first occurs, and the clusters.
pub(crate) struct Recognised {
    length: Span,
    cutter: Cutter,
    analyser: Analyser,
    firsts: BTreeMap<usize, Time>,
    clusters: Clusters,
}

impl Recognised {
    /// For windows of that length.
    pub(crate) fn new(length: Span) -> Result<Self, Error> {
        let parameters = Parameters { t: length, ..Parameters::default() };
        let one = vec!["as recorded".to_owned()];
        let analyser = Analyser::new(one, Metric::Iops, parameters, Random::new(1));
        Ok(Self {
            length,
            cutter: Cutter::of(length),
            analyser: analyser.map_err(|why| Error::Usage(format!("--window: {why}")))?,
            firsts: BTreeMap::new(),
            clusters: Clusters::new(Parameters { t: length, ..Parameters::default() }),
        })
    }

    pub(crate) fn push(&mut self, record: &Record) {
        if let Some(window) = self.cutter.push(record) {
            self.window(&window);
        }
    }

    fn window(&mut self, window: &Window) {
        self.clusters.window(window);
        let observed = Observed { scheduler: Some(SchedulerId(0)), ..Observed::default() };
        if let Why::Kind(served) = self.analyser.window(window, &observed).why {
            self.firsts.entry(served.kind).or_insert(window.start);
        }
    }

    /// Prints the result for a recording of that name.
    pub(crate) fn print(mut self, name: &str, as_json: bool) -> Result<(), Error> {
        let last = std::mem::replace(&mut self.cutter, Cutter::of(self.length)).finish();
        last.iter().for_each(|window| self.window(window));
        let state = self.analyser.state();
        let mut out = std::io::stdout().lock();
        if as_json {
            return Ok(writeln!(out, "{}", object(&self.json(name, &state))?)?);
        }
        let windows = counted(self.clusters.windows(), "window");
        writeln!(
            out,
            "{name}: {windows} of {} with more than one request a second",
            time(self.length.as_nanos())
        )?;
        if self.clusters.windows() == 0 {
            return Ok(());
        }
        writeln!(out, "{}", self.kinds(&state))?;
        let clusters = counted(self.clusters.count() as u64, "cluster");
        let hits = percent(self.clusters.hit_ratio());
        Ok(writeln!(out, "IOAnalyzer: {clusters}; {hits} of the windows hit one")?)
    }

    fn kinds(&self, state: &State) -> Table {
        let mut table = table_of_texts(&["kind", "windows", "first after", "requests"]);
        for (kind, first, windows, classes) in self.loads(state) {
            let most = classes[..classes.len().min(NAMED)].join("\n");
            table.add_row([kind.to_string(), windows.to_string(), time(first.as_nanos()), most]);
        }
        table
    }

    /// Kinds by number: first occurrence, windows, classes of accesses.
    fn loads<'a>(&'a self, state: &'a State) -> impl Iterator<Item = (usize, Time, u64, Vec<String>)> + 'a {
        state.kinds.loads().filter_map(|kind| {
            let (shape, windows) = state.kinds.load(kind)?;
            Some((kind, *self.firsts.get(&kind)?, windows, access_classes(shape, usize::MAX)))
        })
    }

    fn json(&self, name: &str, state: &State) -> Value {
        let kind = |(kind, first, windows, classes): (usize, Time, u64, Vec<String>)| json!({"kind": kind, "windows": windows, "first_ns": first.as_nanos(), "asked": classes});
        json!({
            "file": name, "window_ns": self.length.as_nanos(), "windows": self.clusters.windows(),
            "kinds": self.loads(state).map(kind).collect::<Vec<_>>(),
            "clusters": {"count": self.clusters.count(), "hit_ratio": self.clusters.hit_ratio()},
        })
    }
}
