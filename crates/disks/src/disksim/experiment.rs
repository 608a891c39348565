//! DiskSim's experiment files (`.parv`), of which the model uses the bus of the drive.
//!
//! A `.diskspecs` file has the drive's transfer time per sector. The host's transfer time, which determines transfers if the host is
//! slower, is in the experiment: "Read block transfer time" and "Write block transfer time" of the buses between driver and drive.
//! Everything else in the file concerns software and workload.
//!
//! *Source.* DiskSim 4.0 reference manual, "Input/output subsystem component specification" and "topology".

use std::fmt;

use serde::Deserialize;

use super::fields::Fields;
use super::lexer::{Lexer, Token};
use super::parser::{Block, Folder, Parser, Value};
use super::{ReadError, Resolver, SourceLine, text};
use crate::parameters::SECTOR_MS_MAX;

/// Transfer time per sector of a host's bus, in ms.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    pub(super) read_sector_ms: f64,
    pub(super) write_sector_ms: f64,
}

impl Host {
    /// The slower of two buses in series.
    pub(super) fn slower(self, other: Self) -> Self {
        Self {
            read_sector_ms: self.read_sector_ms.max(other.read_sector_ms),
            write_sector_ms: self.write_sector_ms.max(other.write_sector_ms),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms a sector read, {} ms written", self.read_sector_ms, self.write_sector_ms)
    }
}

/// A drive and its host.
pub(super) struct Experiment {
    pub(super) drive: Block,
    pub(super) host: Host,
}

/// Reads an experiment whose drives are all alike and on equal buses.
pub(super) fn read(name: &str, open: Resolver<'_>) -> Result<Experiment, ReadError> {
    let parts = Parts::read(name, open)?;
    let mut found = parts.drives()?;
    let place = &parts.place;
    let Some((drive, host)) = found.pop() else {
        return Err(ReadError::at(place, "the topology has no disksim_disk"));
    };
    let is_other = |(other, its): &&(&Block, Host)| other.name != drive.name || *its != host;
    if let Some((other, _)) = found.iter().find(is_other) {
        let what = format!(
            "the topology has drives that differ ('{}', '{}'); name the .diskspecs file of one",
            other.name, drive.name
        );
        return Err(ReadError::at(place, what));
    }
    Ok(Experiment { drive: drive.clone(), host })
}

/// The host of a drive in an experiment, by the name in the drive's `.diskspecs` file; `None` if the experiment has no such drive.
pub(super) fn host_of(drive: &str, name: &str, open: Resolver<'_>) -> Result<Option<Host>, ReadError> {
    let parts = Parts::read(name, open)?;
    let drives = parts.drives()?;
    Ok(drives.into_iter().find(|(block, _)| block.name == drive).map(|(_, host)| host))
}

/// The content of the file.
struct Parts {
    place: SourceLine,
    blocks: Vec<Block>,
    /// Names of components and of the blocks that specify them.
    instances: Vec<(String, String)>,
    topology: Node,
}

impl Parts {
    fn read(name: &str, open: Resolver<'_>) -> Result<Self, ReadError> {
        let place = SourceLine { file: name.to_owned(), line: 1 };
        let (mut blocks, mut instances, mut topology) = (Vec::new(), Vec::new(), None);
        for statement in statements(name, open)? {
            match statement {
                Statement::Block(block) => blocks.push(block),
                Statement::Instances { names, block } => {
                    instances.extend(names.into_iter().map(|name| (name, block.clone())));
                }
                Statement::Topology(place, node) => topology = Some((place, node)),
            }
        }
        match topology {
            Some((place, topology)) => Ok(Self { place, blocks, instances, topology }),
            None => Err(ReadError::at(&place, "there is no topology")),
        }
    }

    /// The drives and their hosts, in the order of the topology.
    fn drives(&self) -> Result<Vec<(&Block, Host)>, ReadError> {
        let mut found = Vec::new();
        self.descend(&self.topology, Host::default(), &mut found)?;
        Ok(found)
    }

    fn descend<'a>(
        &'a self,
        node: &Node,
        above: Host,
        found: &mut Vec<(&'a Block, Host)>,
    ) -> Result<(), ReadError> {
        let host = match node.kind.as_str() {
            "disksim_bus" => above.slower(bus(self.block_of(node)?)?),
            "disksim_disk" => {
                found.push((self.block_of(node)?, above));
                above
            }
            _ => above,
        };
        node.below.iter().try_for_each(|below| self.descend(below, host, found))
    }

    /// The block that specifies a component.
    fn block_of(&self, node: &Node) -> Result<&Block, ReadError> {
        let block = self.instances.iter().find(|(name, _)| *name == node.name).map(|(_, block)| block);
        let block =
            block.and_then(|name| self.blocks.iter().find(|b| b.kind == node.kind && b.name == *name));
        let missing = || format!("the {} '{}' is not instantiated", node.kind, node.name);
        block.ok_or_else(|| ReadError::at(&self.place, missing()))
    }
}

fn bus(block: &Block) -> Result<Host, ReadError> {
    let mut fields = Fields::of(block.clone(), "disksim_bus")?;
    Ok(Host {
        read_sector_ms: fields.number("Read block transfer time", 0.0, SECTOR_MS_MAX)?,
        write_sector_ms: fields.number("Write block transfer time", 0.0, SECTOR_MS_MAX)?,
    })
}

/// A top-level statement of an experiment file.
#[derive(Clone, PartialEq, Debug)]
enum Statement {
    Block(Block),
    /// `instantiate [ names ] as block`
    Instances {
        names: Vec<String>,
        block: String,
    },
    /// `topology type name [ … ]`
    Topology(SourceLine, Node),
}

/// A component and the components attached below it.
#[derive(Clone, PartialEq, Debug)]
struct Node {
    kind: String,
    name: String,
    below: Vec<Self>,
}

/// All statements of an experiment file, including sourced files.
fn statements(name: &str, open: Resolver<'_>) -> Result<Vec<Statement>, ReadError> {
    read_statements(name, Folder::default(), open, 0)
}

/// Sourced files may contain several blocks, as those of DiskSim's MEMS devices do.
fn read_statements(
    name: &str,
    folder: Folder,
    open: Resolver<'_>,
    depth: u32,
) -> Result<Vec<Statement>, ReadError> {
    let text = text(name, open)?;
    let mut parser = Parser { lexer: Lexer::new(name, &text), folder, open, depth };
    let mut found = Vec::new();
    loop {
        match parser.lexer.next() {
            Token::End => return Ok(found),
            Token::Word(source) if source == "source" => found.extend(parser.sourced(read_statements)?),
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
