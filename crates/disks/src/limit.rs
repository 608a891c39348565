//! What a device could do at best: the parts of a physical limit.

use elevator::{Sector, Sectors, Span};

/// Least times, from the device's own model, with nothing lost: no rotation waited for, no command's overhead, no queue.
///
/// A host that adds them up for requests in the best order has a time that no order of serving them can beat, but for
/// what the device's buffer answers.
pub trait Ideal {
    /// From the end of a request (the sector behind its last one) to the start of another: the arm's move. Nothing
    /// where the one goes on at the other, but for the switch between two tracks; nothing on a device without an arm.
    fn least_seek(&self, from: Sector, to: Sector) -> Span;

    /// The time in which these sectors pass under the head, switches between tracks on the way included; without a head,
    /// the time that the slowest way to the host takes for them.
    fn sequential_transfer(&self, start: Sector, sectors: Sectors) -> Span;

    /// Whether reads and writes have a way to the host each, and so may pass at the same time.
    fn full_duplex(&self) -> bool {
        false
    }
}
