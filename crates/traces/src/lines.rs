//! Reading of line-oriented formats.

use crate::blocks::{Blocks, Step};
use crate::context::{Context, Source};
use crate::error::{Error, Position};
use crate::input::Input;
use crate::line_format::{is_heading, parse_alone};
use crate::record::{Item, Plain, Record, Settle};
use crate::scan::Expected;
use crate::skips::Oddity;

pub(crate) use crate::line_format::{End, LineFormat};

/// What the lines of a format contain.
type Full<F> = <<F as LineFormat>::Item as Item>::Full;

/// The lines of an input.
pub(crate) struct Lines<F: LineFormat> {
    input: Input,
    format: F,
    over: bool,
    number: u64,
    begun: bool,
    /// The lines before `input`, which other threads parse.
    blocks: Option<Box<Blocks<F>>>,
}

impl<F: LineFormat> Lines<F> {
    pub(crate) fn new(input: Input, format: F) -> Self {
        Self::after(0, input, format)
    }

    /// The lines after this number of lines, which are passed.
    pub(crate) fn after(number: u64, input: Input, format: F) -> Self {
        Self { input, format, over: false, number, begun: false, blocks: None }
    }

    /// Starts threads, if allowed and if the recording is not small.
    #[cold]
    fn begin(&mut self, context: &Context) {
        self.begun = true;
        if context.options.threads > 1 && self.input.is_large() {
            let input = std::mem::replace(&mut self.input, Input::empty());
            self.blocks = Some(Box::new(Blocks::start(input, &self.format, context)));
        }
    }

    /// The content of the next line that has a request.
    #[inline]
    pub(crate) fn next_item(&mut self, context: &mut Context) -> Result<Option<Full<F>>, Error> {
        if let Some(blocks) = &mut self.blocks {
            match blocks.next(&mut self.number, context)? {
                Step::Item(item) => return Ok(Some(item)),
                Step::Over => (self.over, self.blocks) = (true, None),
                Step::Rest(rest) => ((self.input, self.format), self.blocks) = (*rest, None),
            }
        } else if !self.begun {
            self.begin(context);
            return self.next_item(context);
        }
        self.next_line(context)
    }

    /// The next item of the present block, if only lines without an item are before it.
    #[inline]
    pub(crate) fn ready_item(&mut self, context: &mut Context) -> Option<Full<F>> {
        self.blocks.as_mut()?.ready(&mut self.number, context)
    }

    fn next_line(&mut self, context: &mut Context) -> Result<Option<Full<F>>, Error> {
        while !self.over {
            let line = match self.input.line() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(stop) => {
                    context.place = Position::Line(self.number);
                    return Err(context.stopped(stop));
                }
            };
            let (bytes, unended, cut) = (line.bytes, line.unended, line.cut);
            self.number += 1;
            let number = self.number;
            context.place = Position::Line(number);
            if cut {
                break;
            }
            match parse_alone(&mut self.format, bytes, context) {
                Ok(Some(item)) => {
                    context.good();
                    return Ok(Some(item.full()));
                }
                Ok(None) => {}
                Err(_) if bytes.is_empty() || is_heading(number, bytes) => {}
                Err(_) if self.format.is_over(bytes) => self.over = true,
                Err(bad) if unended && bad.expected != Expected::KnownDevice => {
                    context.skip(Oddity::CutShort)?
                }
                Err(bad) => context.malformed(bad, bytes)?,
            }
        }
        self.finish(context)
    }

    fn finish(&mut self, context: &mut Context) -> Result<Option<Full<F>>, Error> {
        let odd = if self.over { None } else { self.input.odd_end() };
        self.over = true;
        odd.map(|oddity| context.skip(oddity)).transpose().map(|_| None)
    }
}

impl<F: LineFormat<Item: Item<Full = Record>>> Source for Lines<F> {
    fn next(&mut self, context: &mut Context) -> Result<Option<Record>, Error> {
        self.next_item(context)
    }

    fn read(&mut self, record: &mut Record, context: &mut Context) -> Result<bool, Error> {
        if let Some(blocks) = &mut self.blocks
            && blocks.read(record, &mut self.number, context)
        {
            return Ok(true);
        }
        let next = self.next_item(context)?;
        if let Some(next) = next {
            *record = next;
        }
        Ok(next.is_some())
    }

    fn read_batch(&mut self, to: &mut Vec<Record>, context: &mut Context) -> Result<(), Error> {
        context.places.clear();
        if let Some(blocks) = &mut self.blocks
            && blocks.read_batch(to, &mut self.number, context, |item, ids, place| {
                let mut item = item.full();
                item.settle(ids, place).then_some(item)
            })
        {
            return Ok(());
        }
        to.extend(self.next_item(context)?);
        Ok(())
    }
}

impl<F: LineFormat<Item = Plain>> Lines<F> {
    /// Appends the next requests, as [`Source::read_batch`] does, in the smaller form.
    pub(crate) fn read_plain(&mut self, to: &mut Vec<Plain>, context: &mut Context) -> Result<(), Error> {
        if let Some(blocks) = &mut self.blocks
            && blocks.read_batch(to, &mut self.number, context, |item, ids, _| item.settled(ids))
        {
            return Ok(());
        }
        to.extend(self.next_item(context)?.as_ref().map(Plain::of));
        Ok(())
    }
}
