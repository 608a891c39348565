//! Lexical analysis: words and punctuation, with line numbers.

use super::{ReadError, SourceLine};

/// A token of a parameter file.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    Word(String),
    /// One of `{ } [ ] , =`.
    Mark(char),
    End,
}

/// The unread rest of a file.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    pub(super) place: SourceLine,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(file: &str, text: &'a str) -> Self {
        Self { rest: text, place: SourceLine { file: file.to_owned(), line: 1 } }
    }

    pub(super) fn error(&self, what: impl Into<String>) -> ReadError {
        ReadError::at(&self.place, what)
    }

    /// The next token, without consuming it.
    pub(super) fn peek(&mut self) -> Token {
        self.skip_blank();
        match self.rest.chars().next() {
            None => Token::End,
            Some(c) if is_mark(c) => Token::Mark(c),
            Some(_) => Token::Word(self.word().to_owned()),
        }
    }

    /// Consumes the next token.
    pub(super) fn next(&mut self) -> Token {
        let token = self.peek();
        match &token {
            Token::Word(word) => self.rest = &self.rest[word.len()..],
            Token::Mark(mark) => self.rest = &self.rest[mark.len_utf8()..],
            Token::End => {}
        }
        token
    }

    /// Consumes a field's name: all words up to `=`, joined by single blanks.
    pub(super) fn field_name(&mut self) -> Result<String, ReadError> {
        let mut name = String::new();
        loop {
            match self.next() {
                Token::Word(word) if name.len() < 200 => {
                    if !name.is_empty() {
                        name.push(' ');
                    }
                    name.push_str(&word);
                }
                Token::Mark('=') if !name.is_empty() => return Ok(name),
                Token::End => return Err(self.error("the file ends inside a block")),
                _ => return Err(self.error(format!("expected a field and '=', found '{name} …'"))),
            }
        }
    }

    fn word(&self) -> &'a str {
        let end = self.rest.find(|c: char| c.is_whitespace() || is_mark(c) || c == '#');
        &self.rest[..end.unwrap_or(self.rest.len())]
    }

    fn skip_blank(&mut self) {
        loop {
            let trimmed = self.rest.trim_start();
            self.count_lines(trimmed);
            if !trimmed.starts_with('#') {
                return;
            }
            let end = trimmed.find('\n').unwrap_or(trimmed.len());
            self.rest = &trimmed[end..];
        }
    }

    fn count_lines(&mut self, trimmed: &'a str) {
        let skipped = &self.rest[..self.rest.len() - trimmed.len()];
        self.place.line += skipped.bytes().filter(|&b| b == b'\n').count() as u32;
        self.rest = trimmed;
    }
}

fn is_mark(c: char) -> bool {
    matches!(c, '{' | '}' | '[' | ']' | ',' | '=')
}
