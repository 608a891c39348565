//! Scripts that are wrong: each is refused with its line, and says what to do.

use workloads::scenario::Scenario;

fn refusal(text: &str) -> String {
    match Scenario::parse("s.toml", text, 1.0) {
        Ok(_) => panic!("it was read"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_file_that_nobody_makes() {
    let text = "about = \"x\"\n\n[[process]]\nname = \"cat\"\nsteps = [\n    { think = \"1 ms\" },\n    { read = { file = \"/no/such\" } },\n]\n";
    let refusal = refusal(text);
    assert!(refusal.starts_with("s.toml:7: process 'cat': '/no/such' is not on the disk"), "{refusal}");
}

#[test]
fn a_file_that_another_process_makes_is_fine() {
    let text = "about = \"x\"\n[[process]]\nname = \"a\"\nsteps = [{ write = { file = \"/f\", bytes = 1 } }]\n\
        [[process]]\nname = \"b\"\nsteps = [{ read = { file = \"/f\" } }]\n";
    assert!(Scenario::parse("s.toml", text, 1.0).is_ok());
}

#[test]
fn a_barrier_to_which_too_few_come() {
    let text = "about = \"x\"\n[[process]]\nname = \"p-{n}\"\ncopies = 2\nsteps = [{ meet = { at = 1, members = 3 } }]\n";
    let refusal = refusal(text);
    assert!(
        refusal.starts_with("s.toml:5: process 'p-{n}': barrier 1 has 3 members but only 2"),
        "{refusal}"
    );
}

#[test]
fn more_threads_than_anybody_has_are_refused() {
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
fn an_unknown_field_and_a_malformed_size_name_their_line() {
    let unknown = refusal("about = \"x\"\n[[process]]\nname = \"p\"\nstepz = []\n");
    assert!(unknown.starts_with("s.toml:4: ") && unknown.contains("stepz"), "{unknown}");
    let size = refusal(
        "about = \"x\"\n[[process]]\nname = \"p\"\nsteps = [{ write = { file = \"/f\", bytes = \"ten\" } }]\n",
    );
    assert!(size.starts_with("s.toml:4: ") && size.contains("'ten'"), "{size}");
}

#[test]
fn a_partition_of_half_a_mebibyte_is_refused() {
    let refusal = refusal("about = \"x\"\n[change]\npartition = { at = \"1 MiB\", bytes = \"1 KiB\" }\n");
    assert_eq!(refusal, "s.toml:3: change.partition: `at` and `bytes` must be whole MiB");
}

#[test]
fn what_never_ends_must_run_beside_something() {
    let text = "about = \"x\"\n[[process]]\nname = \"p\"\nsteps = [{ forever = [{ sync = {} }] }]\n";
    let forever = refusal(text);
    assert!(forever.starts_with("s.toml:2: process 'p': does something forever"), "{forever}");
    let beside = refusal("about = \"x\"\n[[process]]\nname = \"p\"\nbeside = true\nsteps = []\n");
    assert!(beside.contains("nothing is measured"), "{beside}");
}

#[test]
fn things_on_the_disk_are_one_thing_each() {
    let text =
        "about = \"x\"\n[[on-disk]]\nfile = \"/a\"\ntree = \"/b\"\n[[process]]\nname = \"p\"\nsteps = []\n";
    let both = refusal(text);
    assert!(both.starts_with("s.toml:2: on-disk: exactly one of"), "{both}");
}

#[test]
fn the_scripts_that_come_with_the_project_can_be_read() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts");
    let mut count = 0;
    for file in std::fs::read_dir(directory).expect("scripts/").flatten() {
        let text = std::fs::read_to_string(file.path()).expect("a script");
        let name = file.path().display().to_string();
        Scenario::parse(&name, &text, 1.0).unwrap_or_else(|error| panic!("{error}"));
        count += 1;
    }
    assert!(count >= 3, "{count} scripts");
}
