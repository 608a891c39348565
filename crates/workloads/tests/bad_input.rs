//! Damaged scripts and machine descriptions: an error with a position, or a script that runs, never a panic.

use elevator::Random;
use elevator::Sector;
use machine::kernel::{Description, Image, Kernel};
use workloads::scenario::{Scenario, papers};

/// Damages a text in a few places: characters, numbers, lines.
fn damaged(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=random.below(3) {
        let nth = random.below(lines.len() as u64) as usize;
        match random.below(5) {
            0 => lines[nth].clear(),
            1 => lines[nth] = lines[random.below(lines.len() as u64) as usize].clone(),
            2 => {
                let numbers = ["0", "1", "18446744073709551615", "-1", "4294967296", "0.5"];
                let number = numbers[random.below(numbers.len() as u64) as usize];
                let from = lines[nth].find(|c: char| c.is_ascii_digit());
                if let Some(from) = from {
                    let tail = &lines[nth][from..];
                    let to = from + tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
                    lines[nth].replace_range(from..to, number);
                }
            }
            _ => {
                let characters: Vec<char> = lines[nth].chars().collect();
                if !characters.is_empty() {
                    let at = random.below(characters.len() as u64) as usize;
                    let new = ['"', '{', '[', '=', 'x', '\u{e9}'][random.below(6) as usize];
                    lines[nth] =
                        characters.iter().enumerate().map(|(n, &c)| if n == at { new } else { c }).collect();
                }
            }
        }
    }
    lines.join("\n")
}

#[test]
fn damaged_scripts_are_rejected_or_run() {
    let mut random = Random::new(1);
    let mut refused = 0;
    for (name, text) in papers::SCRIPTS {
        for _ in 0..60 {
            if let Err(error) = Scenario::parse(name, &damaged(text, &mut random), 0.001) {
                let message = error.to_string();
                assert!(message.starts_with(name), "no place in: {message}");
                refused += 1;
            }
        }
    }
    assert!(refused > 500, "{refused} were refused");
}

#[test]
fn damaged_machines_are_rejected_or_boot() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/machines");
    let mut random = Random::new(2);
    let (mut refused, mut booted) = (0, 0);
    for file in std::fs::read_dir(folder).expect("the machines") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("text");
        for _ in 0..150 {
            let kernel = Description::from_toml(&damaged(&text, &mut random))
                .and_then(|description| Kernel::new(&description, Sector(1 << 22), &Image::new()));
            match kernel {
                Ok(_) => booted += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 100 && booted > 50, "{refused} were refused, {booted} booted");
}

#[test]
fn a_script_needs_only_a_process() {
    let least = "[[process]]\nname = \"a\"\nsteps = [{ think = \"1 ms\" }]\n";
    assert_eq!(Scenario::parse("s.toml", least, 1.0).expect("a script").script.about, "s.toml");
    let empty = Scenario::parse("s.toml", "", 1.0).expect_err("nothing to do").to_string();
    assert!(empty.contains("the script has no process"), "{empty}");
}
