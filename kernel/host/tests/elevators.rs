//! The list of elevators agrees with the one that the module registers, and their tunables can be written as they are read.

use kernel_host::{ELEVATORS, Elevator, Host};
use schedulers::Environment;

const SOURCE: &str = include_str!("../../module/elevators.c");

/// What is in quotes on a line.
fn quoted(line: &str) -> Vec<&str> {
    line.split('"').skip(1).step_by(2).collect()
}

#[test]
fn the_list_is_the_modules() {
    let registered: Vec<(&str, Option<&str>, Option<&str>)> = SOURCE
        .lines()
        .filter(|line| line.starts_with("\tELEVATOR(\""))
        .map(|line| {
            let strings = quoted(line);
            let (is_alias, is_spec) = (!line.contains("\", NULL"), !line.contains("NULL)"));
            (strings[0], is_alias.then(|| strings[1]), is_spec.then(|| *strings.last().unwrap()))
        })
        .collect();
    let listed: Vec<_> = ELEVATORS
        .iter()
        .map(|elevator| {
            // The kernel compares this much.
            let alias = elevator.long_name.map(|name| &name[..15]);
            (elevator.name, alias, (!elevator.is_custom()).then_some(elevator.spec))
        })
        .collect();
    assert_eq!(registered, listed);
    let custom = SOURCE.lines().find(|line| line.starts_with("static char *custom")).unwrap();
    assert_eq!(quoted(custom), [Elevator::named("dwell-custom").unwrap().spec]);
    for (name, alias, _) in registered {
        assert!(name.len() <= 15 && alias.is_none_or(|alias| alias.len() == 15), "{name}");
        assert!(SOURCE.contains(&format!("MODULE_ALIAS(\"{}-iosched\")", alias.unwrap_or(name))), "{name}");
    }
}

#[test]
fn a_tunable_takes_what_it_shows() {
    for elevator in ELEVATORS {
        let mut host = Host::new(elevator.spec, Environment::default(), 1).unwrap();
        for tunable in host.tunables().to_vec() {
            let shown = host.tunable(tunable.name).unwrap().to_string();
            host.tune_text(&tunable, &shown)
                .unwrap_or_else(|error| panic!("{}: {} = {shown}: {error}", elevator.name, tunable.name));
            assert_eq!(host.tunable(tunable.name).unwrap().to_string(), shown, "{}", tunable.name);
        }
    }
}
