//! Lines parsed on several threads.
//!
//! One thread reads blocks of whole lines, each worker parses every n-th block, and the consumer takes the blocks in the order of the file.
//! Everything that depends on the order (ids of devices, names of processes, anomalies, line numbers) is an [`Odd`] of a block, which the consumer
//! replays between the items. So records, counts and errors are those of one thread.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use crate::context::Context;
use crate::devices::OwnedKey;
use crate::error::{Error, ErrorKind, Position};
use crate::input::{Block, Input};
use crate::line_format::{LineFormat, is_heading};
use crate::record::{DeviceId, Settle};
use crate::scan::FieldError;
use crate::skips::Skips;

/// Blocks that wait for a worker, and parsed blocks that wait for the consumer, for each worker.
const WAITING: usize = 2;

/// The id of a device beyond the limit.
const TOO_MANY: DeviceId = DeviceId(u32::MAX);

/// Something in a block that the consumer handles in order.
enum Odd {
    /// So many lines without an item.
    Nothing(u32),
    /// A malformed line: its range in the block.
    Bad(FieldError, u32, u32),
    /// The first occurrence of a device in the lines of the worker.
    Device(OwnedKey),
    /// The name of a process.
    Name(u32, Box<[u8]>),
    Skips(Box<Skips>),
}

/// A parsed block.
struct Parsed<T> {
    block: Block,
    items: Vec<T>,
    /// With the number of items before.
    odd: Vec<(u32, Odd)>,
}

/// The channels of a worker.
struct Worker<T> {
    parsed: Receiver<Parsed<T>>,
    /// Returns buffers.
    spare: Sender<Vec<T>>,
    /// The worker's device ids.
    ids: Vec<DeviceId>,
}

/// The consumer's side.
pub(crate) struct Blocks<T> {
    workers: Vec<Worker<T>>,
    /// The worker of the present block.
    turn: usize,
    items: Vec<T>,
    at: usize,
    /// The number of items before the next `odd`, or of all.
    until: usize,
    odd: std::vec::IntoIter<(u32, Odd)>,
    next_odd: Option<(u32, Odd)>,
    block: Option<Block>,
    taken: u64,
    spare: Sender<Vec<u8>>,
    rest: Receiver<(Input, u64)>,
}

/// What comes next.
pub(crate) enum Step<T> {
    Item(T),
    /// The recording ends here.
    Over,
    /// The lines after the last block.
    Rest(Box<Input>),
}

impl<T: Settle> Blocks<T> {
    /// Starts the threads. They end with the input, or when the consumer is dropped.
    pub(crate) fn start<F: LineFormat<Item = T>>(input: Input, format: &F, context: &Context) -> Self {
        let count = context.options.threads.clamp(2, 64);
        let (mut to_workers, mut workers) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (to_worker, blocks) = sync_channel(WAITING);
            let (to_consumer, parsed) = sync_channel(WAITING);
            let (spare, spares) = channel();
            let (format, context) = (format.clone(), context.of_worker());
            thread::spawn(move || work(format, context, &blocks, &to_consumer, &spares));
            to_workers.push(to_worker);
            workers.push(Worker { parsed, spare, ids: Vec::new() });
        }
        let (spare, spares) = channel();
        let (to_consumer, rest) = channel();
        thread::spawn(move || read(input, &to_workers, &spares, &to_consumer));
        Self {
            workers,
            turn: count - 1,
            items: Vec::new(),
            at: 0,
            until: 0,
            odd: Vec::new().into_iter(),
            next_odd: None,
            block: None,
            taken: 0,
            spare,
            rest,
        }
    }

    /// The next item; `number` is the number of the last line.
    #[inline]
    pub(crate) fn next<F: LineFormat<Item = T>>(
        &mut self,
        format: &F,
        number: &mut u64,
        context: &mut Context,
    ) -> Result<Step<T>, Error> {
        loop {
            if self.at < self.until {
                let mut item = self.items[self.at];
                *number += 1;
                context.place = Position::Line(*number);
                self.at += 1;
                if item.settle(&self.workers[self.turn].ids, context.place) {
                    context.good();
                    return Ok(Step::Item(item));
                }
                self.too_many(*number, context)?;
            } else if let Some(step) = self.other(format, number, context)? {
                return Ok(step);
            }
        }
    }

    /// The next item into `to`, if it is there already. `to` is written in place: to move a value that was just changed waits until its bytes
    /// have left the processor's store buffer.
    #[inline]
    pub(crate) fn read(&mut self, to: &mut T, number: &mut u64, context: &mut Context) -> bool {
        if self.at >= self.until {
            return false;
        }
        let place = Position::Line(*number + 1);
        *to = self.items[self.at];
        if !to.settle(&self.workers[self.turn].ids, place) {
            return false;
        }
        self.at += 1;
        *number += 1;
        context.place = place;
        context.good();
        true
    }

    /// The items that are there already into `to`, which is empty; false if there are none.
    pub(crate) fn read_batch(&mut self, to: &mut Vec<T>, number: &mut u64, context: &mut Context) -> bool {
        let ids = &self.workers[self.turn].ids;
        let first = *number + 1;
        let mut items = self.items.get_mut(self.at..self.until).unwrap_or_default().iter_mut().zip(first..);
        let count = items.position(|(item, line)| !item.settle(ids, Position::Line(line)));
        let count = count.unwrap_or_else(|| self.until.saturating_sub(self.at));
        if count == 0 {
            return false;
        }
        if count == self.items.len() {
            std::mem::swap(to, &mut self.items);
        } else {
            to.extend_from_slice(&self.items[self.at..self.at + count]);
        }
        self.at += count;
        *number += count as u64;
        context.place = Position::Line(first);
        context.good();
        true
    }

    /// Handles what is not an item; the step if no further line of the blocks is an item.
    #[cold]
    fn other<F: LineFormat<Item = T>>(
        &mut self,
        format: &F,
        number: &mut u64,
        context: &mut Context,
    ) -> Result<Option<Step<T>>, Error> {
        let Some((_, odd)) = self.next_odd.take() else { return self.next_block(context) };
        context.place = Position::Line(*number + 1);
        self.advance();
        match odd {
            Odd::Nothing(lines) => *number += u64::from(lines),
            Odd::Device(key) => {
                let id = context.device(key.as_key()).unwrap_or(TOO_MANY);
                self.workers[self.turn].ids.push(id);
            }
            Odd::Name(pid, name) => drop(context.process(pid, &name)),
            Odd::Skips(skips) => {
                for (oddity, tally) in skips.iter() {
                    context.skips.add(oddity, tally.count, context.place);
                }
            }
            Odd::Bad(bad, from, to) => {
                *number += 1;
                let text = self.block.as_ref().map_or(&[][..], |block| &block.bytes);
                let line = text.get(from as usize..to as usize).unwrap_or_default();
                if line.is_empty() || is_heading(*number, line) {
                } else if format.is_over(line) {
                    return Ok(Some(Step::Over));
                } else {
                    context.malformed(bad, line)?;
                }
            }
        }
        Ok(None)
    }

    /// Takes the next of `odd`.
    fn advance(&mut self) {
        self.next_odd = self.odd.next();
        self.until = self.next_odd.as_ref().map_or(self.items.len(), |(before, _)| *before as usize);
    }

    fn next_block(&mut self, context: &Context) -> Result<Option<Step<T>>, Error> {
        // The threads have ended if these fail.
        if let Some(block) = self.block.take() {
            let _ = self.spare.send(block.bytes);
            let _ = self.workers[self.turn].spare.send(std::mem::take(&mut self.items));
        }
        self.turn = (self.turn + 1) % self.workers.len();
        if let Ok(parsed) = self.workers[self.turn].parsed.recv() {
            (self.items, self.odd, self.at) = (parsed.items, parsed.odd.into_iter(), 0);
            self.block = Some(parsed.block);
            self.taken += 1;
            self.advance();
            return Ok(None);
        }
        match self.rest.recv() {
            Ok((rest, blocks)) if blocks == self.taken => Ok(Some(Step::Rest(Box::new(rest)))),
            _ => Err(context.error(ErrorKind::Io, "a thread that parses lines has failed").at(context.place)),
        }
    }

    /// An item of a device beyond the limit counts as malformed.
    #[cold]
    fn too_many(&self, number: u64, context: &mut Context) -> Result<(), Error> {
        let bad = Context::too_many_devices();
        let Some(block) = &self.block else { return Ok(()) };
        // The block's last line has a known number: that of the present line and of those behind it.
        let behind = self.items.len() - self.at
            + self.next_odd.iter().chain(self.odd.as_slice()).map(|(_, odd)| odd.lines()).sum::<usize>();
        let mut lines = block.bytes[block.lines.clone()].split(|&byte| byte == b'\n').rev().skip(1);
        debug_assert!(number > 0);
        context.malformed(bad, lines.nth(behind).unwrap_or_default())
    }
}

impl Odd {
    fn lines(&self) -> usize {
        match self {
            Self::Nothing(lines) => *lines as usize,
            Self::Bad(..) => 1,
            _ => 0,
        }
    }
}

fn read(
    mut input: Input,
    workers: &[SyncSender<Block>],
    spares: &Receiver<Vec<u8>>,
    rest: &Sender<(Input, u64)>,
) {
    let mut sent = 0;
    for worker in workers.iter().cycle() {
        let Some(block) = input.block(spares.try_recv().unwrap_or_default()) else { break };
        if worker.send(block).is_err() {
            return;
        }
        sent += 1;
    }
    // The consumer may be gone.
    let _ = rest.send((input, sent));
}

fn work<F: LineFormat>(
    mut format: F,
    mut context: Context,
    blocks: &Receiver<Block>,
    parsed: &SyncSender<Parsed<F::Item>>,
    spares: &Receiver<Vec<F::Item>>,
) {
    for block in blocks {
        let mut items = spares.try_recv().unwrap_or_default();
        items.clear();
        let (items, odd) = parse(&mut format, &mut context, &block, items);
        if parsed.send(Parsed { block, items, odd }).is_err() {
            return;
        }
    }
}

/// Records the new devices and names of a line.
#[inline]
fn note_log(context: &mut Context, before: u32, odd: &mut Vec<(u32, Odd)>) {
    if context.has_log() {
        odd.extend(context.devices.take_log().map(|key| (before, Odd::Device(key))));
        odd.extend(context.names.take_log().map(|(pid, name)| (before, Odd::Name(pid, name))));
    }
}

fn parse<F: LineFormat>(
    format: &mut F,
    context: &mut Context,
    block: &Block,
    mut items: Vec<F::Item>,
) -> (Vec<F::Item>, Vec<(u32, Odd)>) {
    let mut odd: Vec<(u32, Odd)> = Vec::new();
    let text = &block.bytes[..block.lines.end];
    let mut from = block.lines.start;
    // Names are recorded once for each block.
    context.names.forget();
    while from < text.len() {
        let before = items.len() as u32;
        if let Some((item, length)) = format.parse_usual(&text[from..], context) {
            note_log(context, before, &mut odd);
            items.push(item);
            from += length;
            continue;
        }
        let end = memchr::memchr(b'\n', &text[from..]).map_or(text.len(), |at| from + at);
        let line = &text[from..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let result = format.parse(line, context);
        note_log(context, before, &mut odd);
        match result {
            Ok(Some(item)) => items.push(item),
            Ok(None) => {
                if !context.skips.is_empty() {
                    odd.push((before, Odd::Skips(Box::new(std::mem::take(&mut context.skips)))));
                }
                match odd.last_mut() {
                    Some((at, Odd::Nothing(lines))) if *at == before => *lines += 1,
                    _ => odd.push((before, Odd::Nothing(1))),
                }
            }
            Err(bad) => odd.push((before, Odd::Bad(bad, from as u32, (from + line.len()) as u32))),
        }
        from = end + 1;
    }
    (items, odd)
}
