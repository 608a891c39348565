//! What an experiment's file has beside blocks: components, and how they are attached to one another.

use super::lexer::{Lexer, Token};
use super::parser::{Block, Folder, Parser, Value};
use super::{Place, ReadError, Resolver, text};

/// What may stand at the top of an experiment's file.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Statement {
    Block(Block),
    /// `instantiate [ names ] as block`
    Instances {
        names: Vec<String>,
        block: String,
    },
    /// `topology type name [ … ]`
    Topology(Place, Node),
}

/// A component and what is attached below it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Node {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) below: Vec<Self>,
}

/// All that an experiment's file says; files that it names are part of it.
pub(super) fn statements(name: &str, open: Resolver<'_>) -> Result<Vec<Statement>, ReadError> {
    read(name, Folder::default(), open, 0)
}

/// A file among statements may hold several, as that of DiskSim's MEMS devices does.
fn read(name: &str, folder: Folder, open: Resolver<'_>, depth: u32) -> Result<Vec<Statement>, ReadError> {
    let text = text(name, open)?;
    let mut parser = Parser { lexer: Lexer::new(name, &text), folder, open, depth };
    let mut found = Vec::new();
    loop {
        match parser.lexer.next() {
            Token::End => return Ok(found),
            Token::Word(source) if source == "source" => found.extend(parser.sourced(read)?),
            Token::Word(kind) => found.push(parser.statement(kind)?),
            Token::Mark(_) => return Err(parser.lexer.error("expected a block or a statement")),
        }
    }
}

impl Parser<'_, '_> {
    fn statement(&mut self, kind: String) -> Result<Statement, ReadError> {
        match kind.as_str() {
            "instantiate" => self.instances(),
            "topology" => {
                let place = self.lexer.place.clone();
                Ok(Statement::Topology(place, self.node()?))
            }
            _ => self.block(kind).map(Statement::Block),
        }
    }

    fn instances(&mut self) -> Result<Statement, ReadError> {
        self.expect('[')?;
        let mut names = Vec::new();
        for value in self.list()? {
            match value {
                Value::Word(name) => names.push(name),
                _ => return Err(self.lexer.error("expected names of components after 'instantiate'")),
            }
        }
        if self.word()? != "as" {
            return Err(self.lexer.error("expected 'as' after the components' names"));
        }
        Ok(Statement::Instances { names, block: self.word()? })
    }

    fn node(&mut self) -> Result<Node, ReadError> {
        let (kind, name) = (self.word()?, self.word()?);
        self.expect('[')?;
        self.deeper()?;
        let mut below = Vec::new();
        while !self.closed(']')? {
            below.push(self.node()?);
            self.separator(']')?;
        }
        self.depth -= 1;
        Ok(Node { kind, name, below })
    }

    fn expect(&mut self, mark: char) -> Result<(), ReadError> {
        match self.lexer.next() {
            Token::Mark(found) if found == mark => Ok(()),
            _ => Err(self.lexer.error(format!("expected '{mark}'"))),
        }
    }
}
