//! Syntax analysis: blocks of fields.

use super::lexer::{Lexer, Token};
use super::{ReadError, Resolver, SourceLine, text};

/// Maximum nesting of blocks, lists and sourced files. DiskSim's files have five levels.
const DEPTH_MAX: u32 = 16;
/// Upper bound for the length of a list with ranges: more than an experiment has components.
const NAMES_MAX: usize = 100_000;

/// `type { field = value, … }`
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Block {
    pub(super) kind: String,
    /// The name of a top-level block; otherwise empty.
    pub(super) name: String,
    pub(super) place: SourceLine,
    pub(super) fields: Vec<Field>,
}

/// `name = value`
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) place: SourceLine,
    /// The folder for files that the field names.
    pub(super) folder: Folder,
    pub(super) value: Value,
}

/// The folder of a file, relative to the file that the caller names.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Folder(String);

impl Folder {
    /// The folder of a named file.
    fn of(name: &str) -> Self {
        Self(name.rsplit_once('/').map_or_else(String::new, |(folder, _)| folder.to_owned()))
    }

    /// The name under which to open `name`: as in libparam, relative to this folder if such a file exists, otherwise relative to the
    /// first file.
    pub(super) fn file(&self, name: &str, open: Resolver<'_>) -> String {
        let beside = if name.starts_with('/') { name.to_owned() } else { format!("{}/{name}", self.0) };
        if self.0.is_empty() || open(&beside).is_err() { name.to_owned() } else { beside }
    }
}

/// A field's value.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Number(f64),
    Word(String),
    List(Vec<Self>),
    Block(Block),
}

/// The single block of a file.
pub(super) fn file(name: &str, open: Resolver<'_>) -> Result<Block, ReadError> {
    sourced(name, Folder::default(), open, 0)
}

fn sourced(name: &str, folder: Folder, open: Resolver<'_>, depth: u32) -> Result<Block, ReadError> {
    let text = text(name, open)?;
    let mut parser = Parser { lexer: Lexer::new(name, &text), folder, open, depth };
    let Token::Word(kind) = parser.lexer.next() else {
        return Err(parser.lexer.error("expected a block: a type, a name and '{'"));
    };
    let block = parser.block(kind)?;
    match parser.lexer.next() {
        Token::End => Ok(block),
        _ => Err(parser.lexer.error("expected the end of the file after the block")),
    }
}

pub(super) struct Parser<'a, 'r> {
    pub(super) lexer: Lexer<'a>,
    pub(super) folder: Folder,
    pub(super) open: Resolver<'r>,
    pub(super) depth: u32,
}

impl Parser<'_, '_> {
    pub(super) fn word(&mut self) -> Result<String, ReadError> {
        match self.lexer.next() {
            Token::Word(word) => Ok(word),
            _ => Err(self.lexer.error("expected a word")),
        }
    }

    /// The rest of a block after its type.
    pub(super) fn block(&mut self, kind: String) -> Result<Block, ReadError> {
        let place = self.lexer.place.clone();
        let mut name = String::new();
        if let Token::Word(word) = self.lexer.peek() {
            self.lexer.next();
            name = word;
        }
        if self.lexer.next() != Token::Mark('{') {
            return Err(self.lexer.error(format!("expected '{{' after '{kind}'")));
        }
        self.deeper()?;
        let fields = self.fields()?;
        self.depth -= 1;
        Ok(Block { kind, name, place, fields })
    }

    fn fields(&mut self) -> Result<Vec<Field>, ReadError> {
        let mut fields = Vec::new();
        while !self.closed('}')? {
            let name = self.lexer.field_name()?;
            let place = self.lexer.place.clone();
            let value = self.value()?;
            fields.push(Field { name, place, folder: self.folder.clone(), value });
            self.separator('}')?;
        }
        Ok(fields)
    }

    fn value(&mut self) -> Result<Value, ReadError> {
        match self.lexer.next() {
            Token::Mark('[') => self.list().map(Value::List),
            Token::Word(word) if word == "source" => self.source(),
            Token::Word(word) if self.lexer.peek() == Token::Mark('{') => self.block(word).map(Value::Block),
            Token::Word(word) => Ok(word.parse().map_or(Value::Word(word), Value::Number)),
            _ => Err(self.lexer.error("expected a value")),
        }
    }

    pub(super) fn list(&mut self) -> Result<Vec<Value>, ReadError> {
        self.deeper()?;
        let mut values = Vec::new();
        while !self.closed(']')? {
            values.push(self.value()?);
            if self.lexer.peek() == Token::Word("..".to_owned()) {
                self.lexer.next();
                let last = self.value()?;
                self.range(&mut values, &last)?;
            }
            self.separator(']')?;
        }
        self.depth -= 1;
        Ok(values)
    }

    /// `disk0 .. disk3`: appends the names after the first, up to the last.
    fn range(&self, values: &mut Vec<Value>, last: &Value) -> Result<(), ReadError> {
        let numbered = |value: &Value| {
            let Value::Word(word) = value else { return None };
            let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
            word[stem.len()..].parse::<u16>().ok().map(|number| (stem.to_owned(), number))
        };
        match (values.last().and_then(numbered), numbered(last)) {
            (Some(_), Some((_, to))) if values.len() + usize::from(to) > NAMES_MAX => {
                Err(self.lexer.error(format!("more than {NAMES_MAX} names in a list")))
            }
            (Some((stem, from)), Some((same, to))) if stem == same && from < to => {
                values.extend((from + 1..=to).map(|n| Value::Word(format!("{stem}{n}"))));
                Ok(())
            }
            _ => Err(self.lexer.error("expected two names that end in rising numbers around '..'")),
        }
    }

    fn source(&mut self) -> Result<Value, ReadError> {
        self.sourced(sourced).map(Value::Block)
    }

    /// Applies `read` to the file named next, with its folder, the resolver and the nesting depth.
    pub(super) fn sourced<T>(
        &mut self,
        read: impl FnOnce(&str, Folder, Resolver<'_>, u32) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let name = self.word()?;
        let place = self.lexer.place.clone();
        self.deeper()?;
        let name = self.folder.file(&name, self.open);
        let found = read(&name, Folder::of(&name), self.open, self.depth);
        self.depth -= 1;
        found.map_err(|error| error.named_at(&place))
    }

    /// Whether the closing mark is next; consumes it.
    pub(super) fn closed(&mut self, mark: char) -> Result<bool, ReadError> {
        match self.lexer.peek() {
            Token::Mark(m) if m == mark => {
                self.lexer.next();
                Ok(true)
            }
            Token::End => Err(self.lexer.error(format!("the file ends where '{mark}' is missing"))),
            _ => Ok(false),
        }
    }

    /// Consumes a comma, which is optional before the closing mark.
    pub(super) fn separator(&mut self, closing: char) -> Result<(), ReadError> {
        match self.lexer.peek() {
            Token::Mark(',') => {
                self.lexer.next();
                Ok(())
            }
            Token::Mark(m) if m == closing => Ok(()),
            _ => Err(self.lexer.error(format!("expected ',' or '{closing}'"))),
        }
    }

    pub(super) fn deeper(&mut self) -> Result<(), ReadError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.lexer.error("blocks, lists or files are nested more than 16 deep"));
        }
        Ok(())
    }
}
