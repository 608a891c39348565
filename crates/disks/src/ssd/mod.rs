//! A solid-state drive.
//!
//! *Theory of operation.* The controller accepts one command at a time. A read goes to the dies over which its pages are striped;
//! each page then crosses its channel and the interface, and the command completes with the last page. A write's data crosses the
//! interface into the write buffer, where the write completes (with FUA, or without a write cache, once the data is on flash).
//! Complete programs leave the buffer for the dies in turn. Writes wait while the buffer is full; the host then sees the rate of the
//! flash, reduced by garbage collection. A flush waits until everything written before is on flash.
//!
//! *Simplifications.* Pages are read from the die that their address determines, whenever they were written: sequential writing
//! places them there, and for random access any die is equivalent. Every page counts as holding data. There is no single-level-cell
//! region, no prefetching beyond the die's register, no read of the mapping (it is in memory), no wear, and no errors.
//!
//! *Sources.* Agrawal et al., "Design tradeoffs for SSD performance", 2008; Tavakkol et al., "MQSim", 2018 (stages,
//! static striping, suspension); the numbers' sources are in the parameter files of the built-in drives.

mod buffer;
mod collector;
mod event_queue;
mod flash;
mod parameters;
mod translation;

use std::collections::VecDeque;

use elevator::{Op, Outcome, Positioning, Sector, Sectors, Span, Time};

use crate::drive::Ideal;
use crate::drive::{Command, Completion, Drive, Service, Tag};
use buffer::WriteBuffer;
use collector::{Collector, Sizes};
use event_queue::{Event, EventQueue, moving};
use flash::{Flash, Job, Read};
use parameters::PAGE_SECTORS;
pub use parameters::{
    FlashParameters, HostParameters, SsdError, SsdParameters, TranslationParameters, WriteBufferParameters,
};
use translation::Translation;

/// A modelled solid-state drive.
#[derive(Clone, Debug)]
pub struct Ssd {
    p: SsdParameters,
    sizes: Sizes,
    /// By tag.
    commands: Vec<Active>,
    events: EventQueue,
    flash: Flash,
    buffer: WriteBuffer,
    map: Translation,
    collector: Collector,
    controller_free: Time,
    to_host_free: Time,
    from_host_free: Time,
    next_die: u32,
    next_erase: u32,
    /// Writes that wait for room in the buffer, in order.
    stalled: VecDeque<u32>,
    /// Commands that wait until all pages below a number are on flash, in order.
    undurable: VecDeque<(u64, u32)>,
    completed: VecDeque<Completion>,
    written: Written,
}

/// Amounts written, in pages of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Pages programmed from the write buffer.
    pub host_pages: u64,
    /// Pages copied by garbage collection.
    pub copied_pages: u64,
    /// Blocks erased; the blocks of all planes of a die count as one.
    pub erases: u64,
}

/// A command in the drive.
#[derive(Clone, Copy, Debug)]
struct Active {
    command: Command,
    started: Time,
    arrived: Time,
    /// Reads whose data has not reached the host.
    reads_left: u32,
    ends: Time,
    /// The next page of a write to enter the buffer.
    next_page: u64,
    from_buffer: bool,
    outcome: Outcome,
}

impl Ssd {
    /// An idle drive at time zero.
    ///
    /// # Errors
    /// If a parameter is out of range, or parameters contradict each other.
    pub fn new(p: &SsdParameters) -> Result<Self, SsdError> {
        p.check()?;
        let idle =
            Command { tag: Tag(0), op: Op::Flush, start: Sector(0), sectors: Sectors::ZERO, fua: false };
        let sizes = Sizes {
            dies: p.flash.dies().into(),
            pages_in_superblock: p.flash.pages_in_superblock(),
            pages_in_program: p.flash.pages_in_program(),
            pages_in_page: p.flash.pages_in_page(),
        };
        let buffer_pages = p.write_buffer.bytes / (PAGE_SECTORS * 512);
        Ok(Self {
            sizes,
            commands: vec![Active::new(idle, Time::ZERO, Time::ZERO); p.depth as usize],
            events: EventQueue::default(),
            flash: Flash::new(p.flash),
            buffer: WriteBuffer::new(buffer_pages, sizes.pages_in_program),
            map: Translation::new(p)?,
            collector: Collector::default(),
            controller_free: Time::ZERO,
            to_host_free: Time::ZERO,
            from_host_free: Time::ZERO,
            next_die: 0,
            next_erase: 0,
            stalled: VecDeque::new(),
            undurable: VecDeque::new(),
            completed: VecDeque::new(),
            written: Written::default(),
            p: p.clone(),
        })
    }

    /// The drive's parameters.
    #[must_use]
    pub fn parameters(&self) -> &SsdParameters {
        &self.p
    }

    /// Amounts written so far.
    #[must_use]
    pub fn written(&self) -> Written {
        self.written
    }

    fn advance(&mut self, now: Time) {
        while let Some((at, event)) = self.events.take(now) {
            match event {
                Event::Arrived(tag) => self.arrived(tag, at),
                Event::Received(tag) => self.received(tag, at),
                Event::Die(die, generation) => self.die_done(die, generation, at),
                Event::Channel(channel) => self.channel_done(channel, at),
                Event::Done(tag) => self.done(tag, at),
            }
        }
    }

    fn arrived(&mut self, tag: u32, now: Time) {
        let Command { op, start, sectors, .. } = self.commands[tag as usize].command;
        if start.0.saturating_add(sectors.0.into()) > self.p.capacity_sectors {
            self.commands[tag as usize].outcome = Outcome::Failed;
            return self.finish(tag, now);
        }
        match op {
            Op::Flush => self.flush(tag, now),
            _ if sectors == Sectors::ZERO => self.finish(tag, now),
            Op::Read => self.read(tag, now),
            Op::Write => {
                let received = self.receive(sectors.bytes(), now);
                self.events.push(received, Event::Received(tag));
            }
            Op::Discard => {
                let pages = start.0.div_ceil(PAGE_SECTORS)..(start + sectors).0 / PAGE_SECTORS;
                self.buffer.discard(&pages);
                self.map.discard(pages.start, pages.end);
                self.finish(tag, now);
            }
        }
    }

    /// Starts one flash read for each flash page that the write buffer does not have completely.
    fn read(&mut self, tag: u32, now: Time) {
        let Command { start, sectors, .. } = self.commands[tag as usize].command;
        let end = (start + sectors).0;
        let flash_page_sectors = self.sizes.pages_in_page * PAGE_SECTORS;
        let mut from = start.0;
        let mut buffered = 0;
        while from < end {
            let page = from / flash_page_sectors;
            let to = end.min((page + 1) * flash_page_sectors);
            let mapping_pages = self.unbuffered(from, to);
            let read = Read { command: Some(tag), page, mapping_pages, sectors: (to - from) as u32 };
            from = to;
            if mapping_pages == 0 {
                buffered += u64::from(read.sectors);
                continue;
            }
            self.commands[tag as usize].reads_left += 1;
            self.flash.read(read, now, &mut self.events);
        }
        if buffered > 0 {
            self.send_buffered(tag, buffered, now);
        }
    }

    fn unbuffered(&self, from: u64, to: u64) -> u32 {
        let pages = from / PAGE_SECTORS..to.div_ceil(PAGE_SECTORS);
        pages.filter(|&page| !self.buffer.holds(page)).count() as u32
    }

    fn send_buffered(&mut self, tag: u32, sectors: u64, now: Time) {
        let ends = self.send(sectors * 512, now);
        let active = &mut self.commands[tag as usize];
        active.ends = ends;
        if active.reads_left == 0 {
            active.from_buffer = true;
            self.events.push(ends, Event::Done(tag));
        }
    }

    fn die_done(&mut self, die: u32, generation: u32, now: Time) {
        let ended = self.flash.die_done(die, generation, now, &mut self.events);
        if let Some(Job::Program { unit: Some(unit), .. }) = ended {
            self.buffer.programmed(unit);
            self.admit_stalled(now);
            self.finish_durable(now);
        }
    }

    fn channel_done(&mut self, channel: u32, now: Time) {
        let Some(read) = self.flash.channel_done(channel, now, &mut self.events) else { return };
        let Some(tag) = read.command else { return };
        let ends = self.send(u64::from(read.sectors) * 512, now);
        let active = &mut self.commands[tag as usize];
        active.ends = ends;
        active.reads_left -= 1;
        if active.reads_left == 0 {
            self.events.push(ends, Event::Done(tag));
        }
    }

    /// Sends data to the host; returns when it has arrived.
    fn send(&mut self, bytes: u64, now: Time) -> Time {
        let ends = now.max(self.to_host_free) + moving(bytes, self.p.host.megabytes_per_second);
        self.to_host_free = ends;
        ends
    }

    /// Receives data from the host; returns when it has arrived.
    fn receive(&mut self, bytes: u64, now: Time) -> Time {
        let free = if self.p.host.full_duplex { &mut self.from_host_free } else { &mut self.to_host_free };
        *free = now.max(*free) + moving(bytes, self.p.host.megabytes_per_second);
        *free
    }

    fn received(&mut self, tag: u32, now: Time) {
        self.stalled.push_back(tag);
        self.admit_stalled(now);
    }

    /// Moves waiting writes into the buffer in order, as far as there is room.
    fn admit_stalled(&mut self, now: Time) {
        while let Some(&tag) = self.stalled.front() {
            let whole = self.admit(tag, now);
            self.program(now);
            if !whole {
                break;
            }
            self.stalled.pop_front();
            self.written_to_buffer(tag, now);
        }
    }

    /// Returns false if part of the write found no room.
    fn admit(&mut self, tag: u32, now: Time) -> bool {
        let Command { start, sectors, .. } = self.commands[tag as usize].command;
        let end = (start + sectors).0;
        let mut page = self.commands[tag as usize].next_page;
        while page * PAGE_SECTORS < end {
            let partial = page * PAGE_SECTORS < start.0 || (page + 1) * PAGE_SECTORS > end;
            let held = self.buffer.holds(page);
            if !self.buffer.admit(page) {
                break;
            }
            if partial && !held {
                self.fill(page, now);
            }
            page += 1;
        }
        self.commands[tag as usize].next_page = page;
        page * PAGE_SECTORS >= end
    }

    /// A partly written page is read first: no command waits for the read, but the die is busy.
    fn fill(&mut self, page: u64, now: Time) {
        let page = page / self.sizes.pages_in_page;
        self.flash.read(Read { command: None, page, mapping_pages: 1, sectors: 0 }, now, &mut self.events);
    }

    fn written_to_buffer(&mut self, tag: u32, now: Time) {
        let wants_flash = self.commands[tag as usize].command.fua || !self.p.write_buffer.write_cache;
        if wants_flash {
            self.flush(tag, now);
        } else {
            self.commands[tag as usize].from_buffer = true;
            self.finish(tag, now);
        }
    }

    /// Completes the command once everything in the buffer is on flash.
    fn flush(&mut self, tag: u32, now: Time) {
        let number = self.buffer.next_number();
        if self.p.write_buffer.power_loss_protection || self.buffer.durable_below() >= number {
            return self.finish(tag, now);
        }
        self.buffer.force(number);
        self.undurable.push_back((number, tag));
        self.program(now);
    }

    fn finish_durable(&mut self, now: Time) {
        while let Some(&(number, tag)) = self.undurable.front() {
            if self.buffer.durable_below() < number {
                break;
            }
            self.undurable.pop_front();
            self.finish(tag, now);
        }
    }

    /// Sends complete or forced programs to the dies in turn, with the corresponding share of garbage collection.
    fn program(&mut self, now: Time) {
        loop {
            let mut pages = 0;
            let unit = self.buffer.take(|page| {
                pages += 1;
                self.collector.owe(self.map.write(page), &self.sizes);
            });
            let Some(unit) = unit else { break };
            self.written.host_pages += pages;
            // The empty part of a forced program is used up all the same.
            let empty = self.sizes.pages_in_program - pages;
            self.collector.owe(self.map.pad(empty), &self.sizes);
            self.on_next_die(Job::Program { unit: Some(unit), loaded: false }, now);
            let (copies, erases) = self.collector.due(self.sizes.pages_in_program, &self.sizes);
            self.collect(copies, erases, now);
        }
    }

    fn collect(&mut self, copies: u64, erases: u64, now: Time) {
        self.written.copied_pages += copies * self.sizes.pages_in_program;
        self.written.erases += erases;
        for _ in 0..copies {
            self.on_next_die(Job::Copy { reads: self.collector.reads() }, now);
        }
        for _ in 0..erases {
            self.flash.work(self.next_erase, Job::Erase, now, &mut self.events);
            self.next_erase = (self.next_erase + 1) % self.p.flash.dies();
        }
    }

    fn on_next_die(&mut self, job: Job, now: Time) {
        self.flash.work(self.next_die, job, now, &mut self.events);
        self.next_die = (self.next_die + 1) % self.p.flash.dies();
    }

    /// Completes a command.
    fn finish(&mut self, tag: u32, now: Time) {
        self.commands[tag as usize].ends = now;
        self.done(tag, now);
    }

    fn done(&mut self, tag: u32, now: Time) {
        let active = &self.commands[tag as usize];
        self.completed.push_back(Completion {
            tag: Tag(tag),
            at: now,
            outcome: active.outcome,
            service: Service {
                started: active.started,
                overhead: active.arrived.since(active.started),
                transfer: now.since(active.arrived),
                from_buffer: active.from_buffer,
                ..Default::default()
            },
        });
    }
}

impl Active {
    fn new(command: Command, started: Time, arrived: Time) -> Self {
        Self {
            command,
            started,
            arrived,
            reads_left: 0,
            ends: arrived,
            next_page: command.start.0 / PAGE_SECTORS,
            from_buffer: false,
            outcome: Outcome::Done,
        }
    }
}

impl Drive for Ssd {
    fn capacity(&self) -> Sector {
        Sector(self.p.capacity_sectors)
    }

    fn depth(&self) -> u32 {
        self.p.depth
    }

    fn submit(&mut self, now: Time, command: Command) {
        self.advance(now);
        let started = now.max(self.controller_free);
        self.controller_free = started + Span::from_nanos(self.p.host.command_ns);
        let arrived = self.controller_free + Span::from_nanos(self.p.host.latency_ns);
        self.commands[command.tag.0 as usize] = Active::new(command, started, arrived);
        self.events.push(arrived, Event::Arrived(command.tag.0));
    }

    fn next_event(&self) -> Option<Time> {
        self.completed.front().map(|done| done.at).or_else(|| self.events.next())
    }

    fn poll(&mut self, now: Time) -> Option<Completion> {
        self.advance(now);
        self.completed.pop_front()
    }

    fn positioning(&self) -> Option<&dyn Positioning> {
        None
    }

    fn ideal(&self) -> Option<&dyn Ideal> {
        Some(self)
    }
}

impl Ideal for Ssd {
    fn least_seek(&self, _: Sector, _: Sector) -> Span {
        Span::ZERO
    }

    fn sequential_transfer(&self, _: Sector, sectors: Sectors) -> Span {
        let (host, flash) = (&self.p.host, &self.p.flash);
        let channels = flash.channel_megabytes_per_second * u64::from(flash.channels);
        moving(sectors.bytes(), host.megabytes_per_second.min(channels))
    }

    fn full_duplex(&self) -> bool {
        self.p.host.full_duplex
    }

    fn interface_picos(&self) -> [u64; 2] {
        [(elevator::SECTOR_BYTES * 1_000_000) / self.p.host.megabytes_per_second.max(1); 2]
    }

    // Flash works in parallel, and its buffer answers requests, so the interface is the bound.
    fn least_pass(&self, extents: &mut dyn Iterator<Item = (Sector, Sector)>, _moves: bool) -> (Span, u64) {
        let sectors: u64 = extents.map(|(start, end)| start.distance(end)).sum();
        (Span::from_nanos(sectors.saturating_mul(self.interface_picos()[0]) / 1000), 0)
    }

    fn buffered_writes(&self) -> Option<Span> {
        (!self.p.host.full_duplex).then_some(Span::ZERO)
    }
}

#[cfg(test)]
mod tests;
