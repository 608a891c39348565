//! The progress of a job: its next system call. Shared by every engine.

use elevator::Op;
use rustix::io::Errno;

use super::{Job, Payload};

/// Source of zeroes for files that cannot deallocate ranges.
static ZEROES: Zeroes = Zeroes([0; ZEROES_AT_ONCE]);

/// Large enough for few calls, small enough for a static array.
const ZEROES_AT_ONCE: usize = 1 << 16;

#[repr(C, align(4096))]
struct Zeroes([u8; ZEROES_AT_ONCE]);

/// Maximum number of memory segments in one call. Linux's `IOV_MAX` is 1024; a merged request has fewer.
pub(super) const SEGMENTS: usize = 256;

/// The next step of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Read into, or write from, the segments, at this byte.
    Move { offset: u64 },
    /// Set these bytes to zero without writing data.
    Zero { offset: u64, bytes: u64 },
    /// Discard these bytes.
    Discard { offset: u64, bytes: u64 },
    /// Make all writes durable.
    Sync,
    /// The job is complete.
    Finished,
}

/// An unfinished job.
pub(super) struct Transfer {
    pub(super) job: Job,
    /// Whether zeroes must be written as data, because the file cannot deallocate ranges.
    pub(super) zeroes_as_data: bool,
    offset: u64,
    piece: usize,
    /// Finished bytes of the current piece.
    within: usize,
    /// A sync remains to be done.
    sync: bool,
}

impl Transfer {
    pub(super) fn new(job: Job, zeroes_as_data: bool) -> Self {
        // A durable write needs no sync; discards and zeroes without data do.
        let deallocates =
            job.op == Op::Discard || job.pieces.iter().any(|p| matches!(p.payload, Payload::Zeroes));
        let sync = job.op == Op::Flush || (job.fua && deallocates);
        let offset = job.start.bytes();
        Self { job, zeroes_as_data, offset, piece: 0, within: 0, sync }
    }

    pub(super) fn step(&self) -> Step {
        let offset = self.offset;
        match (self.job.op, self.job.pieces.get(self.piece)) {
            (Op::Discard, Some(_)) => Step::Discard { offset, bytes: self.job.sectors.bytes() },
            (Op::Write, Some(piece)) if self.deallocates(&piece.payload) => {
                Step::Zero { offset, bytes: piece.sectors.bytes() }
            }
            (Op::Read | Op::Write, Some(_)) => Step::Move { offset },
            _ if self.sync => Step::Sync,
            _ => Step::Finished,
        }
    }

    fn deallocates(&self, payload: &Payload) -> bool {
        matches!(payload, Payload::Zeroes) && !self.zeroes_as_data
    }

    /// Calls `each` with the memory segments of the next move, in order; at most [`SEGMENTS`] times.
    pub(super) fn segments(&mut self, mut each: impl FnMut(Segment<'_>)) {
        let (deallocates, read) = (!self.zeroes_as_data, self.job.op == Op::Read);
        let mut within = self.within;
        for piece in self.job.pieces[self.piece..].iter_mut().take(SEGMENTS) {
            let bytes = piece.sectors.bytes() as usize;
            match &mut piece.payload {
                Payload::Data(buffer) if read => each(Segment::To(&mut buffer[within..bytes])),
                Payload::Data(buffer) => each(Segment::From(&buffer[within..bytes])),
                Payload::Zeroes if deallocates => break,
                Payload::Zeroes => {
                    let now = (bytes - within).min(ZEROES_AT_ONCE);
                    each(Segment::From(&ZEROES.0[..now]));
                    if within + now < bytes {
                        break;
                    }
                }
                Payload::None => break,
            }
            within = 0;
        }
    }

    /// The move has transferred `bytes`.
    ///
    /// # Errors
    /// `bytes` is 0: the file ends before the device, or the disk reports a wrong size.
    pub(super) fn moved(&mut self, mut bytes: usize) -> Result<(), Errno> {
        if bytes == 0 {
            return Err(Errno::IO);
        }
        self.offset += bytes as u64;
        while let Some(piece) = self.job.pieces.get(self.piece) {
            let left = piece.sectors.bytes() as usize - self.within;
            if bytes < left {
                self.within += bytes;
                return Ok(());
            }
            bytes -= left;
            self.piece += 1;
            self.within = 0;
            if bytes == 0 {
                break;
            }
        }
        Ok(())
    }

    /// A step without data (zeroes, a discard, a sync) has completed.
    pub(super) fn completed(&mut self, step: Step) {
        match step {
            Step::Zero { bytes, .. } => {
                self.offset += bytes;
                self.piece += 1;
            }
            Step::Discard { .. } => self.piece = self.job.pieces.len(),
            Step::Sync => self.sync = false,
            Step::Move { .. } | Step::Finished => {}
        }
    }

    /// Whether the failed `step` is repeated by writing zeroes as data.
    pub(super) fn falls_back(&mut self, step: Step, error: Errno) -> bool {
        let refused = error == Errno::OPNOTSUPP || error == Errno::INVAL;
        let falls_back = refused && matches!(step, Step::Zero { .. });
        self.zeroes_as_data |= falls_back;
        falls_back
    }
}

/// A memory segment of a move.
pub(super) enum Segment<'a> {
    /// Destination of a read.
    To(&'a mut [u8]),
    /// Source of a write.
    From(&'a [u8]),
}

#[cfg(test)]
mod tests {
    use disks::Tag;
    use elevator::{Sector, Sectors};

    use super::super::Piece;
    use super::*;
    use crate::buffer::Pool;

    fn piece(sectors: u32, payload: Payload) -> Piece {
        Piece { owner: 0, sectors: Sectors(sectors), payload, result: Ok(()) }
    }

    fn job(op: Op, fua: bool, pieces: Vec<Piece>) -> Job {
        let sectors = Sectors(pieces.iter().map(|p| p.sectors.0).sum());
        Job { tag: Tag(0), op, start: Sector(8), sectors, fua, pieces }
    }

    fn lengths(transfer: &mut Transfer) -> Vec<usize> {
        let mut lengths = Vec::new();
        transfer.segments(|segment| {
            lengths.push(match segment {
                Segment::To(memory) => memory.len(),
                Segment::From(memory) => memory.len(),
            });
        });
        lengths
    }

    #[test]
    fn a_short_move_continues_where_it_stopped() {
        let mut pool = Pool::new(0);
        let data = |n: u32, pool: &mut Pool| piece(n, Payload::Data(pool.take(n as usize * 512)));
        let pieces = vec![data(8, &mut pool), data(16, &mut pool)];
        let mut transfer = Transfer::new(job(Op::Read, false, pieces), false);
        assert_eq!(
            (transfer.step(), lengths(&mut transfer)),
            (Step::Move { offset: 4096 }, vec![4096, 8192])
        );
        transfer.moved(5120).unwrap();
        assert_eq!((transfer.step(), lengths(&mut transfer)), (Step::Move { offset: 9216 }, vec![7168]));
        transfer.moved(7168).unwrap();
        assert_eq!(transfer.step(), Step::Finished);
        assert_eq!(transfer.moved(0), Err(Errno::IO), "a move of 0 bytes would repeat for ever");
    }

    #[test]
    fn zeroes_among_data_are_deallocated_or_else_written() {
        let mut pool = Pool::new(0);
        let mut pieces = || vec![piece(8, Payload::Data(pool.take(4096))), piece(256, Payload::Zeroes)];
        let mut transfer = Transfer::new(job(Op::Write, true, pieces()), false);
        assert_eq!(lengths(&mut transfer), [4096]);
        transfer.moved(4096).unwrap();
        let step = transfer.step();
        assert_eq!(step, Step::Zero { offset: 8192, bytes: 131_072 });
        assert!(transfer.falls_back(step, Errno::OPNOTSUPP));
        assert_eq!((transfer.step(), lengths(&mut transfer)), (Step::Move { offset: 8192 }, vec![65536]));
        transfer.moved(65536).unwrap();
        transfer.moved(65536).unwrap();
        assert_eq!(transfer.step(), Step::Sync, "deallocated ranges need a sync");
        transfer.completed(Step::Sync);
        assert_eq!(transfer.step(), Step::Finished);
    }

    #[test]
    fn a_flush_is_a_sync_and_a_discard_one_call() {
        let mut flush = Transfer::new(job(Op::Flush, false, vec![]), false);
        assert_eq!(flush.step(), Step::Sync);
        flush.completed(Step::Sync);
        assert_eq!(flush.step(), Step::Finished);
        let pieces = vec![piece(8, Payload::None), piece(8, Payload::None)];
        let mut discard = Transfer::new(job(Op::Discard, false, pieces), false);
        let step = discard.step();
        assert_eq!(step, Step::Discard { offset: 4096, bytes: 8192 });
        discard.completed(step);
        assert_eq!(discard.step(), Step::Finished);
    }
}
