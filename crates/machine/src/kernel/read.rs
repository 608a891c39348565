//! Reads: cached pages are used, pages being read are waited for, missing pages are read with read-ahead.

use std::ops::Range;

use elevator::{Flags, Op, Span};

use super::buffers::Of;
use super::cache::{Ahead, Demand, FileId, PageId};
use super::calls::{Descriptor, Errno, Returned};
use super::context::Context;
use super::description::ReadAheadKind;
use super::fs::{BLOCK_BYTES, Block, Inode, Run, Touched};
use super::state::{Bio, Purpose, State, TaskId};

/// The next action of a read.
#[derive(Debug)]
pub(super) enum Step {
    /// None: all pages were used.
    Done,
    /// Read these pages, then continue.
    Fetch(Ahead),
    /// Read this page, which read-ahead did not cover.
    Missing(u64),
    /// Wait for this page.
    Arriving(PageId),
    /// Charge the changed time stamp of the inode, then continue.
    Stamped(Touched),
}

/// A read in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) file: Descriptor,
    pub(super) inode: Inode,
    /// It advances the file position.
    moves: bool,
    /// Its first byte.
    pub(super) from: u64,
    /// The next page to use.
    pub(super) page: u64,
    /// Its last page.
    pub(super) last: u64,
    /// Read-ahead was called for the next page.
    announced: bool,
    /// The next page was waited for or read.
    missed: bool,
    /// The next page was read alone, after a read together with others failed.
    alone: bool,
    /// Bytes that the call returns.
    pub(super) bytes: u64,
}

/// A read that has begun.
pub(super) enum Begun {
    /// Nothing to read: it begins at the end of the file.
    Nothing,
    /// Direct I/O.
    Direct(Reading),
    /// Through the page cache, with the next action.
    Cached(Reading, Step),
}

impl State {
    /// Begins a read; `None` at the end of the file. `at`: the position, if it is not the file position.
    pub(super) fn begin_read(
        &mut self,
        task: TaskId,
        file: Descriptor,
        at: Option<u64>,
        length: u64,
    ) -> Result<Option<Reading>, Errno> {
        let open = self.task(task).descriptors.get(file)?;
        let (inode, position) = (open.inode, at.unwrap_or(open.position));
        if self.fs.is_directory(inode) {
            return Err(Errno::IsADirectory);
        }
        let end = position.saturating_add(length).min(self.fs.size(inode));
        if end <= position {
            return Ok(None);
        }
        if at.is_none() {
            self.task(task).descriptors.get(file)?.position = end;
        }
        Ok(Some(Reading {
            file,
            inode,
            moves: at.is_none(),
            from: position,
            page: position / BLOCK_BYTES,
            last: (end - 1) / BLOCK_BYTES,
            announced: false,
            missed: false,
            alone: false,
            bytes: end - position,
        }))
    }

    /// Begins a read and continues until it needs a wait.
    pub(super) fn start_read(
        &mut self,
        task: TaskId,
        file: Descriptor,
        at: Option<u64>,
        length: u64,
    ) -> Result<Begun, Errno> {
        let direct = self.task(task).descriptors.get(file)?.how.direct;
        let Some(mut reading) = self.begin_read(task, file, at, length)? else { return Ok(Begun::Nothing) };
        if direct {
            return Ok(Begun::Direct(reading));
        }
        let copy = self.rules.page.as_nanos() * reading.bytes / BLOCK_BYTES;
        self.sleepers.spend(self.now, task, Span::from_nanos(copy));
        let step = self.advance_read(task, &mut reading)?;
        Ok(Begun::Cached(reading, step))
    }

    /// Uses pages until an action is needed.
    pub(super) fn advance_read(&mut self, task: TaskId, reading: &mut Reading) -> Result<Step, Errno> {
        let max = self.rules.read_ahead_max;
        let kind = self.rules.description.read_ahead.kind;
        let (windows, floor) = (kind.has_windows(), kind.floor());
        while reading.page <= reading.last {
            let index = reading.page;
            if windows && !std::mem::replace(&mut reading.announced, true) {
                let open = self.task(task).descriptors.get(reading.file)?;
                if let Some(ahead) = open.ahead.windows(index, max, floor) {
                    return Ok(Step::Fetch(ahead));
                }
            }
            let Some(id) = self.pages.find(reading.inode.into(), index) else {
                if index * BLOCK_BYTES >= self.fs.size(reading.inode) {
                    // The file was truncated meanwhile.
                    self.end_early(task, reading)?;
                    break;
                }
                let again = std::mem::replace(&mut reading.missed, true);
                if windows || again || max == 0 {
                    if windows {
                        self.task(task).descriptors.get(reading.file)?.ahead.missed(index, max, floor);
                    }
                    return Ok(Step::Missing(index));
                }
                return Ok(self.demand(task, reading, false)?.map_or(Step::Missing(index), Step::Fetch));
            };
            if std::mem::take(&mut self.pages[id].mark)
                && let Some(ahead) = self.demand(task, reading, true)?
            {
                return Ok(Step::Fetch(ahead));
            }
            if self.pages[id].reading {
                reading.missed = true;
                return Ok(Step::Arriving(id));
            }
            if !self.pages[id].uptodate {
                self.discard_page(id);
                // If pages are read together and the read fails, each page is read again alone.
                if !std::mem::replace(&mut reading.alone, true) {
                    return Ok(Step::Missing(index));
                }
                self.end_early(task, reading)?;
                self.record_read_end(task, reading)?;
                return if reading.bytes > 0 { Ok(Step::Done) } else { Err(Errno::Io) };
            }
            let open = self.task(task).descriptors.get(reading.file)?;
            if open.last_page.replace(index) != Some(index) {
                self.use_page(id);
            }
            if std::mem::take(&mut reading.missed) {
                self.watch.now.misses += 1;
            } else {
                self.watch.now.hits += 1;
            }
            reading.page += 1;
            (reading.announced, reading.alone) = (false, false);
        }
        self.record_read_end(task, reading)?;
        Ok(self.access(reading.inode).map_or(Step::Done, Step::Stamped))
    }

    /// The metadata that a read changes (`file_accessed`), if it changes the time of the last access.
    pub(super) fn access(&mut self, inode: Inode) -> Option<Touched> {
        if !self.rules.access_times {
            return None;
        }
        let mut touched = self.take_touched();
        if self.fs.access(inode, self.stamp(), &mut touched) {
            return Some(touched);
        }
        self.touched.push(touched);
        None
    }

    /// Records the end of the call for on-demand read-ahead.
    fn record_read_end(&mut self, task: TaskId, reading: &Reading) -> Result<(), Errno> {
        if reading.page > reading.from / BLOCK_BYTES && !self.rules.description.read_ahead.kind.has_windows()
        {
            self.task(task).descriptors.get(reading.file)?.ahead.used(reading.page - 1);
        }
        Ok(())
    }

    /// Ends a read before its next page and sets the file position there.
    fn end_early(&mut self, task: TaskId, reading: &mut Reading) -> Result<(), Errno> {
        reading.bytes = (reading.page * BLOCK_BYTES).saturating_sub(reading.from);
        if reading.moves {
            self.task(task).descriptors.get(reading.file)?.position = reading.from + reading.bytes;
        }
        Ok(())
    }

    fn demand(&mut self, task: TaskId, reading: &Reading, marked: bool) -> Result<Option<Ahead>, Errno> {
        let (index, max) = (reading.page, self.rules.read_ahead_max);
        let kind = self.rules.description.read_ahead.kind;
        let demand = Demand {
            page: index,
            request: reading.last - index + 1,
            max,
            marked,
            conservative: kind == ReadAheadKind::OnDemandConservative,
        };
        let mut state = self.task(task).descriptors.get(reading.file)?.ahead;
        let there = |page: u64| self.pages.find(FileId::from(reading.inode), page).is_some();
        let history = || (1..=max.min(index)).take_while(|&back| there(index - back)).count() as u64;
        let hole = || (index + 1..=index + max).find(|&page| !there(page));
        let ahead = state.on_demand(demand, history, hole);
        self.task(task).descriptors.get(reading.file)?.ahead = state;
        Ok(ahead)
    }

    /// Adds the missing pages of a range as being read, as far as memory allows.
    fn make_pages(&mut self, inode: Inode, range: Range<u64>, ahead: Option<Ahead>) -> Vec<PageId> {
        let mut made = self.bios.list();
        for index in range {
            if self.pages.find(inode.into(), index).is_some() {
                continue;
            }
            if !self.make_room() {
                break;
            }
            let id = self.add_page(inode.into(), index);
            let page = &mut self.pages[id];
            page.reading = true;
            page.ahead = ahead.is_some();
            page.mark = ahead.is_some_and(|ahead| ahead.mark == Some(index));
            made.push(id);
        }
        made
    }

    /// The location of pages, and the metadata that must be read to find it.
    pub(super) fn look_up(&mut self, inode: Inode, page: u64, pages: u32) -> (Vec<Run>, Touched) {
        let (mut runs, mut touched) = (self.take_runs(), self.take_touched());
        // Open files are mapped; files that are not open have no blocks.
        if self.fs.map(inode, page, pages, &mut runs, &mut touched).is_err() {
            runs.clear();
        }
        (runs, touched)
    }

    /// Sets the block of each page; pages in holes are complete at once.
    fn place_pages(&mut self, pages: &mut Vec<PageId>, runs: &[Run]) {
        pages.retain(|&id| {
            let page = &mut self.pages[id];
            page.block = block_of(runs, page.index);
            let placed = page.block.is_some();
            if !placed {
                self.page_arrived(id, true);
            }
            placed
        });
    }

    /// A submission of the longest run of adjacent blocks at the front of `pages`.
    fn cut_bio(&mut self, task: TaskId, pages: &mut Vec<PageId>, ahead: bool) -> Option<Bio> {
        let start = self.pages[*pages.first()?].block?;
        let to_boundary = self.rules.read_boundary.map(|boundary| (boundary - start.0 % boundary) as usize);
        let most = self.rules.request_pages.min(to_boundary.unwrap_or(usize::MAX));
        let length = pages
            .iter()
            .zip(0u64..)
            .take(most)
            .take_while(|&(&id, n)| self.pages[id].block == Some(start.plus(n)))
            .count();
        let mut list = self.bios.list();
        list.extend(pages.drain(..length));
        let bio = Bio::of_pages(task, Purpose::Read, Op::Read, start, list);
        Some(Bio { flags: Flags { sync: true, ahead, ..Flags::default() }, ..bio })
    }
}

/// The block of a page.
pub(super) fn block_of(runs: &[Run], index: u64) -> Option<Block> {
    let run = runs.iter().find(|run| (run.page..run.page + u64::from(run.pages)).contains(&index))?;
    run.block.map(|block| block.plus(index - run.page))
}

impl Context {
    /// Reads. Without admission a read begins in `read_at_once` instead.
    pub(super) async fn read(
        &self,
        file: Descriptor,
        at: Option<u64>,
        length: u64,
    ) -> Result<Returned, Errno> {
        let begun = self.with(|state| state.start_read(self.task, file, at, length))?;
        self.read_begun(begun).await
    }

    /// Completes a read that has begun.
    pub(super) async fn read_begun(&self, begun: Begun) -> Result<Returned, Errno> {
        let bytes = match begun {
            Begun::Nothing => 0,
            Begun::Direct(reading) => {
                let mut reading = reading;
                let to = reading.from + reading.bytes;
                let read = Box::pin(self.read_direct(reading.inode, reading.from, to)).await;
                if read.is_err() {
                    self.with(|state| state.end_early(self.task, &mut reading))?;
                }
                read?
            }
            Begun::Cached(reading, step) => self.read_pages(reading, step).await?,
        };
        Ok(Returned::Bytes(bytes))
    }

    /// Continues a read with `step`; returns the bytes read.
    pub(super) async fn read_pages(&self, mut reading: Reading, mut step: Step) -> Result<u64, Errno> {
        loop {
            match step {
                Step::Done => break,
                Step::Fetch(ahead) => {
                    let fetched = self.fetch(reading.inode, ahead.start, ahead.pages, Some(ahead)).await;
                    self.with(|state| {
                        let kind = state.rules.description.read_ahead.kind;
                        if kind.has_windows()
                            && let Ok(open) = state.task(self.task).descriptors.get(reading.file)
                        {
                            open.ahead.fetched(fetched, kind.floor());
                        }
                    });
                }
                Step::Missing(index) => {
                    self.room().await;
                    self.fetch(reading.inode, index, 1, None).await;
                }
                Step::Arriving(id) => self.wait_for_page(id).await,
                Step::Stamped(touched) => self.settle(touched, Of::Name).await?,
            }
            step = self.with(|state| state.advance_read(self.task, &mut reading))?;
        }
        Ok(reading.bytes)
    }

    /// Reads the missing pages of a range; returns how many. Read-ahead stops when memory is short.
    ///
    /// Data before a mapping block that must be read first is submitted before that block's read, as `do_mpage_readpage` does
    /// at `buffer_boundary`, because otherwise the head would return for it.
    pub(super) async fn fetch(&self, inode: Inode, start: u64, pages: u64, ahead: Option<Ahead>) -> u64 {
        let mut made = self.with(|state| {
            let end = (start + pages).min(state.fs.size(inode).div_ceil(BLOCK_BYTES));
            state.make_pages(inode, start..end.max(start), ahead)
        });
        let fetched = made.len() as u64;
        while let Some(Part { mut pages, runs, touched }) =
            self.with(|state| state.next_part(inode, &mut made))
        {
            if !touched.reads.is_empty() && self.fetch_buffers(&touched.reads).await.is_err() {
                pages.append(&mut made);
                self.with(|state| state.give_up(&pages));
                return fetched;
            }
            self.with(|state| {
                state.place_pages(&mut pages, &runs);
                state.touched.push(touched);
                state.runs.push(runs);
            });
            while let Some(bio) = self.with(|state| state.cut_bio(self.task, &mut pages, ahead.is_some())) {
                self.submit(bio).await;
            }
        }
        fetched
    }
}

/// Pages whose locations need the same mapping blocks.
struct Part {
    pages: Vec<PageId>,
    runs: Vec<Run>,
    touched: Touched,
}

impl State {
    /// Splits off the front of `made` that can be submitted before more mapping blocks are read.
    fn next_part(&mut self, inode: Inode, made: &mut Vec<PageId>) -> Option<Part> {
        let (&first, &last) = (made.first()?, made.last()?);
        let (first, last) = (self.pages[first].index, self.pages[last].index);
        let (mut runs, mut touched) = self.look_up(inode, first, (last - first + 1) as u32);
        let mut end = last + 1;
        if !touched.reads.is_empty() && last > first {
            let needed = |state: &mut Self, pages: u64| {
                let (runs, touched) = state.look_up(inode, first, pages as u32);
                let needed = touched.reads.len();
                state.touched.push(touched);
                state.runs.push(runs);
                needed
            };
            let least = needed(self, 1);
            if least < touched.reads.len() {
                // `enough` pages need no more mapping blocks than the first page; `more` pages do.
                let (mut enough, mut more) = (1, last - first + 1);
                while more - enough > 1 {
                    let middle = enough + (more - enough) / 2;
                    if needed(self, middle) > least { more = middle } else { enough = middle }
                }
                end = first + enough;
                self.touched.push(touched);
                self.runs.push(runs);
                (runs, touched) = self.look_up(inode, first, enough as u32);
            }
        }
        let split = made.iter().position(|&id| self.pages[id].index >= end).unwrap_or(made.len());
        let rest = made.split_off(split);
        let pages = std::mem::replace(made, rest);
        Some(Part { pages, runs, touched })
    }

    /// Marks pages as read without content.
    fn give_up(&mut self, pages: &[PageId]) {
        for &id in pages {
            self.page_arrived(id, false);
        }
    }
}
