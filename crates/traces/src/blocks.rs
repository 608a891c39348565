//! Lines parsed on several threads.
//!
//! Workers take turns to read a block of whole lines. Each parses the block that it read, which is still in the cache of its processor. The
//! consumer takes the blocks in the order of the file.
//! Everything that depends on the order (ids of devices, names of processes, anomalies, line numbers) is an [`Odd`] of a block, which the consumer
//! replays between the items. So records, counts and errors are those of one thread.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};

use crate::context::Context;
use crate::devices::OwnedKey;
use crate::error::{Error, ErrorKind, Position};
use crate::helper_thread;
use crate::input::{Block, Input};
use crate::line_format::{self, LineFormat, is_heading};
use crate::record::{DeviceId, Item, Settle};
use crate::scan::{Cursor, FieldError};
use crate::skips::Skips;

/// Parsed blocks that wait for the consumer, for each worker. The consumer of a recording in whole seconds uses the blocks of a second at once.
const WAITING: usize = 4;

/// Items of a batch: the processor's first cache has them until the consumer has used them.
pub(crate) const BATCH: usize = 256;

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
    /// If there is a new device or a malformed line.
    block: Option<Block>,
    items: Vec<T>,
    /// With the number of items before.
    odd: Vec<(u32, Odd)>,
    /// The block's waits, in nanoseconds.
    waited: u64,
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
pub(crate) struct Blocks<F: LineFormat> {
    format: F,
    workers: Vec<Worker<F::Item>>,
    /// The worker of the present block.
    turn: usize,
    items: Vec<F::Item>,
    at: usize,
    /// The number of items before the next `odd`, or of all.
    until: usize,
    odd: std::vec::IntoIter<(u32, Odd)>,
    next_odd: Option<(u32, Odd)>,
    block: Option<Block>,
    /// The waits of the blocks before, and of this one.
    waited: [u64; 2],
    /// The workers of the next blocks.
    order: Receiver<usize>,
    rest: Receiver<(Input, F)>,
}

/// What the workers share.
struct Shared<F> {
    /// Until its end.
    input: Option<Input>,
    order: Sender<usize>,
    rest: Sender<(Input, F)>,
}

/// What comes next.
pub(crate) enum Step<F: LineFormat> {
    Item(<F::Item as Item>::Full),
    /// The recording ends here.
    Over,
    /// The lines after the last block, and their parser.
    Rest(Box<(Input, F)>),
}

impl<F: LineFormat> Blocks<F> {
    /// Starts the threads. They end with the input, or when the consumer is dropped.
    pub(crate) fn start(input: Input, format: &F, context: &Context) -> Self {
        let count = if format.is_stateless() { context.options.threads.clamp(2, 64) } else { 1 };
        let (to_order, order) = channel();
        let (to_rest, rest) = channel();
        let shared = Arc::new(Mutex::new(Shared { input: Some(input), order: to_order, rest: to_rest }));
        let worker = |number| {
            let (to_consumer, parsed) = sync_channel(WAITING);
            let (spare, spares) = channel();
            let (format, context, shared) = (format.clone(), context.of_worker(), Arc::clone(&shared));
            helper_thread::spawn(move || work(number, format, context, &shared, &to_consumer, &spares));
            Worker { parsed, spare, ids: Vec::new() }
        };
        Self {
            format: format.clone(),
            workers: (0..count).map(worker).collect(),
            turn: 0,
            items: Vec::new(),
            at: 0,
            until: 0,
            odd: Vec::new().into_iter(),
            next_odd: None,
            block: None,
            waited: [0; 2],
            order,
            rest,
        }
    }

    /// The next item; `number` is the number of the last line.
    #[inline]
    pub(crate) fn next(&mut self, number: &mut u64, context: &mut Context) -> Result<Step<F>, Error> {
        loop {
            if let Some(item) = self.ready(number, context) {
                return Ok(Step::Item(item));
            }
            if self.at < self.until {
                self.rejected(number, context)?;
            } else if let Some(step) = self.other(number, context)? {
                return Ok(step);
            }
        }
    }

    /// The next item, if only lines without an item are before it in the block.
    #[inline]
    pub(crate) fn ready(
        &mut self,
        number: &mut u64,
        context: &mut Context,
    ) -> Option<<F::Item as Item>::Full> {
        while self.at == self.until {
            let Some((_, Odd::Nothing(lines))) = self.next_odd else { return None };
            *number += u64::from(lines);
            self.advance();
        }
        let mut item = self.items[self.at].later(self.waited[0])?.full();
        let line = *number + self.items[self.at].lines();
        let place = Position::Line(line);
        if !item.settle(&self.workers[self.turn].ids, place) {
            return None;
        }
        *number = line;
        self.at += 1;
        context.place = place;
        context.good();
        Some(item)
    }

    /// The next item into `to`, if it is there already. `to` is written in place: to move a value that was just changed waits until its bytes
    /// have left the processor's store buffer.
    #[inline]
    pub(crate) fn read(
        &mut self,
        to: &mut <F::Item as Item>::Full,
        number: &mut u64,
        context: &mut Context,
    ) -> bool {
        if self.at >= self.until {
            return false;
        }
        let Some(item) = self.items[self.at].later(self.waited[0]) else { return false };
        let line = *number + item.lines();
        let place = Position::Line(line);
        *to = item.full();
        if !to.settle(&self.workers[self.turn].ids, place) {
            return false;
        }
        self.at += 1;
        *number = line;
        context.place = place;
        context.good();
        true
    }

    /// Appends items that are there already; false if there are none. Appends to [`Context::places`] if an item has several lines. `settled` has the form that [`Settle::settle`] makes of an item.
    #[inline]
    pub(crate) fn read_batch<U>(
        &mut self,
        to: &mut Vec<U>,
        number: &mut u64,
        context: &mut Context,
        settled: impl Fn(F::Item, &[DeviceId], Position) -> Option<U>,
    ) -> bool {
        let ids = &self.workers[self.turn].ids;
        let (before, from, mut line) = (to.len(), *number, *number);
        let items = self.items.get(self.at..self.until.min(self.at + BATCH)).unwrap_or_default();
        to.extend(items.iter().map_while(|item| {
            let next = line + item.lines();
            let settled = settled(item.later(self.waited[0])?, ids, Position::Line(next))?;
            line = next;
            Some(settled)
        }));
        let count = to.len() - before;
        if count == 0 {
            return false;
        }
        self.at += count;
        *number = line;
        context.place = Position::Line(from + items[0].lines());
        if line - from > count as u64 {
            let mut line = from;
            context.places.extend(items[..count].iter().map(|item| {
                line += item.lines();
                Position::Line(line)
            }));
        }
        context.good();
        true
    }

    /// Handles what is not an item; the step if no further line of the blocks is an item.
    #[cold]
    fn other(&mut self, number: &mut u64, context: &mut Context) -> Result<Option<Step<F>>, Error> {
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
                } else if self.format.is_over(line) {
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

    fn next_block(&mut self, context: &Context) -> Result<Option<Step<F>>, Error> {
        if self.items.capacity() > 0 {
            // The worker has ended if this fails.
            let _ = self.workers[self.turn].spare.send(std::mem::take(&mut self.items));
        }
        match self.order.recv().map(|turn| (turn, self.workers[turn].parsed.recv())) {
            Ok((turn, Ok(parsed))) => {
                self.turn = turn;
                (self.items, self.odd, self.at) = (parsed.items, parsed.odd.into_iter(), 0);
                self.waited = [self.waited_by_now(), parsed.waited];
                self.block = parsed.block;
                self.advance();
                return Ok(None);
            }
            // All workers have ended.
            Err(_) => {
                if let Ok((input, mut format)) = self.rest.recv() {
                    format.resume(self.waited_by_now());
                    return Ok(Some(Step::Rest(Box::new((input, format)))));
                }
            }
            Ok(_) => {}
        }
        Err(context.error(ErrorKind::Io, "a thread that parses lines has failed").at(context.place))
    }

    /// The waits up to the end of this block.
    const fn waited_by_now(&self) -> u64 {
        self.waited[0].saturating_add(self.waited[1])
    }

    /// The next item is of a device beyond the limit, or too late: it counts as malformed.
    #[cold]
    fn rejected(&mut self, number: &mut u64, context: &mut Context) -> Result<(), Error> {
        let item = self.items[self.at];
        *number += item.lines();
        self.at += 1;
        context.place = Position::Line(*number);
        if item.later(self.waited[0]).is_none() {
            return context.malformed(FieldError::impossible_time(), &[]);
        }
        let Some(block) = &self.block else { return Ok(()) };
        // The block's last line has a known number: that of the present line and of those behind it.
        let behind = self.items[self.at..].iter().map(|item| item.lines() as usize).sum::<usize>()
            + self.next_odd.iter().chain(self.odd.as_slice()).map(|(_, odd)| odd.lines()).sum::<usize>();
        let mut lines = block.bytes[..block.length].split(|&byte| byte == b'\n').rev().skip(1);
        context.malformed(Context::too_many_devices(), lines.nth(behind).unwrap_or_default())
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

fn work<F: LineFormat>(
    number: usize,
    mut format: F,
    mut context: Context,
    shared: &Mutex<Shared<F>>,
    parsed: &SyncSender<Parsed<F::Item>>,
    spares: &Receiver<Vec<F::Item>>,
) {
    let mut text = Vec::new();
    loop {
        // Poisoned if another worker has failed.
        let Ok(mut locked) = shared.lock() else { return };
        let Some(input) = &mut locked.input else { return };
        let Some(block) = input.block(text) else {
            let rest = locked.input.take();
            // The consumer may be gone.
            let _ = rest.map(|rest| locked.rest.send((rest, format)));
            return;
        };
        let is_taken = locked.order.send(number).is_ok();
        drop(locked);
        let mut items = spares.try_recv().unwrap_or_default();
        items.clear();
        let (items, odd) = parse(&mut format, &mut context, &block, items);
        let waited = format.take_waited();
        let needs_text = odd.iter().any(|(_, odd)| matches!(odd, Odd::Bad(..) | Odd::Device(_)));
        let mut block = Some(block);
        text = block.take_if(|_| !needs_text).map(|block| block.bytes).unwrap_or_default();
        if !is_taken || parsed.send(Parsed { block, items, odd, waited }).is_err() {
            return;
        }
    }
}

/// Records the new devices and names of a line.
#[cold]
fn note_log(context: &mut Context, before: u32, odd: &mut Vec<(u32, Odd)>) {
    odd.extend(context.devices.take_log().map(|key| (before, Odd::Device(key))));
    odd.extend(context.names.take_log().map(|(pid, name)| (before, Odd::Name(pid, name))));
}

/// Records a line without an item.
#[inline]
fn note_nothing(context: &mut Context, before: u32, odd: &mut Vec<(u32, Odd)>) {
    if !context.skips.is_empty() {
        odd.push((before, Odd::Skips(Box::new(std::mem::take(&mut context.skips)))));
    }
    match odd.last_mut() {
        Some((at, Odd::Nothing(lines))) if *at == before => *lines += 1,
        _ => odd.push((before, Odd::Nothing(1))),
    }
}

/// Parses a line that is not as most are.
#[inline(never)]
fn parse_alone<F: LineFormat>(
    format: &mut F,
    line: &[u8],
    context: &mut Context,
) -> Result<Option<F::Item>, FieldError> {
    line_format::parse_alone(format, line, context)
}

fn parse<F: LineFormat>(
    format: &mut F,
    context: &mut Context,
    block: &Block,
    mut items: Vec<F::Item>,
) -> (Vec<F::Item>, Vec<(u32, Odd)>) {
    let mut odd: Vec<(u32, Odd)> = Vec::new();
    let text = &block.bytes[..block.length];
    let mut from = 0;
    // Names are recorded once for each block.
    context.names.forget();
    while from < text.len() {
        let before = items.len() as u32;
        let mut cursor = Cursor::new(&text[from..]);
        if let Ok(result) = format.parse(&mut cursor, context, |cursor, field| cursor.line_end(field)) {
            from += cursor.position();
            if context.has_log() {
                note_log(context, before, &mut odd);
            }
            match result {
                Some(item) => items.push(item),
                None => note_nothing(context, before, &mut odd),
            }
            continue;
        }
        let end = memchr::memchr(b'\n', &text[from..]).map_or(text.len(), |at| from + at);
        let line = &text[from..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let result = parse_alone(format, line, context);
        note_log(context, before, &mut odd);
        match result {
            Ok(Some(item)) => items.push(item),
            Ok(None) => note_nothing(context, before, &mut odd),
            Err(bad) => odd.push((before, Odd::Bad(bad, from as u32, (from + line.len()) as u32))),
        }
        from = end + 1;
    }
    (items, odd)
}
