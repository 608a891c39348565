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

use elevator::{Tunable, Value};
use wording::did_you_mean;

use crate::listing::{BoxedCoordinator, BoxedScheduler, BoxedWorkConserving, Environment, Listing, Make};
use crate::registry::{self, Catalogue, WRAPPED_BY_DEFAULT};
use crate::work_conserving::Bare;

/// A policy with the settings that differ from its defaults: what [`Spec::build`] makes any number of.
#[derive(Clone, Debug)]
pub struct Spec {
    listing: &'static Listing,
    inside: Option<Box<Spec>>,
    settings: Vec<(&'static Tunable, Value)>,
}

/// What is wrong with a name, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpecError {
    /// The text.
    pub text: String,
    /// The byte in it at which the trouble begins.
    pub position: usize,
    /// The trouble.
    pub problem: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (character {} of '{}')", self.problem, self.column(), self.text)
    }
}

impl SpecError {
    /// The character, counted from 1, at which the trouble begins.
    #[must_use]
    pub fn column(&self) -> usize {
        self.text.get(..self.position).map_or(self.position, |before| before.chars().count()) + 1
    }
}

impl core::error::Error for SpecError {}

impl Spec {
    /// Reads a name with its settings; the names are those of this crate's policies.
    ///
    /// # Errors
    /// Says what is wrong and where, with the nearest known name where one is unknown.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        Self::parse_in(Catalogue::default(), text)
    }

    /// Reads a name with its settings; the names are those of `catalogue`.
    ///
    /// # Errors
    /// Says what is wrong and where, with the nearest known name where one is unknown.
    pub fn parse_in(catalogue: Catalogue, text: &str) -> Result<Self, SpecError> {
        let mut reader = Reader { catalogue, text, position: 0 };
        let spec = reader.spec()?;
        match reader.peek() {
            None => Ok(spec),
            Some(extra) => Err(reader.error(format!("'{extra}' is left over behind the end of the name"))),
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

    /// What it wraps.
    #[must_use]
    pub fn inside(&self) -> Option<&Self> {
        self.inside.as_deref()
    }

    /// The value of a tunable of its own: as it was set, or the default.
    #[must_use]
    pub fn value(&self, tunable: &Tunable) -> Value {
        let set = self.settings.iter().find(|(known, _)| known.name == tunable.name);
        set.map_or(tunable.default, |(_, value)| *value)
    }

    /// Whether it, or what it wraps, has a part above the block layer.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.listing.split || self.inside.as_ref().is_some_and(|inside| inside.is_split())
    }

    /// The same, for a host that has no hooks above the block layer.
    ///
    /// # Errors
    /// If it needs them.
    pub fn at_the_block(self) -> Result<Self, SpecError> {
        if self.is_split() {
            let problem = format!(
                "'{self}' also schedules system calls and the page cache, which there are only on the modelled \
                 machine of 'dwell run'"
            );
            return Err(self.fault(problem));
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

    /// The same with one more setting, of the wrapper or, if the wrapper has none of that name, of what it wraps.
    ///
    /// # Errors
    /// If neither has a tunable of that name, or the value is of another kind or out of range.
    pub fn with_tunable(mut self, name: &str, value: &str) -> Result<Self, SpecError> {
        let fault = |problem| SpecError { text: format!("{name}={value}"), position: 0, problem };
        self.set(name, value).map_err(fault)?;
        Ok(self)
    }

    fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        match (self.listing.tunable(name), &mut self.inside) {
            (Some(tunable), _) => {
                let value = tunable.parse(text)?;
                self.settings.retain(|(known, _)| known.name != name);
                self.settings.push((tunable, value));
                Ok(())
            }
            (None, Some(inside)) if inside.listing.tunable(name).is_some() => inside.set(name, text),
            (None, _) => Err(self.unknown_tunable(name)),
        }
    }

    fn unknown_tunable(&self, name: &str) -> String {
        let names: Vec<&str> = self.listing.tunables.iter().map(|tunable| tunable.name).collect();
        let known = match names.as_slice() {
            [] => "; it has none".to_string(),
            _ => suggest(name, &names),
        };
        format!("'{}' has no tunable '{name}'{known}", self.listing.full_name())
    }

    /// Makes the policy.
    ///
    /// # Errors
    /// If the policy refuses a setting that its table allows.
    pub fn build(&self, environment: &Environment) -> Result<BoxedScheduler, SpecError> {
        let mut made: BoxedScheduler = match self.listing.make {
            Make::Scheduler(make) | Make::Either { alone: make, .. } => make(environment),
            Make::WorkConserving(_) => Box::new(Bare::new(self.build_work_conserving(environment)?)),
            Make::Wrapper(make) | Make::Array { member: make, .. } => {
                let inside =
                    self.inside.as_ref().ok_or_else(|| self.fault("it wraps nothing".to_string()))?;
                make(environment, inside.build_work_conserving(environment)?)
            }
        };
        if !matches!(self.listing.make, Make::WorkConserving(_)) {
            for (tunable, value) in self.settings.iter().filter(|(tunable, _)| self.is_of_members(tunable)) {
                made.tune(tunable.name, *value).map_err(|error| self.fault(error.to_string()))?;
            }
        }
        Ok(made)
    }

    /// Whether the scheduler itself has the tunable, and not only an array's coordinator.
    fn is_of_members(&self, tunable: &Tunable) -> bool {
        let Make::Array { member_tunables, .. } = self.listing.make else { return true };
        member_tunables.iter().any(|own| own.name == tunable.name)
    }

    /// Makes who directs the members of an array, if the policy has such a one.
    ///
    /// # Errors
    /// If it refuses a setting that its table allows.
    pub fn build_coordinator(
        &self,
        environment: &Environment,
        members: u32,
    ) -> Result<Option<BoxedCoordinator>, SpecError> {
        let Make::Array { coordinator, .. } = self.listing.make else { return Ok(None) };
        let mut made = coordinator(environment, members);
        for (tunable, value) in &self.settings {
            made.tune(tunable.name, *value).map_err(|error| self.fault(error.to_string()))?;
        }
        Ok(Some(made))
    }

    fn build_work_conserving(&self, environment: &Environment) -> Result<BoxedWorkConserving, SpecError> {
        let (Make::WorkConserving(make) | Make::Either { wrapped: make, .. }) = self.listing.make else {
            return Err(self.fault(cannot_be_wrapped(self.listing)));
        };
        let mut made = make(environment);
        for (tunable, value) in &self.settings {
            made.tune(tunable.name, *value).map_err(|error| self.fault(error.to_string()))?;
        }
        Ok(made)
    }

    fn fault(&self, problem: String) -> SpecError {
        SpecError { text: self.to_string(), position: 0, problem }
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

/// A value as a name carries it: without blanks, and without a unit where none may be written.
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

fn cannot_be_wrapped(listing: &Listing) -> String {
    format!("'{}' decides about waiting itself and cannot be wrapped", listing.full_name())
}

/// A position in the text of a name, and whose names they are.
struct Reader<'a> {
    catalogue: Catalogue,
    text: &'a str,
    position: usize,
}

/// How deep names may be nested: a wrapper in a wrapper is an error anyway, so this only bounds the recursion.
const DEEPEST: usize = 8;

impl<'a> Reader<'a> {
    fn error(&self, problem: String) -> SpecError {
        self.error_at(self.position, problem)
    }

    fn error_at(&self, position: usize, problem: String) -> SpecError {
        SpecError { text: self.text.to_string(), position, problem }
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
        let found = self.peek().map_or("the end".to_string(), |c| format!("'{c}'"));
        self.error(format!("expected {what}, found {found}"))
    }

    /// Everything up to one of `ends`, without blanks around it, and where it begins.
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
            return Err(self.error("nested too deeply".to_string()));
        }
        let (start, name) = self.word(&['(', ')', '{', '}', ',', '=']);
        if name.is_empty() {
            return Err(self.error("expected the name of a scheduler".to_string()));
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
            return Err(self.error(format!("'{}' wraps no other scheduler", wrapper.full_name())));
        }
        self.expect('(')?;
        self.peek();
        let start = self.position;
        let inside = self.nested(depth + 1)?;
        if !inside.listing.is_work_conserving() {
            return Err(self.error_at(start, self.not_work_conserving(inside.listing)));
        }
        self.expect(')')?;
        Ok(inside)
    }

    fn not_work_conserving(&self, listing: &Listing) -> String {
        let names: Vec<String> =
            self.catalogue.all().filter(|l| l.is_work_conserving()).map(Listing::full_name).collect();
        format!("{}; {} can", cannot_be_wrapped(listing), names.join(", "))
    }

    fn unknown_scheduler(&self, name: &str) -> String {
        let full: Vec<String> = self.catalogue.all().map(Listing::full_name).collect();
        let mut names: Vec<&str> = self.catalogue.all().filter(|l| l.plain).map(|l| l.name).collect();
        for name in &full {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        format!("no scheduler is called '{name}'{}", suggest(name, &names))
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
            let value = tunable.parse(text).map_err(|problem| self.error_at(start, problem))?;
            if spec.settings.iter().any(|(known, _)| known.name == name) {
                return Err(self.error_at(start, format!("'{name}' is set twice")));
            }
            spec.settings.push((tunable, value));
            if self.peek() != Some('}') && !self.take(',') {
                return Err(self.expected("',' or '}'"));
            }
        }
        Ok(())
    }
}

/// Which was meant, or all of them where none is near.
fn suggest(name: &str, names: &[&str]) -> String {
    match did_you_mean(name, names.iter().copied()) {
        none if none.is_empty() => format!("; known are {}", names.join(", ")),
        hint => hint,
    }
}
