//! Whether windows under different schedulers are of one load, so that their values can be compared.
//!
//! A load is known by the [`Shape`] of its requests. Requests of another kind in [`CHANGED`] windows in a row under one scheduler are another load.
//! If only one scheduler has such requests, they may be its effect.

use observation::Window;

use crate::kinds::{Shape, are_alike};

/// Windows in a row with requests of another kind after which the load counts as another one: one may have the requests of a single program.
const CHANGED: u32 = 2;
/// Accesses of a window from which on its requests have a kind.
const SOME: usize = 20;

/// What a window's requests are, by those before.
pub(crate) enum Found {
    Same,
    /// They cannot be compared, for this reason.
    Doubtful(&'static str),
    Another,
}

/// The requests so far.
#[derive(Debug)]
pub(crate) struct SameLoad {
    /// The requests of each scheduler's latest window.
    shapes: Vec<Option<Shape>>,
    /// The latest windows in a row with requests of another kind, and those that were not whole.
    changed: u32,
    parts: u32,
}

impl SameLoad {
    pub(crate) fn new(schedulers: usize) -> Self {
        Self { shapes: vec![None; schedulers], changed: 0, parts: 0 }
    }

    /// A window ended under `ran`. `is_whole`: the load neither began, ended nor changed in it.
    pub(crate) fn window(&mut self, ran: usize, window: &Window, is_whole: bool) -> Found {
        let shape = (window.accesses.len() >= SOME).then(|| Shape::of(window));
        let is_another = shape.as_ref().zip(self.shapes[ran].as_ref()).is_some_and(|(a, b)| !are_alike(a, b));
        if is_another {
            self.changed += 1;
            return match self.changed < CHANGED {
                true => Found::Doubtful("the requests differ from those before; measuring another window"),
                false => Found::Another,
            };
        }
        self.changed = 0;
        if !is_whole && self.parts == 0 {
            self.began_in_part();
            return Found::Doubtful("the load began or ended in this window; measuring another one");
        }
        self.parts = 0;
        if shape.is_some() {
            self.shapes[ran] = shape;
        }
        Found::Same
    }

    /// The latest window has no effect: its load began, ended or changed in it, or is another one.
    pub(crate) const fn is_doubtful(&self) -> bool {
        self.changed > 0 || self.parts > 0
    }

    /// The load began in the latest window, which is repeated once.
    pub(crate) const fn began_in_part(&mut self) {
        self.parts = 1;
    }

    /// A further window with other requests is another load.
    pub(crate) const fn expect_change(&mut self) {
        self.changed = CHANGED - 1;
    }

    /// Whether a scheduler had requests of another kind than every other one.
    pub(crate) fn is_alone(&self, scheduler: usize) -> bool {
        let Some(of) = &self.shapes[scheduler] else { return false };
        let mut others =
            self.shapes.iter().enumerate().filter(|&(n, _)| n != scheduler).filter_map(|(_, of)| of.as_ref());
        others.clone().next().is_some() && !others.any(|other| are_alike(of, other))
    }

    pub(crate) fn forget(&mut self, scheduler: usize) {
        self.shapes[scheduler] = None;
    }

    pub(crate) fn forget_all(&mut self) {
        self.shapes.fill(None);
    }
}
