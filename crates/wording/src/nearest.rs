//! Which known name was meant by one that nothing has.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// `; did you mean 'deadline'?`, for the end of what is said of a name that nothing has; empty where no known name is near.
#[must_use]
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}

/// The same for a message that names what was not known and then what is, each in back quotes, as serde's do.
#[must_use]
pub fn did_you_mean_of(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let hint =
        quoted.next().filter(|_| message.starts_with("unknown")).map(|name| did_you_mean(name, quoted));
    hint.unwrap_or_default()
}

/// The known name nearest to `name`, whatever the case of the letters; of several the first. Near is what at most a third of the
/// letters, or one, must be changed for, and what `name` is the beginning of.
fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let far = |known: &str| {
        let known: Vec<char> = known.to_lowercase().chars().collect();
        let edits = edits(&name, &known);
        let near = edits <= 1.max(name.len().max(known.len()) / 3);
        (near || name.len() > 1 && known.starts_with(&name)).then_some(edits)
    };
    let near = known.into_iter().filter_map(|known| Some((far(known)?, known)));
    near.min_by_key(|&(edits, _)| edits).map(|(_, known)| known)
}

/// How many letters must be put in, left out, exchanged or swapped with their neighbour to make `b` of `a` (Damerau's and
/// Levenshtein's distance, no letter touched twice).
fn edits(a: &[char], b: &[char]) -> usize {
    let mut edits = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            edits[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let exchanged = edits[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let swapped = if swap { edits[i - 2][j - 2] + 1 } else { exchanged };
                exchanged.min(swapped).min(edits[i - 1][j] + 1).min(edits[i][j - 1] + 1)
            };
        }
    }
    edits[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_its_neighbour() {
        let known = ["noop", "bfq", "deadline", "mq-deadline", "ssd-nvme", "wd5000aaks"];
        for (name, near) in [
            ("deadlin", Some("deadline")),
            ("DEADLINE", Some("deadline")),
            ("deadlnie", Some("deadline")),
            ("nop", Some("noop")),
            ("bqf", Some("bfq")),
            ("ssd", Some("ssd-nvme")),
            ("wd5000", Some("wd5000aaks")),
            ("zzzzzz", None),
            ("nice", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), near, "{name}");
        }
        assert_eq!(did_you_mean("dedline", known), "; did you mean 'deadline'?");
        assert_eq!(did_you_mean("x", known), "");
        let message = "unknown field `chunck`, expected one of `file`, `chunk`";
        assert_eq!(did_you_mean_of(message), "; did you mean 'chunk'?");
        assert_eq!(did_you_mean_of("expected `chunck` or `chunk`"), "");
    }

    #[test]
    fn edits_are_counted_as_a_typist_makes_them() {
        let count = |a: &str, b: &str| {
            let [a, b]: [Vec<char>; 2] = [a, b].map(|text| text.chars().collect());
            edits(&a, &b)
        };
        for (a, b, by_hand) in [
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
            ("abcd", "badc", 2),
        ] {
            assert_eq!(count(a, b), by_hand, "{a} {b}");
        }
    }
}
