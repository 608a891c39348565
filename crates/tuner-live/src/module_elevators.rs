//! The elevators of Dwell's kernel module among the schedulers that a queue offers.

use std::fs;

use kernel_host::{ELEVATORS, Elevator};

/// The policy of `dwell-custom`, while the module is loaded.
const CUSTOM: &str = "/sys/module/dwell_iosched/parameters/custom";

/// What a tuner tries of these schedulers unless arms are named: all but elevators of the module with the rules of another one. Each arm
/// costs trials, so two equal ones only delay the choice.
pub(crate) fn candidates(offered: &[String]) -> Vec<String> {
    let custom = fs::read_to_string(CUSTOM).ok();
    without_duplicates(offered, custom.as_deref().map(str::trim))
}

fn without_duplicates(offered: &[String], custom: Option<&str>) -> Vec<String> {
    let is_duplicate = |name: &String| {
        let Some(elevator) = Elevator::named(name) else { return false };
        let has_counterpart =
            elevator.counterpart.is_some_and(|kernels| offered.iter().any(|o| o == kernels));
        let is_default = elevator.is_custom()
            && custom
                .is_none_or(|spec| ELEVATORS.iter().any(|other| !other.is_custom() && other.spec == spec));
        has_counterpart || is_default
    };
    offered.iter().filter(|name| !is_duplicate(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates_of(offered: &str, custom: Option<&str>) -> String {
        let offered: Vec<String> = offered.split(' ').map(str::to_owned).collect();
        without_duplicates(&offered, custom).join(" ")
    }

    #[test]
    fn elevators_of_the_module_are_tried_once_each() {
        let all = "none mq-deadline bfq dwell-noop dwell-deadline dwell-stream dwell-as dwell-cfq dwell-bfq dwell-custom";
        let distinct = "none mq-deadline bfq dwell-stream dwell-as dwell-cfq";
        assert_eq!(candidates_of(all, Some("stream(deadline)")), distinct);
        assert_eq!(candidates_of(all, Some("stream(mq-deadline)")), format!("{distinct} dwell-custom"));
        assert_eq!(candidates_of("none dwell-deadline dwell-bfq", None), "none dwell-deadline dwell-bfq");
        assert_eq!(candidates_of("none mq-deadline", None), "none mq-deadline");
    }
}
