//! Typed access to a block's fields. Fields that no call has consumed are unknown.

use elevator::text::did_you_mean;

use super::parser::{Block, Field, Value};
use super::{Note, ReadError, Resolver, SourceLine, text};
use crate::parameters::LONGEST_MS;

/// The fields of a block, and the names of the consumed ones.
pub(super) struct Fields {
    place: SourceLine,
    kind: String,
    rest: Vec<Field>,
    known: Vec<&'static str>,
    pub(super) notes: Vec<Note>,
}

type ReadResult<T> = Result<T, ReadError>;

impl Fields {
    /// The fields of a block of that type.
    pub(super) fn of(block: Block, kind: &str) -> ReadResult<Self> {
        if block.kind != kind {
            let what =
                format!("a {} block where {kind} is expected; this model reads {kind} only", block.kind);
            return Err(ReadError::at(&block.place, what));
        }
        let Block { kind, place, fields, .. } = block;
        Ok(Self { place, kind, rest: fields, known: Vec::new(), notes: Vec::new() })
    }

    pub(super) fn place(&self) -> &SourceLine {
        &self.place
    }

    /// The line of a field that was not consumed yet, or else of the block.
    pub(super) fn place_of(&self, name: &'static str) -> SourceLine {
        let field = self.rest.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.map_or(&self.place, |field| &field.place).clone()
    }

    /// Whether both fields exist and the first precedes the second.
    pub(super) fn stands_before(&self, name: &str, other: &str) -> bool {
        let place = |name: &str| self.rest.iter().position(|field| field.name.eq_ignore_ascii_case(name));
        place(name).zip(place(other)).is_some_and(|(one, other)| one < other)
    }

    fn find(&mut self, name: &'static str) -> Option<Field> {
        self.known.push(name);
        let index = self.rest.iter().position(|field| field.name.eq_ignore_ascii_case(name))?;
        Some(self.rest.remove(index))
    }

    fn need(&mut self, name: &'static str) -> ReadResult<Field> {
        let missing = format!("{}: the field '{name}' is missing", self.kind);
        self.find(name).ok_or_else(|| ReadError::at(&self.place, missing))
    }

    /// A number between the bounds, inclusive.
    pub(super) fn number(&mut self, name: &'static str, low: f64, high: f64) -> ReadResult<f64> {
        let field = self.need(name)?;
        number(&field, low, high)
    }

    /// The same, if the field exists.
    pub(super) fn optional_number(
        &mut self,
        name: &'static str,
        low: f64,
        high: f64,
    ) -> ReadResult<Option<f64>> {
        self.find(name).map(|field| number(&field, low, high)).transpose()
    }

    /// A time of 0 to 3,600,000 ms.
    pub(super) fn ms(&mut self, name: &'static str) -> ReadResult<f64> {
        self.number(name, 0.0, LONGEST_MS)
    }

    /// A whole number between the bounds, inclusive.
    pub(super) fn whole(&mut self, name: &'static str, low: u32, high: u32) -> ReadResult<u32> {
        let field = self.need(name)?;
        whole(&field, low, high)
    }

    /// 0 or 1.
    pub(super) fn flag(&mut self, name: &'static str) -> ReadResult<bool> {
        self.whole(name, 0, 1).map(|n| n == 1)
    }

    /// A word.
    pub(super) fn word(&mut self, name: &'static str) -> ReadResult<(String, SourceLine)> {
        let field = self.need(name)?;
        match field.value {
            Value::Word(word) => Ok((word, field.place)),
            _ => Err(wrong(&field, "a word")),
        }
    }

    /// A word, if the field exists.
    pub(super) fn optional_word(&mut self, name: &'static str) -> ReadResult<Option<(String, SourceLine)>> {
        let there = self.rest.iter().any(|field| field.name.eq_ignore_ascii_case(name));
        self.known.push(name);
        if there { self.word(name).map(Some) } else { Ok(None) }
    }

    /// The name and text of a file, if the field exists.
    pub(super) fn optional_file(
        &mut self,
        name: &'static str,
        open: Resolver<'_>,
    ) -> ReadResult<Option<(String, String)>> {
        let Some(field) = self.find(name) else { return Ok(None) };
        let Value::Word(file) = &field.value else { return Err(wrong(&field, "a file's name")) };
        let file = field.folder.file(file, open);
        let text = text(&file, open).map_err(|error| error.named_at(&field.place))?;
        Ok(Some((file, text)))
    }

    /// A block.
    pub(super) fn block(&mut self, name: &'static str) -> ReadResult<Block> {
        let field = self.need(name)?;
        match field.value {
            Value::Block(block) => Ok(block),
            _ => Err(wrong(&field, "a block")),
        }
    }

    /// Whether skews are in revolutions (not sectors), if the field exists.
    pub(super) fn skew_units(&mut self) -> ReadResult<Option<bool>> {
        match self.optional_word("Skew units")? {
            None => Ok(None),
            Some((word, _)) if word == "revolutions" => Ok(Some(true)),
            Some((word, _)) if word == "sectors" => Ok(Some(false)),
            Some((word, place)) => {
                Err(ReadError::at(&place, format!("'Skew units = {word}': must be sectors or revolutions")))
            }
        }
    }

    /// A list of blocks.
    pub(super) fn blocks(&mut self, name: &'static str) -> ReadResult<Vec<Block>> {
        let field = self.need(name)?;
        let Value::List(values) = &field.value else {
            return Err(wrong(&field, "a list of blocks"));
        };
        let block = |value: &Value| match value {
            Value::Block(block) => Ok(block.clone()),
            _ => Err(wrong(&field, "a list of blocks")),
        };
        values.iter().map(block).collect()
    }

    /// A list of any values.
    pub(super) fn values(&mut self, name: &'static str) -> ReadResult<(Vec<Value>, SourceLine)> {
        let field = self.need(name)?;
        match field.value {
            Value::List(values) => Ok((values, field.place)),
            _ => Err(wrong(&field, "a list")),
        }
    }

    /// A list of whole numbers.
    pub(super) fn wholes(&mut self, name: &'static str) -> ReadResult<Vec<u32>> {
        let field = self.need(name)?;
        let numbers = numbers(&field)?;
        numbers.iter().map(|&n| in_range(&field, n, 0.0, f64::from(u32::MAX)).map(|n| n as u32)).collect()
    }

    /// A list of numbers, if the field exists.
    pub(super) fn optional_numbers(
        &mut self,
        name: &'static str,
    ) -> ReadResult<Option<(Vec<f64>, SourceLine)>> {
        self.find(name).map(|field| numbers(&field).map(|list| (list, field.place))).transpose()
    }

    /// A field without effect here and in DiskSim; adds a note unless its value is neutral.
    pub(super) fn without_effect(
        &mut self,
        name: &'static str,
        neutral: &[f64],
        why: &str,
    ) -> ReadResult<()> {
        let Some(field) = self.find(name) else { return Ok(()) };
        let value = number(&field, f64::MIN, f64::MAX)?;
        if !neutral.contains(&value) {
            let text = format!("'{name} = {value}' has no effect: {why}");
            self.notes.push(Note { place: field.place, text });
        }
        Ok(())
    }

    /// A field that the model supports only with its neutral value.
    pub(super) fn neutral(&mut self, name: &'static str, neutral: f64) -> ReadResult<()> {
        let Some(field) = self.find(name) else { return Ok(()) };
        let value = number(&field, f64::MIN, f64::MAX)?;
        if value == neutral {
            return Ok(());
        }
        let what = format!("'{name} = {value}' is not modelled; only {neutral} is");
        Err(ReadError::at(&field.place, what))
    }

    /// Rejects unknown fields; returns the notes.
    pub(super) fn done(self) -> ReadResult<Vec<Note>> {
        let Some(field) = self.rest.first() else { return Ok(self.notes) };
        if self.known.iter().any(|name| name.eq_ignore_ascii_case(&field.name)) {
            return Err(ReadError::at(&field.place, format!("the field '{}' occurs twice", field.name)));
        }
        let hint = did_you_mean(&field.name, self.known.iter().copied());
        Err(ReadError::at(&field.place, format!("{} has no field '{}'{hint}", self.kind, field.name)))
    }
}

fn numbers(field: &Field) -> ReadResult<Vec<f64>> {
    let Value::List(values) = &field.value else {
        return Err(wrong(field, "a list of numbers"));
    };
    let one = |value: &Value| match value {
        Value::Number(n) => Ok(*n),
        _ => Err(wrong(field, "a list of numbers")),
    };
    values.iter().map(one).collect()
}

fn number(field: &Field, low: f64, high: f64) -> ReadResult<f64> {
    match field.value {
        Value::Number(n) => in_range(field, n, low, high),
        _ => Err(wrong(field, "a number")),
    }
}

fn in_range(field: &Field, n: f64, low: f64, high: f64) -> ReadResult<f64> {
    if (low..=high).contains(&n) {
        return Ok(n);
    }
    Err(ReadError::at(&field.place, format!("'{} = {n}': must lie between {low} and {high}", field.name)))
}

fn whole(field: &Field, low: u32, high: u32) -> ReadResult<u32> {
    let n = number(field, f64::from(low), f64::from(high))?;
    if n.fract() == 0.0 { Ok(n as u32) } else { Err(wrong(field, "a whole number")) }
}

fn wrong(field: &Field, expected: &str) -> ReadError {
    ReadError::at(&field.place, format!("'{}' must be {expected}", field.name))
}
