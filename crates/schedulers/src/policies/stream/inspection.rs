//! The state of the streams, for display.

use alloc::vec::Vec;

use elevator::{Fact, Item, Time};

use super::{Stream, StreamId, StreamScheduling};

impl StreamScheduling {
    /// Every stream, and the request that the framework has selected or waits for.
    pub(super) fn items(&self, now: Time) -> Vec<Item> {
        let live = (0..self.streams.len() as StreamId).filter(|id| !self.free.contains(id));
        let mut items: Vec<Item> = live.map(|id| self.item(now, id)).collect();
        let budget = Fact::Span(self.latest_budget);
        let framework = Item::new("framework", 0)
            .with("queued", Fact::Count(self.queued as u64))
            .with("stood_back", Fact::Count(self.stood_back.len() as u64))
            .with("in_device", Fact::Count(self.in_device.len() as u64))
            .with("selected_pending_service", budget);
        items.push(framework);
        items
    }

    fn item(&self, now: Time, id: StreamId) -> Item {
        let stream = self.stream(id);
        let slice = self.served.filter(|served| served.stream == id);
        Item::new("stream", u64::from(id))
            .with("role", Fact::Word(self.role(id, stream)))
            .with("position", Fact::Sector(stream.position))
            .with("length", Fact::Count(stream.length))
            .with("established", Fact::Flag(self.is_established(id)))
            .with("child_queued", Fact::Flag(!stream.queued.is_empty()))
            .with("in_device", Fact::Count(u64::from(stream.in_device)))
            .with("child_awaited_for", left(now, stream))
            .with("second_chance", Fact::Flag(stream.is_second_chance))
            .with("slice_left", slice.map_or(Fact::None, |served| Fact::Span(served.until.since(now))))
    }

    /// The stream's state; if several apply, the first in this order.
    fn role(&self, id: StreamId, stream: &Stream) -> &'static str {
        if self.served.is_some_and(|served| served.stream == id) {
            "served"
        } else if stream.is_parent_to_be {
            "parent-to-be"
        } else if stream.is_early() {
            "under way"
        } else if !stream.queued.is_empty() {
            "child queued"
        } else {
            "over"
        }
    }
}

/// The time until the deadline, which is open until the parent has completed and another request is pending.
fn left(now: Time, stream: &Stream) -> Fact {
    if stream.is_parent_to_be && stream.deadline != Time::MAX {
        Fact::Span(stream.deadline.since(now))
    } else {
        Fact::None
    }
}
