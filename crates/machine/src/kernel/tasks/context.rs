//! What a running task has in hand.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use elevator::{Span, Time};

use super::{TaskId, Wait};
use crate::kernel::calls::Returned;
use crate::kernel::io::Bio;
use crate::kernel::state::State;

/// The kernel's state, shared by its tasks. Only one of them runs at a time, and none keeps hold of it while it sleeps.
pub(in crate::kernel) type Shared = Rc<RefCell<State>>;

/// A task's work.
pub(in crate::kernel) type Job = Pin<Box<dyn Future<Output = Returned>>>;

/// A running task: the kernel, and who it is.
#[derive(Clone)]
pub(in crate::kernel) struct Context {
    state: Shared,
    /// Who it is.
    pub(in crate::kernel) task: TaskId,
}

impl Context {
    /// A task of this kernel.
    pub(in crate::kernel) fn new(state: &Shared, task: TaskId) -> Self {
        Self { state: Rc::clone(state), task }
    }

    /// Does something with the kernel's state, at once.
    pub(in crate::kernel) fn with<R>(&self, does: impl FnOnce(&mut State) -> R) -> R {
        does(&mut self.state.borrow_mut())
    }

    /// The time.
    pub(in crate::kernel) fn now(&self) -> Time {
        self.state.borrow().now
    }

    /// Sleeps until it happens.
    pub(in crate::kernel) async fn sleep(&self, on: Wait) {
        self.nap(on, None).await;
    }

    /// Sleeps until it happens, but no longer than this.
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

    /// Sends a submission to the block layer, and sleeps there if there is no room.
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
