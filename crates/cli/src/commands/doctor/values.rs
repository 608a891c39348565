//! Values in unit files as systemd reads them.

/// The first word, which may be quoted, and what follows it.
pub(super) fn path_and_value(text: &str) -> Option<(&str, &str)> {
    let quoted = ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.split_once(quote));
    let (path, value) = quoted.or_else(|| text.split_once(char::is_whitespace))?;
    Some((path, value.trim())).filter(|(_, value)| !value.is_empty())
}

/// A number with systemd's decimal suffixes, which add up in falling order, each perhaps after a blank: `5M`, `1.5 G`, `1G 500M` (`parse_size` in systemd's
/// parse-util.c).
pub(super) fn size(text: &str) -> Option<u64> {
    const SUFFIXES: [(&str, i32); 8] =
        [("E", 6), ("P", 5), ("T", 4), ("G", 3), ("M", 2), ("K", 1), ("B", 0), ("", 0)];
    let (mut sum, mut from) = (0.0, 0);
    let mut rest = text.trim();
    while !rest.is_empty() || from == 0 {
        let (number, after) = decimal(rest).filter(|_| !rest.starts_with('.'))?;
        let fits = |(suffix, _): &(&str, i32)| after.starts_with(suffix);
        let at = from + SUFFIXES[from..].iter().position(fits)?;
        let (suffix, power) = SUFFIXES[at];
        sum += number * 1000_f64.powi(power);
        (rest, from) = (after[suffix.len()..].trim_start(), at + 1);
    }
    Some(sum.round() as u64)
}

/// The number without a sign, or with `+`, with which a text begins, and what follows it and blanks.
fn decimal(text: &str) -> Option<(f64, &str)> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let (number, after) =
        digits.split_at(digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len()));
    Some((number.parse().ok()?, after.trim_start()))
}

/// A number as systemd reads it, perhaps after `+`: decimal, `0x64`, `0b11`, or octal as `0o144` or `0144`.
pub(super) fn integer(text: &str) -> Option<u32> {
    const PREFIXES: [(&str, u32); 5] = [("0x", 16), ("0X", 16), ("0b", 2), ("0o", 8), ("0", 8)];
    let text = text.strip_prefix('+').unwrap_or(text);
    let prefixed = PREFIXES.iter().find_map(|(prefix, radix)| Some((text.strip_prefix(prefix)?, *radix)));
    let (digits, radix) = prefixed.filter(|_| text != "0").unwrap_or((text, 10));
    // `from_str_radix` accepts a sign of its own.
    u32::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'))
}

/// Whether systemd reads this as a time: numbers with units, in seconds without one (systemd.time(7)).
pub(super) fn is_time(text: &str) -> bool {
    const UNITS: [&str; 31] = [
        "", "us", "usec", "µs", "μs", "ms", "msec", "s", "sec", "second", "seconds", "m", "min", "minute",
        "minutes", "h", "hr", "hour", "hours", "d", "day", "days", "w", "week", "weeks", "M", "month",
        "months", "y", "year", "years",
    ];
    let mut rest = text.trim();
    while let Some((_, after)) = decimal(rest) {
        let (unit, next) = after
            .split_at(after.find(|c: char| c.is_whitespace() || c.is_ascii_digit()).unwrap_or(after.len()));
        rest = next.trim_start();
        if !UNITS.contains(&unit) {
            return false;
        }
        if rest.is_empty() {
            return true;
        }
    }
    text.trim() == "infinity"
}

#[cfg(test)]
mod tests {
    use super::{integer, is_time, size};

    /// Each was compared with `systemd-analyze verify`, systemd 252.
    #[test]
    fn sizes_add_up_in_falling_order() {
        let sizes = ["5M", "1.5G", "1G 500M", "7", "9K", "5 M", "+5M", "1G500M", "7B", "5M 7"].map(size);
        let expected = [
            5_000_000,
            1_500_000_000,
            1_500_000_000,
            7,
            9_000,
            5_000_000,
            5_000_000,
            1_500_000_000,
            7,
            5_000_007,
        ];
        assert_eq!(sizes, expected.map(Some));
        let wrong = [
            "5M 6M", "5M 1G", "fast", "", "5MM", "5MB", "9KB", "-5", "5%", "0x5", "5X", ".", ".5M", "+ 5",
            "5m",
        ];
        assert_eq!(wrong.map(size), [None; 15]);
    }

    #[test]
    fn numbers_have_the_bases_of_systemd() {
        for hundred in ["100", "+100", "0x64", "0X64", "0144", "0o144", "0b1100100"] {
            assert_eq!(integer(hundred), Some(100), "{hundred}");
        }
        assert_eq!(integer("0"), Some(0));
        assert_eq!(["", "-1", "++1", "0x", "0x+1", "09", "50%", "1.5"].map(integer), [None; 8]);
    }

    #[test]
    fn times_have_the_units_of_systemd() {
        for time in [
            "25ms", "25 ms", "5", "1min 30s", "1h30min", "0.5s", "10us", "10µs", "2days", "+5ms", ".5s",
            "5ms 6ms", "infinity",
        ] {
            assert!(is_time(time), "{time}");
        }
        for wrong in ["", "25mx", "abc", "-5ms", "5%", "5 x", "ms"] {
            assert!(!is_time(wrong), "{wrong}");
        }
    }
}
