//! The execution context of a task.
//!
//! A call or thread is an `async` function over the kernel's [`State`]; it reads like the kernel's source, top to bottom, and
//! awaits where that sleeps. There is no runtime: the engine polls tasks one at a time, in the order in which they were
//! woken, so that the same input gives the same run.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use elevator::{Span, Time};

use super::calls::Returned;
use super::state::{Bio, State, TaskId, Wait};

/// The kernel's state. One task runs at a time, and none borrows the state while it sleeps.
pub(in crate::kernel) type Shared = Rc<RefCell<State>>;

/// The work of a task.
pub(in crate::kernel) type Job = Pin<Box<dyn Future<Output = Returned>>>;

/// A task with access to the kernel's state.
#[derive(Clone)]
pub(in crate::kernel) struct Context {
    state: Shared,
    pub(in crate::kernel) task: TaskId,
}

impl Context {
    /// The context of a task.
    pub(in crate::kernel) fn new(state: &Shared, task: TaskId) -> Self {
        Self { state: Rc::clone(state), task }
    }

    /// Applies a function to the state.
    pub(in crate::kernel) fn with<R>(&self, does: impl FnOnce(&mut State) -> R) -> R {
        does(&mut self.state.borrow_mut())
    }

    pub(in crate::kernel) fn now(&self) -> Time {
        self.state.borrow().now
    }

    /// Sleeps until the event.
    pub(in crate::kernel) async fn sleep(&self, on: Wait) {
        self.nap(on, None).await;
    }

    /// Sleeps until the event, or for `span` at most.
    pub(in crate::kernel) async fn sleep_at_most(&self, on: Wait, span: Span) {
        let at = self.now() + span;
        self.nap(on, Some(at)).await;
    }

    async fn nap(&self, on: Wait, alarm: Option<Time>) {
        let mut slept = false;
        poll_fn(|_| {
            if slept {
                return Poll::Ready(());
            }
            slept = true;
            self.with(|state| state.sleepers.sleep(self.task, on, alarm));
            Poll::Pending
        })
        .await;
    }

    /// Submits to the block layer; sleeps while the queue is full.
    pub(in crate::kernel) async fn submit(&self, bio: Bio) {
        let mut bio = Some(bio);
        poll_fn(|_| match bio.take() {
            Some(bio) => {
                self.with(|state| state.send(self.task, bio));
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
        .await;
    }
}
