//! Specifications of policies: parsing, printing, and error messages.

use dwell_schedulers::{Environment, Spec, registry};
use elevator::{Span, Value};

#[test]
fn printed_names_parse_to_the_same_policy() {
    let table = [
        ("noop", "noop"),
        ("deadline", "deadline-2.6.32"),
        (" deadline-2.6.9 ", "deadline-2.6.9"),
        ("mq-deadline", "mq-deadline-6.18"),
        ("stream", "stream(deadline-2.6.32)"),
        ("stream( noop )", "stream(noop)"),
        ("stream(deadline-2.6.9{fifo_batch=8})", "stream(deadline-2.6.9{fifo_batch=8})"),
        (
            "stream(c-scan) { stream_time_slice = 50 ms , backward_penalty=1.25,}",
            "stream(c-scan){stream_time_slice=50ms, backward_penalty=125%}",
        ),
        ("deadline{}", "deadline-2.6.32"),
    ];
    for (text, printed) in table {
        let spec = Spec::parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(spec.to_string(), printed);
        assert_eq!(Spec::parse(printed).unwrap().to_string(), printed, "printed specifications are valid");
        spec.build(&Environment::default()).unwrap();
    }
}

#[test]
fn settings_apply_to_the_policy_before_the_braces() {
    let spec = Spec::parse("stream(deadline{fifo_batch=8}){stream_threshold=6}").unwrap();
    let spec =
        spec.with_tunable("read_expire", "1s").unwrap().with_tunable("stream_time_slice", "50ms").unwrap();
    assert_eq!(
        spec.to_string(),
        "stream(deadline-2.6.32{fifo_batch=8, read_expire=1s}){stream_threshold=6, stream_time_slice=50ms}"
    );
    assert_eq!(spec.name(), "stream(deadline-2.6.32)");
    let made = spec.build(&Environment::default()).unwrap();
    assert_eq!(made.tunable("fifo_batch"), Some(Value::Count(8)));
    assert_eq!(made.tunable("stream_threshold"), Some(Value::Count(6)));
    assert_eq!(made.tunable("read_expire"), Some(Value::Span(Span::from_secs(1))));
}

/// A server lists and sets tunables by these names.
#[test]
fn the_wrapped_policy_is_listed_and_tuned_through_every_wrapper() {
    for wrapper in registry::all().filter(|listing| listing.is_wrapper()) {
        for inside in registry::all().filter(|listing| listing.is_work_conserving()) {
            let name = format!("{}({})", wrapper.full_name(), inside.full_name());
            let mut made = Spec::parse(&name).unwrap().build(&Environment::default()).unwrap();
            for tunable in inside.tunables {
                let listed = made.tunables().iter().filter(|listed| listed.name == tunable.name).count();
                assert_eq!(listed, 1, "{name}: '{}'", tunable.name);
                made.tune(tunable.name, tunable.max).unwrap();
                assert_eq!(made.tunable(tunable.name), Some(tunable.max), "{name}: '{}'", tunable.name);
            }
        }
    }
}

#[test]
fn errors_state_their_position_and_the_nearest_name() {
    let table = [
        ("", 1, "expected the name of a scheduler"),
        ("dedline", 1, "no scheduler is called 'dedline'; did you mean 'deadline'?"),
        ("none", 1, "no scheduler is called 'none'; the kernel's none is 'noop'"),
        ("DEADLINE", 1, "no scheduler is called 'DEADLINE'; did you mean 'deadline'?"),
        ("Stream(CFQ)", 1, "did you mean 'stream'?"),
        ("deadline{", 10, "expected a tunable or '}'"),
        ("deadline{FIFO_BATCH=8}", 10, "did you mean 'fifo_batch'?"),
        ("deadline{fifo_batch=99999999999999999999}", 21, "must be from 1 to"),
        ("cscan", 1, "did you mean 'c-scan'?"),
        ("deadline-2.6.31", 1, "did you mean 'deadline-2.6.32'?"),
        ("quantum-entangled", 1, "known are noop, deadline"),
        ("stream(dedline)", 8, "did you mean 'deadline'?"),
        ("stream(stream)", 8, "cannot be wrapped; noop, deadline-2.6.9, deadline-2.6.32"),
        ("noop(deadline)", 5, "'noop' wraps no other scheduler"),
        ("stream(noop", 12, "expected ')', found the end"),
        ("noop)", 5, "unexpected ')'"),
        ("deadline{fifo_bach=8}", 10, "has no tunable 'fifo_bach'; did you mean 'fifo_batch'?"),
        ("noop{fifo_batch=8}", 6, "'noop' has no tunable 'fifo_batch'; it has none"),
        ("deadline{fifo_batch}", 20, "expected '=', found '}'"),
        ("deadline{fifo_batch=0}", 21, "must be from 1 to"),
        ("deadline{read_expire=500}", 22, "expected a length of time with its unit"),
        ("deadline{read_expire=99999999999999999999s}", 22, "must be from 0 ns to 3600 s"),
        ("deadline{fifo_batch=8, fifo_batch=9}", 35, "'fifo_batch' is set twice"),
        ("deadline{fifo_batch=8", 22, "expected ',' or '}', found the end"),
        ("stream((((((((((", 8, "expected the name"),
        ("stream(é)", 8, "no scheduler is called 'é'"),
    ];
    for (text, column, problem) in table {
        let error = Spec::parse(text).expect_err(text);
        assert!(error.kind.to_string().contains(problem), "{text}: {error}");
        assert_eq!(error.column(), column, "{text}: {error}");
    }
}

#[test]
fn parentheses_nine_deep_are_an_error_of_their_own() {
    for (depth, problem) in
        [(8, "cannot be wrapped"), (9, "nested too deeply"), (100_000, "nested too deeply")]
    {
        let text = format!("{}noop{}", "stream(".repeat(depth), ")".repeat(depth));
        let error = Spec::parse(&text).unwrap_err();
        assert!(error.kind.to_string().contains(problem), "{depth}: {}", error.kind);
    }
}

#[test]
fn a_list_of_known_names_has_each_once() {
    let error = Spec::parse("quantum-entangled").unwrap_err();
    let message = error.kind.to_string();
    let (_, list) = message.split_once("known are ").unwrap();
    let names: Vec<&str> = list.split(", ").collect();
    let different: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), different.len(), "{list}");
}

#[test]
fn no_text_makes_the_parser_panic() {
    let alphabet: Vec<char> = "stream(deadline{fifo_batch=8}){},=( é1.5% ms".chars().collect();
    let mut random = elevator::Random::new(5);
    for _ in 0..50_000 {
        let length = random.below(40);
        let text: String =
            (0..length).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect();
        if let Err(error) = Spec::parse(&text) {
            assert!(error.position <= text.len() && !error.to_string().is_empty());
        }
    }
}

#[test]
fn fuzzing_seeds_parse() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/scheduler_name");
    for seed in std::fs::read_dir(seeds).unwrap() {
        Spec::parse(&std::fs::read_to_string(seed.unwrap().path()).unwrap()).unwrap();
    }
}

#[test]
fn policies_with_a_part_above_the_block_layer_need_a_host_for_it() {
    for (text, is_split) in
        [("split-token", true), ("afq", true), ("deadline", false), ("stream(noop)", false)]
    {
        let spec = Spec::parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(spec.is_split(), is_split, "{text}");
        assert_eq!(spec.at_the_block().is_err(), is_split, "{text}");
    }
}

#[test]
fn a_wrapper_names_the_policy_inside() {
    let inside = |text: &str| Spec::parse(text).unwrap().inside().map(Spec::name);
    assert_eq!(inside("stream(look)").as_deref(), Some("look"));
    assert_eq!(inside("look"), None);
}
