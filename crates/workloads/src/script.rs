//! Programs written as iterators of steps.

use elevator::Time;
use machine::{Next, Program};

struct Script<I>(I);

impl<I: Iterator<Item = Next>> Program for Script<I> {
    fn next(&mut self, _now: Time) -> Next {
        self.0.next().unwrap_or(Next::Exit)
    }
}

/// A program that takes these steps one after the other, then ends. Most programs do not look at the time.
pub fn script<I>(steps: I) -> Box<dyn Program>
where
    I: IntoIterator<Item = Next>,
    I::IntoIter: 'static,
{
    Box::new(Script(steps.into_iter()))
}
