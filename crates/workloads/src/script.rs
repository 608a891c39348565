//! Programs from iterators of steps.

use elevator::Time;
use machine::{Next, Program};

struct Script<I>(I);

impl<I: Iterator<Item = Next>> Program for Script<I> {
    fn next(&mut self, _now: Time) -> Next {
        self.0.next().unwrap_or(Next::Exit)
    }
}

/// A program that executes these steps and ends. The steps do not depend on the time.
pub fn script<I>(steps: I) -> Box<dyn Program>
where
    I: IntoIterator<Item = Next>,
    I::IntoIter: 'static,
{
    Box::new(Script(steps.into_iter()))
}
