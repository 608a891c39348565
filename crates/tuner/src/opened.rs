//! The results of an [opening](crate::Opening). A file of its own: the kinds of load take them, and the opening takes their shapes.

use crate::load::Load;
use crate::measured::Measured;

/// The results of an opening.
#[derive(Clone, PartialEq, Debug)]
pub struct Opened {
    /// Each scheduler's value, if it was tried.
    pub values: Vec<Option<Measured>>,
    pub load: Load,
    /// Whether a scheduler is better than `none` beyond doubt.
    pub clear: bool,
    /// The best scheduler.
    pub best: Option<usize>,
    /// A scheduler whose gain over another one, `none`, several windows before and after its trial have shown.
    pub confirmed: Option<(usize, usize)>,
    /// Schedulers that lose so much that no test should try them again soon, or that were neither expected nor measured to be better than `none`.
    pub hopeless: Vec<usize>,
}
