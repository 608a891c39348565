//! Programs from iterators of steps.

use elevator::Time;
use machine::{Next, Program};

struct Steps<I>(I);

impl<I: Iterator<Item = Next>> Program for Steps<I> {
    fn next(&mut self, _now: Time) -> Next {
        self.0.next().unwrap_or(Next::Exit)
    }
}

/// A program that executes these steps and ends. The steps do not depend on the time.
pub fn program_of<I>(steps: I) -> Box<dyn Program>
where
    I: IntoIterator<Item = Next>,
    I::IntoIter: 'static,
{
    Box::new(Steps(steps.into_iter()))
}
