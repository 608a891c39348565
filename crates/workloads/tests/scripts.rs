//! Errors of scripts name the line and the remedy.

use workloads::scenario::{Scenario, papers};

fn refusal(text: &str) -> String {
    match Scenario::parse("s.toml", text, 1.0) {
        Ok(_) => panic!("it was read"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_missing_file() {
    let text = "about = \"x\"\n\n[[process]]\nname = \"cat\"\nsteps = [\n    { think = \"1 ms\" },\n    { read = { file = \"/no/such\" } },\n]\n";
    let refusal = refusal(text);
    assert!(refusal.starts_with("s.toml:7: process 'cat': '/no/such' is not on the disk"), "{refusal}");
}

#[test]
fn a_file_created_by_another_process() {
    let text = "about = \"x\"\n[[process]]\nname = \"a\"\nsteps = [{ write = { file = \"/f\", bytes = 1 } }]\n\
        [[process]]\nname = \"b\"\nsteps = [{ read = { file = \"/f\" } }]\n";
    assert!(Scenario::parse("s.toml", text, 1.0).is_ok());
}

#[test]
fn a_barrier_with_too_few_processes() {
    let text = "about = \"x\"\n[[process]]\nname = \"p-{n}\"\ncopies = 2\nsteps = [{ meet = { at = 1, members = 3 } }]\n";
    let refusal = refusal(text);
    assert!(
        refusal.starts_with("s.toml:5: process 'p-{n}': barrier 1 has 3 members but only 2"),
        "{refusal}"
    );
}

#[test]
fn too_many_threads_are_rejected() {
    for step in [
        "daemon = { files = \"/f\", threads = 4000000000, bytes = \"1 MiB\" }",
        "ffsb = { profile = \"web\", files = \"/\", threads = 4000000000 }",
        "tpc-b = { table = \"/f\", log = \"/f\", lasts = \"1 s\", checkpoint-every = \"1 s\", clients = 4000000000 }",
    ] {
        let text = format!(
            "about = \"x\"\n[[on-disk]]\nfile = \"/f\"\nbytes = \"1 MiB\"\n[[process]]\nname = \"p\"\nsteps = [{{ {step} }}]\n"
        );
        let refusal = refusal(&text);
        assert!(refusal.contains("starts 4000000000 processes or threads; at most 100000"), "{refusal}");
    }
}

#[test]
fn errors_of_fields_and_sizes_name_their_line() {
    let unknown = refusal("about = \"x\"\n[[process]]\nname = \"p\"\nstepz = []\n");
    assert!(unknown.starts_with("s.toml:4: ") && unknown.contains("stepz"), "{unknown}");
    let size = refusal(
        "about = \"x\"\n[[process]]\nname = \"p\"\nsteps = [{ write = { file = \"/f\", bytes = \"ten\" } }]\n",
    );
    assert!(size.starts_with("s.toml:4: ") && size.contains("'ten'"), "{size}");
}

#[test]
fn a_partition_must_be_whole_mebibytes() {
    let refusal = refusal("about = \"x\"\n[change]\npartition = { at = \"1 MiB\", bytes = \"1 KiB\" }\n");
    assert_eq!(refusal, "s.toml:3: change.partition: `at` and `bytes` must be whole MiB");
}

#[test]
fn endless_processes_must_run_in_the_background() {
    let text = "about = \"x\"\n[[process]]\nname = \"p\"\nsteps = [{ forever = [{ sync = {} }] }]\n";
    let forever = refusal(text);
    assert!(forever.starts_with("s.toml:2: process 'p': has a step without end"), "{forever}");
    let beside = refusal("about = \"x\"\n[[process]]\nname = \"p\"\nbeside = true\nsteps = []\n");
    assert!(beside.contains("nothing is measured"), "{beside}");
}

#[test]
fn an_item_is_of_one_kind() {
    let text =
        "about = \"x\"\n[[on-disk]]\nfile = \"/a\"\ntree = \"/b\"\n[[process]]\nname = \"p\"\nsteps = []\n";
    let both = refusal(text);
    assert!(both.starts_with("s.toml:2: on-disk: exactly one of"), "{both}");
}

#[test]
fn the_project_scripts_are_valid() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts");
    let mut count = 0;
    let files = std::fs::read_dir(directory).expect("scripts/").flatten();
    for file in files.filter(|file| file.path().extension().is_some_and(|extension| extension == "toml")) {
        let text = std::fs::read_to_string(file.path()).expect("a script");
        let name = file.path().display().to_string();
        Scenario::parse(&name, &text, 1.0).unwrap_or_else(|error| panic!("{error}"));
        count += 1;
    }
    assert!(count >= 3, "{count} scripts");
}

#[test]
fn other_seeds_change_the_programs_that_have_one() {
    let mut with_seed = 0;
    for (name, text) in papers::SCRIPTS {
        let script = Scenario::parse(name, text, 1.0).unwrap();
        let steps = |by: u64| {
            let mut script = script.clone();
            script.reseed(by);
            format!("{:?}", script.script.process)
        };
        assert_eq!(steps(0), format!("{:?}", script.script.process), "{name}");
        let seeds = |text: &str| text.matches(" seed: ").count();
        let unchanged = |text: &str| text.matches(" seed: 0").count();
        with_seed += usize::from(seeds(&steps(1)) > 0);
        assert_eq!(unchanged(&steps(1)), 0, "{name}");
        assert_eq!(seeds(&steps(1)), seeds(&steps(0)), "{name}");
    }
    assert!(with_seed > 3, "{with_seed} scripts have programs with a seed");
}
