//! Values to try: lists, ranges and logarithmic ranges, as text, and schedulers with each combination of them.
//!
//! | text | values |
//! |---|---|
//! | `1,4,16` | these |
//! | `1..4` | 1, 2, 3, 4 |
//! | `100ms..500ms+200ms` | 100 ms, 300 ms, 500 ms |
//! | `1..64*4` | 1, 4, 16, 64 |
//!
//! A range includes its end if a step reaches the end. Items of a list may be ranges.

use elevator::text::did_you_mean;
use elevator::{Span, Tunable, Value};
use schedulers::Spec;

/// Most values of one tunable. More are a mistake in a range.
const MOST_VALUES: usize = 10_000;

/// A tunable and its values, as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sweep {
    pub tunable: String,
    pub values: String,
}

impl Sweep {
    /// Reads `fifo_batch=1,4,16`.
    ///
    /// # Errors
    /// There is no equals sign, or nothing on one side of it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').map(|(tunable, values)| (tunable.trim(), values.trim()));
        let (tunable, values) =
            parts.filter(|(tunable, values)| !tunable.is_empty() && !values.is_empty()).ok_or_else(|| {
                format!("'{text}': expected a tunable and its values, such as fifo_batch=1,4,16")
            })?;
        Ok(Self { tunable: tunable.to_owned(), values: values.to_owned() })
    }
}

fn raw(value: Value) -> Option<u64> {
    match value {
        Value::Span(span) => Some(span.as_nanos()),
        Value::Count(n) | Value::Sectors(n) | Value::Percent(n) => Some(n),
        Value::Flag(_) => None,
    }
}

fn like(kind: Value, raw: u64) -> Value {
    match kind {
        Value::Span(_) => Value::Span(Span::from_nanos(raw)),
        Value::Count(_) => Value::Count(raw),
        Value::Sectors(_) => Value::Sectors(raw),
        Value::Percent(_) => Value::Percent(raw),
        Value::Flag(on) => Value::Flag(on),
    }
}

/// The value as a scheduler's braces accept it.
pub fn text(value: Value) -> String {
    match value {
        Value::Sectors(n) => n.to_string(),
        _ => value.to_string().replace(' ', ""),
    }
}

/// The values of a list or range; `kind` is any value of the same kind.
///
/// # Errors
/// The text is no list, or has too many values.
pub fn values(kind: Value, text: &str) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    for item in text.split(',').map(str::trim) {
        match item.split_once("..") {
            Some((from, rest)) => range(kind, item, from, rest, &mut all)?,
            None => all.push(kind.parse_like(item).map_err(|error| error.to_string())?),
        }
        if all.len() > MOST_VALUES {
            return Err(format!("'{text}' has more than {MOST_VALUES} values"));
        }
    }
    let mut seen = Vec::with_capacity(all.len());
    all.retain(|value| {
        !seen.contains(value) && {
            seen.push(*value);
            true
        }
    });
    Ok(all)
}

fn range(kind: Value, item: &str, from: &str, rest: &str, all: &mut Vec<Value>) -> Result<(), String> {
    let wrong = |problem: &str| format!("'{item}': {problem}");
    let number = |text: &str| {
        let value = kind.parse_like(text).map_err(|error| wrong(&error.to_string()))?;
        raw(value).ok_or_else(|| wrong("a switch has no range; write off,on"))
    };
    let at = rest.find(['+', '*']).unwrap_or(rest.len());
    let (from, to) = (number(from)?, number(&rest[..at])?);
    if from > to {
        return Err(wrong("the range ends before its start"));
    }
    let step = rest[at..].trim();
    let next: Box<dyn Fn(u64) -> Option<u64>> = if let Some(factor) = step.strip_prefix('*') {
        let factor: f64 = factor.trim().parse().map_err(|_| wrong("expected a factor behind '*'"))?;
        if !(factor > 1.0 && factor.is_finite()) || from == 0 {
            return Err(wrong("a logarithmic range starts above 0 and has a factor above 1"));
        }
        Box::new(move |value| Some(((value as f64 * factor).round() as u64).max(value.checked_add(1)?)))
    } else {
        let step = match step.strip_prefix('+') {
            Some(step) => number(step)?,
            None if matches!(kind, Value::Span(_)) => {
                return Err(wrong(
                    "a range of times has a step (100ms..500ms+100ms) or a factor (1ms..1s*10)",
                ));
            }
            None => 1,
        };
        if step == 0 {
            return Err(wrong("the step is 0"));
        }
        Box::new(move |value| value.checked_add(step))
    };
    let mut value = Some(from);
    while let Some(raw) = value.filter(|&value| value <= to && all.len() <= MOST_VALUES) {
        all.push(like(kind, raw));
        value = next(raw);
    }
    Ok(())
}

/// The numbers of a list or range.
///
/// # Errors
/// The text is no list, or has too many numbers.
pub fn numbers(text: &str) -> Result<Vec<u64>, String> {
    Ok(values(Value::Count(0), text)?.into_iter().filter_map(raw).collect())
}

/// The tunable of a scheduler or, if it has none of that name, of the wrapped scheduler.
pub fn tunable(spec: &Spec, name: &str) -> Option<&'static Tunable> {
    spec.listing().tunable(name).or_else(|| spec.inside().and_then(|inside| tunable(inside, name)))
}

/// Whether the name of the scheduler, or of the wrapped one, sets the tunable: `deadline{fifo_batch=3}`.
pub fn is_set(spec: &Spec, name: &str) -> bool {
    let text = spec.to_string();
    let mut settings = text.split(['{', ',', '}']).filter_map(|part| part.split_once('='));
    settings.any(|(tunable, _)| tunable.trim() == name)
}

/// The scheduler with each combination of those sweeps that it has tunables for, the last sweep varying fastest.
///
/// # Errors
/// A value is malformed or out of range.
pub fn variants(spec: &Spec, sweeps: &[Sweep]) -> Result<Vec<Spec>, String> {
    let mut specs = vec![spec.clone()];
    for sweep in sweeps {
        let Some(tunable) = tunable(spec, &sweep.tunable) else { continue };
        let values = values(tunable.default, &sweep.values).map_err(|e| format!("{}: {e}", sweep.tunable))?;
        let mut more = Vec::with_capacity(specs.len() * values.len());
        for (spec, value) in specs.iter().flat_map(|spec| values.iter().map(move |value| (spec, value))) {
            let set = spec.clone().with_tunable(&sweep.tunable, &text(*value));
            more.push(set.map_err(|error| error.kind.to_string())?);
        }
        specs = more;
    }
    Ok(specs)
}

/// Checks that at least one of the schedulers has the tunable.
pub fn check(name: &str, specs: &[Spec]) -> Result<(), String> {
    if specs.iter().any(|spec| tunable(spec, name).is_some()) {
        return Ok(());
    }
    let listings = specs.iter().flat_map(|spec| [Some(spec), spec.inside()]).flatten().map(Spec::listing);
    let mut known: Vec<&str> =
        listings.flat_map(|listing| listing.tunables.iter().map(|tunable| tunable.name)).collect();
    known.sort_unstable();
    known.dedup();
    let hint = did_you_mean(name, known.iter().copied());
    Err(format!("none of the schedulers has the tunable '{name}'{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_include_their_ends() {
        for (text, expected) in [
            ("7", vec![7]),
            ("1,4,16", vec![1, 4, 16]),
            ("1..4", vec![1, 2, 3, 4]),
            ("0..10+4", vec![0, 4, 8]),
            ("1..64*4", vec![1, 4, 16, 64]),
            ("1..5*1.1", vec![1, 2, 3, 4, 5]),
            ("5, 1..3, 2", vec![5, 1, 2, 3]),
            ("18446744073709551615..18446744073709551615", vec![u64::MAX]),
        ] {
            assert_eq!(numbers(text).unwrap(), expected, "{text}");
        }
        let ms = |n| Value::Span(Span::from_millis(n));
        assert_eq!(values(ms(0), "100ms..500ms+200ms").unwrap(), [ms(100), ms(300), ms(500)]);
    }

    #[test]
    fn a_sweep_has_a_tunable_and_values() {
        for text in ["fifo_batch", "=3", " = 3", "fifo_batch=", "="] {
            let error = Sweep::parse(text).unwrap_err();
            assert!(error.starts_with(&format!("'{text}': expected a tunable and its values")), "{error}");
        }
    }

    #[test]
    fn malformed_ranges_are_rejected() {
        for (text, expected) in [
            ("", "expected a whole number, found ''"),
            ("4..1", "'4..1': the range ends before its start"),
            ("0..8*2", "'0..8*2': a logarithmic range starts above 0 and has a factor above 1"),
            ("1..8*1", "'1..8*1': a logarithmic range starts above 0 and has a factor above 1"),
            ("1..8+0", "'1..8+0': the step is 0"),
            ("1..1000000", "'1..1000000' has more than 10000 values"),
            ("1..x", "'1..x': expected a whole number, found 'x'"),
        ] {
            assert_eq!(numbers(text).unwrap_err(), expected);
        }
        let problem = values(Value::Span(Span::ZERO), "1ms..2ms").unwrap_err();
        assert!(problem.contains("a range of times has a step"), "{problem}");
        assert!(values(Value::Flag(true), "off..on").unwrap_err().contains("a switch has no range"));
    }

    #[test]
    fn each_scheduler_is_swept_over_its_own_tunables() {
        let sweeps = ["fifo_batch=1,4", "writes_starved=1..2"].map(|text| Sweep::parse(text).unwrap());
        let names = |name: &str| -> Vec<String> {
            let spec = Spec::parse(name).unwrap();
            variants(&spec, &sweeps).unwrap().iter().map(ToString::to_string).collect()
        };
        assert_eq!(names("noop"), ["noop"]);
        assert_eq!(names("deadline").len(), 4);
        assert!(names("stream(deadline)")[0].contains("fifo_batch=1"));
        let specs = [Spec::parse("deadline").unwrap()];
        assert!(check("fifo_batch", &specs).is_ok());
        assert_eq!(
            check("fifo_bach", &specs).unwrap_err(),
            "none of the schedulers has the tunable 'fifo_bach'; did you mean 'fifo_batch'?"
        );
    }

    #[test]
    fn a_name_sets_the_tunables_in_its_braces() {
        for (name, set) in [
            ("deadline", [false, false]),
            ("deadline{fifo_batch=3}", [true, false]),
            ("deadline{writes_starved=2, fifo_batch=3}", [true, true]),
            ("stream(deadline{fifo_batch=3}){stream_time_slice=50ms}", [true, false]),
        ] {
            let spec = Spec::parse(name).unwrap();
            assert_eq!(["fifo_batch", "writes_starved"].map(|of| is_set(&spec, of)), set, "{name}");
        }
    }

    #[test]
    fn a_scheduler_accepts_every_kind_of_value_as_text() {
        for listing in schedulers::registry::all() {
            let spec = Spec::of(listing);
            for tunable in listing.tunables {
                let set = spec.clone().with_tunable(tunable.name, &text(tunable.default));
                assert!(set.is_ok(), "{} {}", listing.name, tunable.name);
            }
        }
    }
}
