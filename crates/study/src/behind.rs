//! Writes to a file on a thread of its own.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// Bytes that are written at once.
const BLOCK: usize = 1 << 18;
/// Upper bound for blocks that wait or are being written.
const BLOCKS: usize = 8;

/// A buffer before a sink that another thread writes to. An error of the sink is that of a later call, at the latest of [`flush`](Write::flush).
pub(crate) struct Behind {
    block: Vec<u8>,
    full: Option<Sender<Vec<u8>>>,
    written: Receiver<Vec<u8>>,
    /// Blocks that are not known to be written.
    waiting: usize,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Behind {
    pub(crate) fn new(mut sink: impl Write + Send + 'static) -> Self {
        let (full, blocks) = channel::<Vec<u8>>();
        let (done, written) = channel();
        let thread = thread::spawn(move || {
            for mut block in blocks {
                sink.write_all(&block)?;
                block.clear();
                // The other side may be gone.
                let _ = done.send(block);
            }
            sink.flush()
        });
        Self { block: Vec::new(), full: Some(full), written, waiting: 0, thread: Some(thread) }
    }

    /// Hands a block to the thread, and waits until at most `waiting` are not written.
    fn hand_over(&mut self, waiting: usize) -> io::Result<()> {
        if !self.block.is_empty() {
            let block = std::mem::take(&mut self.block);
            if self.full.as_ref().is_none_or(|full| full.send(block).is_err()) {
                return Err(self.failure());
            }
            self.waiting += 1;
        }
        while self.waiting > waiting {
            match self.written.recv() {
                Ok(block) => self.block = block,
                Err(_) => return Err(self.failure()),
            }
            self.waiting -= 1;
        }
        Ok(())
    }

    /// Why the thread has ended.
    fn failure(&mut self) -> io::Error {
        let ended = self.thread.take().map(JoinHandle::join);
        let error = ended.and_then(|ended| ended.ok()).and_then(Result::err);
        error.unwrap_or_else(|| io::Error::other("the thread that writes the file has failed"))
    }
}

impl Write for Behind {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.block.capacity() == 0 {
            self.block.reserve_exact(BLOCK);
        }
        let room = BLOCK - self.block.len();
        let taken = &bytes[..bytes.len().min(room)];
        self.block.extend_from_slice(taken);
        if self.block.len() == BLOCK {
            self.hand_over(BLOCKS - 1)?;
        }
        Ok(taken.len())
    }

    /// Waits until all is written.
    fn flush(&mut self) -> io::Result<()> {
        self.hand_over(0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Fails behind so many bytes.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>, Option<usize>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut all = self.0.lock().unwrap();
            if self.1.is_some_and(|most| all.len() + bytes.len() > most) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            all.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_arrive_in_their_order() {
        let sink = Sink::default();
        let mut behind = Behind::new(sink.clone());
        let bytes: Vec<u8> = (0..12 * BLOCK + 7).map(|n| (n / 3) as u8).collect();
        // Pieces of several sizes, one of them larger than a block.
        for piece in bytes.chunks(BLOCK / 3 * 4 + 1) {
            let (first, rest) = piece.split_at(piece.len() / 7);
            behind.write_all(first).unwrap();
            behind.write_all(rest).unwrap();
        }
        behind.flush().unwrap();
        assert!(*sink.0.lock().unwrap() == bytes);
        behind.write_all(b"more").unwrap();
        behind.flush().unwrap();
        assert_eq!(sink.0.lock().unwrap().len(), bytes.len() + 4);
    }

    #[test]
    fn an_error_of_the_sink_is_not_lost() {
        let mut behind = Behind::new(Sink(Arc::default(), Some(BLOCK)));
        let written = (0..100).try_for_each(|_| behind.write_all(&[0; BLOCK / 2]));
        let error = written.and_then(|()| behind.flush()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let mut few = Behind::new(Sink(Arc::default(), Some(1)));
        few.write_all(b"ab").unwrap();
        assert_eq!(few.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
