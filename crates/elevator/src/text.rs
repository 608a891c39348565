//! Text for messages: counts, sizes, and suggestions for misspelt names.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// A count with its noun: `1 request`, `2 requests`, `3 switches`.
#[must_use]
pub fn counted(number: u64, one: &str) -> String {
    let ending = match one {
        _ if number == 1 => "",
        _ if one.ends_with(['s', 'h']) => "es",
        _ => "s",
    };
    format!("{number} {one}{ending}")
}

/// A size in the largest binary unit of which it is a whole number, up to GiB: `128 KiB`, `1000 bytes`.
#[must_use]
pub fn whole(bytes: u64) -> String {
    let power = (u64::from(bytes.trailing_zeros()) / 10).min(3) as usize;
    match (bytes, power) {
        (0, _) | (_, 0) => format!("{bytes} bytes"),
        _ => format!("{} {}", bytes >> (10 * power), ["bytes", "KiB", "MiB", "GiB"][power]),
    }
}

/// `; did you mean 'deadline'?`: the end of a message about an unknown name. Empty if no known name is near.
#[must_use]
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default()
}

/// The same for a message of serde's form: the unknown name in back quotes, then the known names in back quotes.
#[must_use]
pub fn did_you_mean_of(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let hint =
        quoted.next().filter(|_| message.starts_with("unknown")).map(|name| did_you_mean(name, quoted));
    hint.unwrap_or_default()
}

/// The known name nearest to `name`, ignoring case; of several the first. A name is near if at most a third of its letters
/// (at least one) differ, or if it begins with `name`.
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

/// The optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours, no letter edited twice.
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
    fn counts_have_their_plural() {
        let all = [(0, "request"), (1, "request"), (2, "process"), (1, "switch"), (3, "switch")];
        let expected = ["0 requests", "1 request", "2 processes", "1 switch", "3 switches"];
        assert_eq!(all.map(|(number, one)| counted(number, one)), expected);
    }

    #[test]
    fn sizes_use_the_largest_whole_unit() {
        let expected = ["0 bytes", "1000 bytes", "128 KiB", "1 MiB", "51 GiB", "2048 GiB"];
        assert_eq!([0, 1000, 128 << 10, 1 << 20, 51 << 30, 1 << 41].map(whole), expected);
    }

    #[test]
    fn a_misspelt_name_gets_the_nearest_known_name() {
        let known = ["noop", "bfq", "deadline", "mq-deadline", "ssd-nvme", "wd5000aaks"];
        for (name, near) in [
            ("deadlin", Some("deadline")),
            ("DEADLINE", Some("deadline")),
            ("deadlnie", Some("deadline")),
            ("nop", Some("noop")),
            ("bqf", Some("bfq")),
            ("ssd", Some("ssd-nvme")),
            ("wd5000", Some("wd5000aaks")),
            // Three of eleven letters.
            ("mq-deaxxxne", Some("mq-deadline")),
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
    fn edits_are_counted() {
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
