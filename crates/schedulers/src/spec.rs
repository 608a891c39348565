//! Policies by name: `cfq-2.6.32`, `stream(deadline-2.6.9{fifo_batch=8}){stream_time_slice=50ms}`.
//!
//! ```text
//! spec     = name [ "(" spec ")" ] [ "{" setting { "," setting } "}" ]
//! setting  = tunable "=" value
//! ```
//! Blanks are allowed anywhere between these. A plain name means its default version; a wrapper without an inside wraps
//! [`WRAPPED_BY_DEFAULT`]. What is printed is always the full name.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use elevator::text::did_you_mean;
use elevator::{Tunable, TuneError, Value};

use crate::listing::{BoxedCoordinator, BoxedScheduler, BoxedWorkConserving, Environment, Listing, Make};
use crate::registry::{self, Catalogue, WRAPPED_BY_DEFAULT};

/// A policy with the settings that differ from its defaults; [`Spec::build`] constructs any number of instances.
#[derive(Clone, Debug)]
pub struct Spec {
    listing: &'static Listing,
    inside: Option<Box<Spec>>,
    settings: Vec<(&'static Tunable, Value)>,
}

/// What is wrong with the name of a policy, and where.
#[derive(Clone, PartialEq, Debug)]
pub struct SpecError {
    /// The text.
    pub text: String,
    /// The byte offset in the text at which the error begins.
    pub position: usize,
    /// What is wrong.
    pub kind: SpecErrorKind,
}

/// What is wrong with the name of a policy.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SpecErrorKind {
    /// The text does not follow the syntax.
    Expected {
        /// What was expected, in words.
        expected: String,
        /// The character found; `None` at the end of the text.
        found: Option<char>,
    },
    /// The name is complete and more text follows.
    Trailing(char),
    /// Parentheses are nested too deeply.
    TooDeep,
    /// No scheduler has that name.
    UnknownScheduler {
        /// The name.
        name: String,
        /// Every known name.
        known: Vec<String>,
    },
    /// The scheduler has no tunable of that name.
    UnknownTunable {
        /// The scheduler's full name.
        scheduler: String,
        /// The name.
        name: String,
        /// Every tunable of the scheduler.
        known: Vec<&'static str>,
    },
    /// A tunable is set twice.
    SetTwice(String),
    /// A tunable's value is wrong, or the policy rejects it.
    Tune(TuneError),
    /// The scheduler wraps no other scheduler.
    NoWrapper(String),
    /// The scheduler decides about waiting itself, so no wrapper can be put around it.
    NotWrappable {
        /// The scheduler's full name.
        scheduler: String,
        /// The full names of those that can be wrapped, where they are known.
        wrappable: Vec<String>,
    },
    /// The wrapper has nothing to wrap.
    WrapsNothing,
    /// The scheduler needs hooks for system calls and the page cache, and the host has none.
    NeedsSplitHooks(String),
}

impl fmt::Display for SpecErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected { expected, found: Some(found) } => {
                write!(f, "expected {expected}, found '{found}'")
            }
            Self::Expected { expected, found: None } => write!(f, "expected {expected}, found the end"),
            Self::Trailing(extra) => write!(f, "unexpected '{extra}' after the end of the name"),
            Self::TooDeep => f.write_str("nested too deeply"),
            Self::UnknownScheduler { name, .. } if name.eq_ignore_ascii_case("none") => {
                write!(f, "no scheduler is called '{name}'; the kernel's none is 'noop'")
            }
            Self::UnknownScheduler { name, known } => {
                write!(f, "no scheduler is called '{name}'{}", suggest(name, known))
            }
            Self::UnknownTunable { scheduler, name, known } if known.is_empty() => {
                write!(f, "'{scheduler}' has no tunable '{name}'; it has none")
            }
            Self::UnknownTunable { scheduler, name, known } => {
                write!(f, "'{scheduler}' has no tunable '{name}'{}", suggest(name, known))
            }
            Self::SetTwice(name) => write!(f, "'{name}' is set twice"),
            Self::Tune(error) => fmt::Display::fmt(error, f),
            Self::NoWrapper(scheduler) => write!(f, "'{scheduler}' wraps no other scheduler"),
            Self::NotWrappable { scheduler, wrappable } => {
                write!(f, "'{scheduler}' decides about waiting itself and cannot be wrapped")?;
                match wrappable.as_slice() {
                    [] => Ok(()),
                    names => write!(f, "; {} can", names.join(", ")),
                }
            }
            Self::WrapsNothing => f.write_str("it wraps nothing"),
            Self::NeedsSplitHooks(spec) => {
                write!(
                    f,
                    "'{spec}' also schedules system calls and the page cache; this host has no hooks there"
                )
            }
        }
    }
}

/// The nearest known name, or all of them if none is near.
fn suggest<S: AsRef<str>>(name: &str, known: &[S]) -> String {
    let names = || known.iter().map(AsRef::as_ref);
    match did_you_mean(name, names()) {
        none if none.is_empty() => format!("; known are {}", names().collect::<Vec<_>>().join(", ")),
        hint => hint,
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (character {} of '{}')", self.kind, self.column(), self.text)
    }
}

impl SpecError {
    /// The character, counted from 1, at which the error begins.
    #[must_use]
    pub fn column(&self) -> usize {
        self.text.get(..self.position).map_or(self.position, |before| before.chars().count()) + 1
    }
}

impl core::error::Error for SpecError {}

impl Spec {
    /// Parses a name with its settings; the names are those of this crate's policies.
    ///
    /// # Errors
    /// If the text does not follow the syntax, or a name or value is wrong.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        Self::parse_in(Catalogue::default(), text)
    }

    /// Parses a name with its settings; the names are those of `catalogue`.
    ///
    /// # Errors
    /// If the text does not follow the syntax, or a name or value is wrong.
    pub fn parse_in(catalogue: Catalogue, text: &str) -> Result<Self, SpecError> {
        let mut reader = Reader { catalogue, text, position: 0 };
        let spec = reader.spec()?;
        match reader.peek() {
            None => Ok(spec),
            Some(extra) => Err(reader.error(SpecErrorKind::Trailing(extra))),
        }
    }

    /// A policy with its defaults; a wrapper around [`WRAPPED_BY_DEFAULT`].
    ///
    /// # Panics
    /// Never with this crate's own registry.
    #[must_use]
    pub fn of(listing: &'static Listing) -> Self {
        let inside = listing.is_wrapper().then(|| {
            let wrapped =
                registry::find(WRAPPED_BY_DEFAULT).expect("the registry knows what it wraps by default");
            Box::new(Self::of(wrapped))
        });
        Self { listing, inside, settings: Vec::new() }
    }

    /// The policy.
    #[must_use]
    pub const fn listing(&self) -> &'static Listing {
        self.listing
    }

    /// The wrapped policy.
    #[must_use]
    pub fn inside(&self) -> Option<&Self> {
        self.inside.as_deref()
    }

    /// The value of one of its own tunables: as set, or the default.
    #[must_use]
    pub fn value(&self, tunable: &Tunable) -> Value {
        let set = self.settings.iter().find(|(known, _)| known.name == tunable.name);
        set.map_or(tunable.default, |(_, value)| *value)
    }

    /// Whether the text that was parsed, or [`with_tunable`](Self::with_tunable), set this tunable of the policy or, if it has none of that name, of the wrapped one.
    #[must_use]
    pub fn sets(&self, name: &str) -> bool {
        match (self.listing.tunable(name), &self.inside) {
            (None, Some(inside)) => inside.sets(name),
            _ => self.settings.iter().any(|(known, _)| known.name == name),
        }
    }

    /// Whether the policy, or the wrapped one, has a part above the block layer.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.listing.split || self.inside.as_ref().is_some_and(|inside| inside.is_split())
    }

    /// Checks that the policy works in a host without hooks above the block layer.
    ///
    /// # Errors
    /// If it needs them.
    pub fn at_the_block(self) -> Result<Self, SpecError> {
        if self.is_split() {
            return Err(self.fault(SpecErrorKind::NeedsSplitHooks(self.to_string())));
        }
        Ok(self)
    }

    /// The full name without settings: `stream(deadline-2.6.32)`.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.inside {
            None => self.listing.full_name(),
            Some(inside) => format!("{}({})", self.listing.full_name(), inside.name()),
        }
    }

    /// Adds a setting: of the wrapper or, if it has no tunable of that name, of the wrapped policy.
    ///
    /// # Errors
    /// If neither has a tunable of that name, or the value is of another kind or out of range.
    pub fn with_tunable(mut self, name: &str, value: &str) -> Result<Self, SpecError> {
        let fault = |kind| SpecError { text: format!("{name}={value}"), position: 0, kind };
        self.set(name, value).map_err(fault)?;
        Ok(self)
    }

    fn set(&mut self, name: &str, text: &str) -> Result<(), SpecErrorKind> {
        match (self.listing.tunable(name), &mut self.inside) {
            (Some(tunable), _) => {
                let value = tunable.parse(text).map_err(SpecErrorKind::Tune)?;
                self.settings.retain(|(known, _)| known.name != name);
                self.settings.push((tunable, value));
                Ok(())
            }
            (None, Some(inside)) if inside.listing.tunable(name).is_some() => inside.set(name, text),
            (None, _) => Err(self.unknown_tunable(name)),
        }
    }

    fn unknown_tunable(&self, name: &str) -> SpecErrorKind {
        let known = self.listing.tunables.iter().map(|tunable| tunable.name).collect();
        let scheduler = self.listing.full_name();
        SpecErrorKind::UnknownTunable { scheduler, name: name.to_string(), known }
    }

    /// Constructs the policy.
    ///
    /// # Errors
    /// If the policy rejects a setting that its table allows.
    pub fn build(&self, environment: &Environment) -> Result<BoxedScheduler, SpecError> {
        let mut made: BoxedScheduler = match self.listing.make {
            Make::Scheduler(make) => make(environment),
            Make::WorkConserving(_) => self.build_work_conserving(environment)?,
            Make::Wrapper(make) | Make::Array { member: make, .. } => {
                let inside = self.inside.as_ref().ok_or_else(|| self.fault(SpecErrorKind::WrapsNothing))?;
                if !inside.listing.is_work_conserving() {
                    return inside.build(environment);
                }
                make(environment, inside.build_work_conserving(environment)?)
            }
        };
        if !matches!(self.listing.make, Make::WorkConserving(_)) {
            for (tunable, value) in self.settings.iter().filter(|(tunable, _)| self.is_of_members(tunable)) {
                made.tune(tunable.name, *value).map_err(|error| self.fault(SpecErrorKind::Tune(error)))?;
            }
        }
        Ok(made)
    }

    /// Whether the scheduler itself has the tunable, not only an array's coordinator.
    fn is_of_members(&self, tunable: &Tunable) -> bool {
        let Make::Array { member_tunables, .. } = self.listing.make else { return true };
        member_tunables.iter().any(|own| own.name == tunable.name)
    }

    /// Constructs the coordinator of an array's members, if the policy has one.
    ///
    /// # Errors
    /// If the coordinator rejects a setting that its table allows.
    pub fn build_coordinator(
        &self,
        environment: &Environment,
        members: u32,
    ) -> Result<Option<BoxedCoordinator>, SpecError> {
        let Make::Array { coordinator, .. } = self.listing.make else { return Ok(None) };
        let mut made = coordinator(environment, members);
        for (tunable, value) in &self.settings {
            made.tune(tunable.name, *value).map_err(|error| self.fault(SpecErrorKind::Tune(error)))?;
        }
        Ok(Some(made))
    }

    fn build_work_conserving(&self, environment: &Environment) -> Result<BoxedWorkConserving, SpecError> {
        let Make::WorkConserving(make) = self.listing.make else {
            let scheduler = self.listing.full_name();
            return Err(self.fault(SpecErrorKind::NotWrappable { scheduler, wrappable: Vec::new() }));
        };
        let mut made = make(environment);
        for (tunable, value) in &self.settings {
            made.tune(tunable.name, *value).map_err(|error| self.fault(SpecErrorKind::Tune(error)))?;
        }
        Ok(made)
    }

    fn fault(&self, kind: SpecErrorKind) -> SpecError {
        SpecError { text: self.to_string(), position: 0, kind }
    }
}

/// The full name with every setting, in a form that [`Spec::parse_in`] reads.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.listing.full_name())?;
        if let Some(inside) = &self.inside {
            write!(f, "({inside})")?;
        }
        for (i, (tunable, value)) in self.settings.iter().enumerate() {
            let before = if i == 0 { "{" } else { ", " };
            write!(f, "{before}{}={}", tunable.name, Compact(*value))?;
        }
        f.write_str(if self.settings.is_empty() { "" } else { "}" })
    }
}

/// A value in the form of a name: without blanks, and without a unit that the syntax does not allow.
struct Compact(Value);

impl fmt::Display for Compact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Span(span) => f.write_str(&span.to_string().replace(' ', "")),
            Value::Sectors(n) => write!(f, "{n}"),
            other => write!(f, "{other}"),
        }
    }
}

/// A position in the text of a name, and the catalogue of names.
struct Reader<'a> {
    catalogue: Catalogue,
    text: &'a str,
    position: usize,
}

/// The deepest nesting. A wrapper in a wrapper is an error anyway; this bounds the recursion.
const DEEPEST: usize = 8;

impl<'a> Reader<'a> {
    fn error(&self, kind: SpecErrorKind) -> SpecError {
        self.error_at(self.position, kind)
    }

    fn error_at(&self, position: usize, kind: SpecErrorKind) -> SpecError {
        SpecError { text: self.text.to_string(), position, kind }
    }

    /// The next character that is not blank.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.position..];
        self.position += rest.len() - rest.trim_start().len();
        self.text[self.position..].chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.position += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), SpecError> {
        if self.take(wanted) { Ok(()) } else { Err(self.expected(&format!("'{wanted}'"))) }
    }

    fn expected(&mut self, what: &str) -> SpecError {
        let found = self.peek();
        self.error(SpecErrorKind::Expected { expected: what.to_string(), found })
    }

    /// The text up to one of `ends`, without surrounding blanks, and its position.
    fn word(&mut self, ends: &[char]) -> (usize, &'a str) {
        self.peek();
        let start = self.position;
        let rest = &self.text[start..];
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.position += word.len();
        (start, word.trim_end())
    }

    fn spec(&mut self) -> Result<Spec, SpecError> {
        self.nested(0)
    }

    fn nested(&mut self, depth: usize) -> Result<Spec, SpecError> {
        if depth > DEEPEST {
            return Err(self.error(SpecErrorKind::TooDeep));
        }
        let (start, name) = self.word(&['(', ')', '{', '}', ',', '=']);
        if name.is_empty() {
            return Err(self.expected("the name of a scheduler"));
        }
        let listing =
            self.catalogue.find(name).ok_or_else(|| self.error_at(start, self.unknown_scheduler(name)))?;
        let mut spec = Spec { listing, inside: None, settings: Vec::new() };
        if self.peek() == Some('(') {
            spec.inside = Some(Box::new(self.inside(listing, depth)?));
        } else if listing.is_wrapper() {
            spec.inside = Spec::of(listing).inside;
        }
        if self.take('{') {
            self.settings(&mut spec)?;
        }
        Ok(spec)
    }

    fn inside(&mut self, wrapper: &Listing, depth: usize) -> Result<Spec, SpecError> {
        if !wrapper.is_wrapper() {
            return Err(self.error(SpecErrorKind::NoWrapper(wrapper.full_name())));
        }
        self.expect('(')?;
        self.peek();
        let start = self.position;
        let inside = self.nested(depth + 1)?;
        if !wrapper.wraps(inside.listing) {
            return Err(self.error_at(start, self.not_wrappable(wrapper, inside.listing)));
        }
        self.expect(')')?;
        Ok(inside)
    }

    fn not_wrappable(&self, wrapper: &Listing, listing: &Listing) -> SpecErrorKind {
        let wrappable = self.catalogue.all().filter(|l| wrapper.wraps(l)).map(Listing::full_name).collect();
        SpecErrorKind::NotWrappable { scheduler: listing.full_name(), wrappable }
    }

    fn unknown_scheduler(&self, name: &str) -> SpecErrorKind {
        let plain = self.catalogue.all().filter(|l| l.plain).map(|l| l.name.to_string());
        let mut known: Vec<String> = plain.collect();
        for full in self.catalogue.all().map(Listing::full_name) {
            if !known.contains(&full) {
                known.push(full);
            }
        }
        SpecErrorKind::UnknownScheduler { name: name.to_string(), known }
    }

    fn settings(&mut self, spec: &mut Spec) -> Result<(), SpecError> {
        while !self.take('}') {
            if self.peek().is_none() {
                return Err(self.expected("a tunable or '}'"));
            }
            let (start, name) = self.word(&['(', ')', '{', '}', ',', '=']);
            let tunable =
                spec.listing.tunable(name).ok_or_else(|| self.error_at(start, spec.unknown_tunable(name)))?;
            self.expect('=')?;
            let (start, text) = self.word(&[',', '}']);
            let value =
                tunable.parse(text).map_err(|error| self.error_at(start, SpecErrorKind::Tune(error)))?;
            if spec.settings.iter().any(|(known, _)| known.name == name) {
                return Err(self.error_at(start, SpecErrorKind::SetTwice(name.to_string())));
            }
            spec.settings.push((tunable, value));
            if self.peek() != Some('}') && !self.take(',') {
                return Err(self.expected("',' or '}'"));
            }
        }
        Ok(())
    }
}
