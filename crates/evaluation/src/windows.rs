//! Windows of a recording, and the clusters that the paper's algorithm (IOAnalyzer) forms from them.

use elevator::Span;
use traces::Record;
use tuner::{Access, CInfo, Parameters, Random, Store, Window, Windows};

/// Cuts a recording into windows of equal length. Windows with at most one request per second are left out, as the tuner ignores them.
pub struct Cutter(Windows);

impl Cutter {
    /// Windows of this length.
    pub fn of(length: Span) -> Self {
        Self(Windows::of(length))
    }

    /// Adds a record; returns the window that ended before it, if one did.
    pub fn push(&mut self, record: &Record) -> Option<Window> {
        let (position, size) = (record.start(), record.sectors());
        let access = Access { time: record.at, position, op: record.op, size };
        self.0.push(access).filter(Window::counts)
    }

    /// The last window.
    pub fn finish(self) -> Option<Window> {
        self.0.finish().filter(Window::counts)
    }
}

/// The paper's clusters, and how many windows hit one.
pub struct Clusters {
    parameters: Parameters,
    random: Random,
    store: Store,
    windows: u64,
    hits: u64,
}

impl Clusters {
    /// No clusters yet.
    pub fn new(parameters: Parameters) -> Self {
        let (random, store) = (Random::new(1), Store::new(parameters, 1));
        Self { parameters, random, store, windows: 0, hits: 0 }
    }

    /// Adds a window: a hit of the nearest cluster, or a cluster of its own.
    pub fn window(&mut self, window: &Window) {
        let cinfo = CInfo::of(window, &self.parameters, &mut self.random);
        self.windows += 1;
        match self.store.nearest(&cinfo).filter(|nearest| self.store.is_hit(nearest)) {
            Some(found) => {
                self.store.hit(found.cluster);
                self.hits += 1;
            }
            None => drop(self.store.add(cinfo)),
        }
    }

    /// Number of clusters.
    pub fn count(&self) -> usize {
        self.store.clusters().len()
    }

    /// Number of windows added.
    pub const fn windows(&self) -> u64 {
        self.windows
    }

    /// Share of the windows that hit a cluster, from 0 to 1.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.windows.max(1) as f64
    }
}
