//! The tunables of Dwell's policies as a search space: each has a ladder of values around its default.

use elevator::{Tunable, Value};
use schedulers::Spec;
use tuner::{Ladder, Space};

/// The search space of a policy's tunables that `wanted` selects; `None` if it selects none.
pub fn of_policy(spec: &Spec, wanted: impl Fn(&str) -> bool) -> Option<Space> {
    let tunables = spec.listing().tunables.iter().filter(|tunable| wanted(tunable.name));
    let ladders: Vec<Ladder> = tunables.filter_map(ladder).collect();
    (!ladders.is_empty()).then(|| Space { scheduler: spec.to_string(), ladders })
}

/// Values from a quarter to four times the default, within the tunable's range; on and off for a switch.
fn ladder(tunable: &Tunable) -> Option<Ladder> {
    let by = |quarters: u64| match tunable.default {
        Value::Span(span) => Some(Value::Span(span * quarters / 4)),
        Value::Count(n) => Some(Value::Count(n * quarters / 4)),
        Value::Percent(n) => Some(Value::Percent(n * quarters / 4)),
        Value::Sectors(_) | Value::Flag(_) => None,
    };
    let values: Vec<Value> = match tunable.default {
        Value::Flag(_) => vec![Value::Flag(false), Value::Flag(true)],
        _ => [0, 1, 2, 4, 8, 16].into_iter().filter_map(by).collect(),
    };
    let mut values: Vec<String> =
        values.into_iter().filter(|value| tunable.check(*value).is_ok()).map(text).collect();
    values.dedup();
    (values.len() > 1).then(|| Ladder { setting: tunable.name.to_owned(), values })
}

/// The value as written in a policy's braces.
fn text(value: Value) -> String {
    value.to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_accept_every_value_of_their_ladders() {
        for name in ["cfq-2.6.32", "anticipatory-2.6.32", "deadline-2.6.32", "bfq"] {
            let spec = Spec::parse(name).unwrap();
            let space = of_policy(&spec, |tunable| tunable != "hz").unwrap();
            for ladder in &space.ladders {
                for value in &ladder.values {
                    let arm = format!("{name}{{{}={value}}}", ladder.setting);
                    assert!(Spec::parse(&arm).is_ok(), "{arm}");
                }
            }
        }
        assert!(of_policy(&Spec::parse("noop").unwrap(), |_| true).is_none());
    }
}
