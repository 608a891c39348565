//! The Rust code of the READMEs compiles and runs. It is no documentation test, because inside the workspace `dwell-elevator` is imported as
//! `elevator`, and because `dwell-elevator` does not depend on `dwell-schedulers`.

extern crate elevator as dwell_elevator;

type Tested = Result<(), Box<dyn std::error::Error>>;

#[test]
fn of_elevator() -> Tested {
    use dwell_elevator::queue::{Options, Queue};
    use dwell_schedulers::{Environment, Spec};

    let environment = Environment::default();
    let queue: Queue = Queue::new(Options::default(), Spec::parse("stream(deadline)")?.build(&environment)?);

    assert_eq!(queue.unfinished(), 0);
    assert_has_code_of(include_str!("../../elevator/README.md"));
    Ok(())
}

#[test]
fn of_schedulers() -> Tested {
    use dwell_elevator::queue::{Options, Queue};
    use dwell_schedulers::{Environment, Spec};

    let scheduler = Spec::parse("stream(deadline{fifo_batch=8})")?.build(&Environment::default())?;
    let queue: Queue = Queue::new(Options::default(), scheduler);

    assert_eq!(queue.unfinished(), 0);
    assert_has_code_of(include_str!("../README.md"));
    Ok(())
}

/// Asserts that this file has the Rust code of a README.
fn assert_has_code_of(readme: &str) {
    let blocks: Vec<&str> = readme.split("```rust,ignore\n").skip(1).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let code: String = block.lines().take_while(|line| *line != "```").map(unindented).collect();
        let own: String = include_str!("readme.rs").lines().map(unindented).collect();
        assert!(own.contains(&code), "{code}");
    }
}

fn unindented(line: &str) -> String {
    format!("{}\n", line.trim_start())
}
