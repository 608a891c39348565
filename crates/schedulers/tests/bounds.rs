//! Bounds on waiting: every policy has one or explains in its header why it has none. The model verifies the bounds (see
//! `every_policy.rs`).

use std::fs;
use std::path::{Path, PathBuf};

use dwell_schedulers::{Environment, Spec, registry};
use elevator::{Load, Span};

const LOAD: Load = Load { requests: 64, depth: 4, service: Span::from_millis(10) };

fn bound(name: &str) -> Option<Span> {
    Spec::parse(name).unwrap().build(&Environment::default()).unwrap().longest_wait(LOAD)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { sources(&path, found) } else { found.push(path) }
    }
}

/// The header of the file that lists the policy.
fn header(name: &str) -> String {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let texts = files.iter().map(|path| fs::read_to_string(path).unwrap());
    // Lines are broken differently.
    let joined = |text: &String| text.split_whitespace().collect::<String>();
    let mut listing = texts.filter(|text| joined(text).contains(&format!("Listing::new(\"{name}\",")));
    let text = listing.next().unwrap_or_else(|| panic!("no file lists '{name}'"));
    text.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_policy_has_a_bound_or_explains_why_it_has_none() {
    for listing in registry::all() {
        let explains = header(listing.name).contains("no bound on\n//! waiting")
            || header(listing.name).contains("no bound on waiting");
        match bound(&listing.full_name()) {
            None => assert!(explains, "{listing:?}: longest_wait is None, and the header has no explanation"),
            Some(bound) => assert!(bound > LOAD.service, "{listing:?}: {bound}"),
        }
    }
}

#[test]
fn the_policies_with_a_bound_are_known() {
    let names = registry::all().map(|listing| listing.full_name());
    let bounded: Vec<String> = names.filter(|name| bound(name).is_some()).collect();
    let expected = [
        "noop",
        "deadline-2.6.9",
        "deadline-2.6.32",
        "elevator-2.4",
        "kyber",
        "stream",
        "dwell",
        "token-call",
        "split-noop",
    ];
    assert_eq!(bounded, expected);
}

#[test]
fn headers_have_the_fixed_headings() {
    let headings =
        ["Idea", "State", "Order of decisions", "Where it differs from the source", "Not for", "Sources"];
    for listing in registry::all() {
        let header = header(listing.name);
        let found: Vec<&str> = header.lines().filter_map(|line| line.strip_prefix("//! # ")).collect();
        assert_eq!(found, headings, "{listing:?}");
    }
}

/// With one request in the device, a wrapped noop's bound of n requests becomes n turns of two services and a slice, and n more
/// for a child that stands back.
#[test]
fn stream_adds_its_slice_to_every_dispatch_of_the_wrapped_policy() {
    let bound = |name: &str| {
        let made = Spec::parse(name).unwrap().build(&Environment::default()).unwrap();
        made.longest_wait(Load { depth: 1, ..LOAD })
    };
    let turn = |slice| LOAD.service * 2 + Span::from_millis(slice);
    assert_eq!(bound("noop"), Some(LOAD.service * 64));
    assert_eq!(bound("stream(noop)"), Some(turn(124) * 128));
    assert_eq!(bound("stream(noop){stream_time_slice=0s}"), Some(turn(0) * 128));
    assert_eq!(bound("stream(noop){directed=on}"), None, "a coordinator sets the slices");
    assert_eq!(bound("array-stream(noop)"), None, "a coordinator sets the slices");
    assert_eq!(bound("stream(look)"), None, "the wrapped policy has no bound");
}

#[test]
fn deadline_without_turns_for_reads_has_no_bound() {
    assert!(bound("deadline{writes_starved=1}").is_some());
    assert_eq!(bound("deadline{writes_starved=0}"), None, "writes always go first");
}

/// The bounds of three loads, in milliseconds: a shallow queue, a deep one, and requests that a device serves slowly.
#[test]
fn bounds_grow_with_the_load() {
    let load = |requests, depth, millis| Load { requests, depth, service: Span::from_millis(millis) };
    let loads = [load(3, 1, 1), load(128, 31, 2), load(16, 1, 250)];
    for (name, expected) in [
        ("noop", [3, 256, 4_000]),
        ("deadline-2.6.9", [5_036, 21_384, 261_000]),
        ("deadline-2.6.32", [5_036, 21_384, 261_000]),
        ("deadline{fifo_batch=1, writes_starved=1}", [5_009, 5_768, 17_000]),
        ("elevator-2.4", [8_195, 16_640, 2_052_000]),
        ("kyber", [87, 39_424, 168_000]),
        ("stream(noop)", [756, 48_128, 19_968]),
        ("stream(deadline){stream_time_slice=1s}", [44_078, 8_857_480, 1_565_000]),
        ("token-call", [3, 256, 4_000]),
        ("dwell", [6_496, 189_212, 155_280]),
    ] {
        let policy = Spec::parse(name).unwrap().build(&Environment::default()).unwrap();
        let found = loads.map(|load| policy.longest_wait(load).expect(name).as_nanos() / 1_000_000);
        assert_eq!(found, expected, "{name}");
    }
}
