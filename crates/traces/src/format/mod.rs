//! The formats that can be read and written: one module each, which documents columns, units and pitfalls.
//!
//! A format is a module with a `SPEC`, its `pub mod` here, and a line in `list.rs`. `docs/adding-a-trace-format.md` has a worked example.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::context::{Context, Source};
use crate::error::Error;
use crate::input::Input;
use crate::write::{Holds, Writes};

pub mod alibaba;
pub mod blkparse;
pub mod blktrace;
pub mod cloudphysics;
pub mod disksim;
pub mod disksim_validate;
pub mod dwell;
pub mod fio;
pub mod ftrace;
pub(crate) mod list;
pub mod mqsim;
pub mod msr;
pub mod parquet;
pub mod spc;
pub mod srt;
pub mod tencent;
pub mod vscsi;

pub use list::Format;

macro_rules! specs {
    ($($(#[$doc:meta])* $variant:ident = $module:ident;)+) => {
        impl Format {
            const fn spec(self) -> &'static Spec {
                match self { $(Self::$variant => &$module::SPEC),+ }
            }
        }
    };
}

list::formats!(specs);

/// A source of records, or why the file is not of the format.
type Opened = Result<Box<dyn Source>, Error>;

/// What a format's module declares.
pub(crate) struct Spec {
    /// The format's identifier, as in [`Format::name`].
    pub(crate) name: &'static str,
    /// The format's name in a sentence, as in [`Format::title`].
    pub(crate) title: &'static str,
    /// Parts of a file's name between dots that suggest the format, besides `name`.
    pub(crate) extensions: &'static [&'static str],
    /// How the content of a file reveals the format.
    pub(crate) signature: Signature,
    /// Makes a source of records. The input is at the first byte.
    pub(crate) reader: fn(Input, &mut Context) -> Opened,
    /// The writer of lines or records. `None` if there is none, or if the writer needs a file (Parquet).
    pub(crate) writes: Option<Writes>,
}

/// How the content of a file reveals its format. Detection tries the variants in this order.
pub(crate) enum Signature {
    /// The first bytes of the file: a magic number or a title.
    Start(fn(&[u8]) -> bool),
    /// A whole line, without its end.
    Line(fn(&[u8]) -> bool),
    /// The first nine comma-separated cells of a line, without surrounding blanks.
    Cells(fn(&[&str]) -> bool),
    /// The first seven words of a line without commas.
    Words(fn(&[&str]) -> bool),
    /// The head of the file. Tried after the lines, because the check accepts files of other formats.
    Head(fn(&[u8]) -> bool),
}

impl Format {
    /// The format's identifier: lower case, without blanks; what [`from_name`](Self::from_name) accepts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// The format's name in a sentence.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.spec().title
    }

    /// The format with that identifier, in either case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name().eq_ignore_ascii_case(name))
    }

    /// The format that a part of a file's name suggests: its identifier, or an extension that its files have.
    pub(crate) fn from_extension(part: &str) -> Option<Self> {
        let suggests = |format: &Self| format.name() == part || format.spec().extensions.contains(&part);
        Self::ALL.iter().copied().find(suggests)
    }

    /// What [`Writer`](crate::write::Writer) can write of a recording; `None` for Parquet, which holds everything and has a writer of its own.
    #[must_use]
    pub fn holds(self) -> Option<Holds> {
        self.writes().map(|writes| writes.holds)
    }

    pub(crate) fn writes(self) -> Option<&'static Writes> {
        self.spec().writes.as_ref()
    }

    pub(crate) fn signature(self) -> &'static Signature {
        &self.spec().signature
    }

    /// Makes a source of records of this format.
    ///
    /// # Errors
    /// If the first bytes are not of the format.
    pub(crate) fn reader(self, input: Input, context: &mut Context) -> Opened {
        (self.spec().reader)(input, context)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.title())
    }
}

impl Serialize for Format {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
