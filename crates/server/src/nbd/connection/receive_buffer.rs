//! Received bytes that are not parsed yet.

/// Its first `begin` bytes are parsed; those from `end` on are free.
pub(super) struct ReceiveBuffer {
    bytes: Box<[u8]>,
    begin: usize,
    end: usize,
}

impl ReceiveBuffer {
    pub(super) const fn new(bytes: Box<[u8]>) -> Self {
        Self { bytes, begin: 0, end: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.end - self.begin
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `N` bytes, if so many have arrived.
    pub(super) fn first<const N: usize>(&self) -> Option<[u8; N]> {
        self.bytes[self.begin..self.end].first_chunk().copied()
    }

    /// Removes bytes from the front.
    pub(super) const fn skip(&mut self, bytes: usize) {
        self.begin += bytes;
    }

    /// Moves as many bytes as there are, up to the length of `to`; returns their number.
    pub(super) fn read(&mut self, to: &mut [u8]) -> usize {
        let bytes = to.len().min(self.len());
        to[..bytes].copy_from_slice(&self.bytes[self.begin..self.begin + bytes]);
        self.begin += bytes;
        bytes
    }

    /// Moves the bytes to the front, if there is nothing free behind them.
    pub(super) fn make_room(&mut self) {
        if self.is_empty() {
            (self.begin, self.end) = (0, 0);
        } else if self.begin > 0 && self.end == self.bytes.len() {
            self.bytes.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
    }

    /// The free memory.
    pub(super) fn free(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// The free memory up to a length of `most` bytes.
    pub(super) fn free_up_to(&mut self, most: usize) -> &mut [u8] {
        let limit = (self.begin + most).clamp(self.end, self.bytes.len());
        &mut self.bytes[self.end..limit]
    }

    /// Bytes were received into the free memory.
    pub(super) const fn add(&mut self, bytes: usize) {
        self.end += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_order_and_moved_to_the_front_when_the_end_is_reached() {
        let mut buffer = ReceiveBuffer::new(vec![0; 8].into());
        assert_eq!((buffer.free().len(), buffer.free_up_to(3).len()), (8, 3));
        buffer.free()[..6].copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        buffer.add(6);
        assert_eq!((buffer.first(), buffer.first::<7>()), (Some([1, 2, 3, 4]), None));
        buffer.skip(4);
        buffer.make_room();
        assert_eq!((buffer.free().len(), buffer.free_up_to(3).len(), buffer.free_up_to(1).len()), (2, 1, 0));
        buffer.free().copy_from_slice(&[7, 8]);
        buffer.add(2);
        buffer.make_room();
        assert_eq!(buffer.free().len(), 4);
        let mut to = [0; 6];
        assert_eq!((buffer.read(&mut to), to, buffer.is_empty()), (4, [5, 6, 7, 8, 0, 0], true));
        buffer.make_room();
        assert_eq!(buffer.free().len(), 8);
    }
}
