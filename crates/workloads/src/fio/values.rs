//! Values of options: sizes, times, lists by direction, and distributions, as fio reads them.

use elevator::Span;

use super::job::Distribution;

/// A value for reads, writes and discards each, as in `rate=1m,500k`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ByDirection<T>(pub(super) [Option<T>; 3]);

impl<T: Copy> ByDirection<T> {
    /// One value counts for all directions; of two, the second counts for writes and discards. An empty value leaves its
    /// direction unset.
    pub(super) fn parse(text: &str, mut one: impl FnMut(&str) -> Result<T, String>) -> Result<Self, String> {
        let mut parse =
            |part: &str| if part.trim().is_empty() { Ok(None) } else { one(part.trim()).map(Some) };
        match text.split(',').collect::<Vec<_>>()[..] {
            [all] => Ok(Self([one(all)?; 3].map(Some))),
            [reads, others] => {
                let others = parse(others)?;
                Ok(Self([parse(reads)?, others, others]))
            }
            [reads, writes, trims] => Ok(Self([parse(reads)?, parse(writes)?, parse(trims)?])),
            _ => Err("expected at most three values: reads, writes, discards".to_owned()),
        }
    }

    /// The values for reads, and for writes or, if the job discards, discards.
    pub(super) fn of(self, trims: bool) -> [Option<T>; 2] {
        [self.0[0], self.0[if trims { 2 } else { 1 }]]
    }
}

/// An amount that may depend on the size of a file or device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Amount {
    Bytes(u64),
    Percent(u64),
}

impl Amount {
    /// `4k`, or a whole percentage up to 100.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.strip_suffix('%') {
            Some(percent) => {
                let whole = number(percent.trim(), 0, 100);
                Ok(Self::Percent(
                    whole.map_err(|_| "expected a whole percentage from 0% to 100%".to_owned())?,
                ))
            }
            None => bytes(text).map(Self::Bytes),
        }
    }

    /// Of a file of `total` bytes.
    pub(super) fn of(self, total: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (u128::from(total) * u128::from(percent) / 100) as u64,
        }
    }

    pub(super) const fn is_percentage(self) -> bool {
        matches!(self, Self::Percent(_))
    }
}

/// A size in bytes with fio's default `kb_base=1024`: `4k`, `4kb` and `4ki` are 4096, but `4KiB` is 4000, which fio takes for
/// the decimal form.
pub(super) fn size(text: &str) -> Option<u64> {
    let text = text.trim().to_lowercase();
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (letter, base) = match unit.strip_suffix("ib") {
        Some(letter) => (letter, 1000_u64),
        None => (unit.strip_suffix(['b', 'i']).unwrap_or(unit), 1024),
    };
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|&known| known == letter)?;
    number.parse::<u64>().ok()?.checked_mul(base.pow(power as u32))
}

/// A time in nanoseconds; a number without a suffix counts `unit` nanoseconds.
fn nanoseconds(text: &str, unit: u64) -> Option<u64> {
    let text = text.trim().to_lowercase();
    if text.contains(':') {
        return clock(&text);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let unit = match suffix {
        "" => unit,
        "ns" => 1,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// `DD:HH:MM:SS` or less of it, in nanoseconds.
fn clock(text: &str) -> Option<u64> {
    let parts = text.split(':').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<_>>>()?;
    let seconds = [1, 60, 3_600, 86_400];
    let sum = (parts.len() <= seconds.len()).then(|| {
        let each = parts.iter().rev().zip(seconds).map(|(part, seconds)| part.checked_mul(seconds));
        each.sum::<Option<u64>>()
    })?;
    sum?.checked_mul(1_000_000_000)
}

pub(super) fn bytes(value: &str) -> Result<u64, String> {
    size(value).ok_or_else(|| match split_decimal(value) {
        Some((number, unit)) => whole(number, size(&format!("1{unit}")), &SIZES),
        None => "expected a size such as 4k or 1g".to_owned(),
    })
}

/// Units of a replacement for a number with a decimal point, the largest first.
const SIZES: [(&str, u64); 5] = [("t", 1 << 40), ("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10), ("", 1)];
const TIMES: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// A number with a decimal point, and its unit.
fn split_decimal(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    Some((number.parse().ok().filter(|_| number.contains('.'))?, unit))
}

/// The message for a number with a decimal point: what to write instead. fio itself reads `1.5g` as one byte.
fn whole(number: f64, unit: Option<u64>, units: &[(&str, u64)]) -> String {
    let problem = "fio reads whole numbers, and nothing behind a decimal point";
    let Some(amount) = unit.map(|unit| (number * unit as f64).round() as u64).filter(|&amount| amount > 0)
    else {
        return problem.to_owned();
    };
    let fits = units.iter().find(|(_, size)| amount.is_multiple_of(*size));
    fits.map_or(problem.to_owned(), |(name, size)| format!("{problem}; write {}{name}", amount / size))
}

/// A position, in bytes or as a percentage; requests address whole sectors.
pub(super) fn position(value: &str) -> Result<Amount, String> {
    if value.ends_with('%') { Amount::parse(value) } else { whole_sectors(value).map(Amount::Bytes) }
}

/// A distance; requests address whole sectors.
pub(super) fn whole_sectors(value: &str) -> Result<u64, String> {
    let bytes = bytes(value)?;
    if bytes.is_multiple_of(512) { Ok(bytes) } else { Err("must be a multiple of 512 bytes".to_owned()) }
}

/// A block size.
pub(super) fn block(value: &str) -> Result<u64, String> {
    let bytes = bytes(value)?;
    if bytes == 0 || !bytes.is_multiple_of(512) || bytes > 1 << 30 {
        let problem = "must be a multiple of 512 bytes, at most 2^30 (fio's k is 1024 bytes, its KiB 1000)";
        return Err(problem.to_owned());
    }
    Ok(bytes)
}

pub(super) fn time(value: &str, unit: u64) -> Result<Span, String> {
    nanoseconds(value, unit).map(Span::from_nanos).ok_or_else(|| match split_decimal(value) {
        Some((number, suffix)) => whole(number, nanoseconds(&format!("1{suffix}"), unit), &TIMES),
        None => "expected a time such as 200us or 10s".to_owned(),
    })
}

pub(super) fn number(value: &str, min: u64, max: u64) -> Result<u64, String> {
    value
        .parse()
        .ok()
        .filter(|n| (min..=max).contains(n))
        .ok_or_else(|| format!("expected a number from {min} to {max}"))
}

/// A boolean: without a value, or 1, is true.
pub(super) fn flag(value: &str) -> Result<bool, String> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("expected 0 or 1".to_owned()),
    }
}

/// A fraction or factor.
pub(super) fn decimal(value: &str) -> Result<f64, String> {
    value
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .ok_or_else(|| format!("'{value}' is not a number"))
}

/// A table such as `4k/60:16k/40`: entries with percentages. Entries without one share what is left of 100 evenly.
pub(super) fn percentages<T>(
    text: &str,
    mut one: impl FnMut(&str) -> Result<T, String>,
) -> Result<Vec<(T, u64)>, String> {
    let mut entries = Vec::new();
    for entry in text.split(':').filter(|entry| !entry.is_empty()) {
        let (value, percent) = entry.split_once('/').unwrap_or((entry, ""));
        let percent = if percent.is_empty() { None } else { Some(number(percent, 0, 100)?) };
        entries.push((one(value)?, percent));
    }
    let given: u64 = entries.iter().filter_map(|(_, percent)| *percent).sum();
    let missing = entries.iter().filter(|(_, percent)| percent.is_none()).count() as u64;
    if entries.is_empty() || given > 100 {
        return Err(
            "expected entries such as 4k/60:16k/40 whose percentages add up to at most 100".to_owned()
        );
    }
    let share = (100 - given).checked_div(missing).unwrap_or(0);
    Ok(entries.into_iter().map(|(value, percent)| (value, percent.unwrap_or(share))).collect())
}

/// Up to three lists by direction; as for [`ByDirection`], one counts for all and the second for writes and discards.
pub(super) fn lists(value: &str) -> Result<[Option<&str>; 3], String> {
    ByDirection::parse(value, |_| Ok(()))?;
    let parts: Vec<&str> = value.split(',').collect();
    let of = |n: usize| parts.get(n.min(parts.len() - 1)).copied().filter(|part| !part.is_empty());
    Ok([of(0), of(1), of(2)])
}

/// `zipf:1.2:0.5`, `zoned:60/10:40/90`, by direction; `trims`: the job discards.
pub(super) fn distribution(value: &str, trims: bool) -> Result<Distribution, String> {
    let (kind, rest) = value.split_once(':').map_or((value, None), |(kind, rest)| (kind, Some(rest)));
    let parameters = |default: Option<f64>| -> Result<(f64, Option<f64>), String> {
        if let Some((first, _)) = rest.and_then(|rest| rest.split_once('/')) {
            return Err(format!(
                "'/' separates nothing here; a centre follows ':' as a share from 0 to 1, such as {kind}:{first}:0.5"
            ));
        }
        let mut parts = rest.unwrap_or("").split(':').filter(|part| !part.is_empty());
        let first = parts.next().map(decimal).transpose()?.or(default).ok_or("needs a parameter")?;
        let center = parts.next().map(decimal).transpose()?;
        if center.is_some_and(|center| !(0.0..=1.0).contains(&center)) || parts.next().is_some() {
            return Err("expected one parameter, and a centre from 0 to 1 behind it".to_owned());
        }
        Ok((first, center))
    };
    match kind {
        "random" => Ok(Distribution::Uniform),
        "zipf" => match parameters(Some(1.1))? {
            (theta, _) if theta <= 0.0 || theta == 1.0 => Err("theta must be above 0 and not 1".to_owned()),
            (theta, center) => Ok(Distribution::Zipf { theta, center }),
        },
        "pareto" => match parameters(Some(0.2))? {
            (power, _) if power <= 0.0 || power >= 1.0 => Err("the power must be between 0 and 1".to_owned()),
            (power, center) => Ok(Distribution::Pareto { power, center }),
        },
        "normal" => match parameters(None)? {
            (deviation, _) if !(0.0..=100.0).contains(&deviation) => {
                Err("the deviation must be from 0 to 100 percent".to_owned())
            }
            (deviation, center) => Ok(Distribution::Normal { deviation, center }),
        },
        "zoned" | "zoned_abs" => {
            let lists = lists(rest.unwrap_or(""))?;
            let of = if trims { [0, 2] } else { [0, 1] };
            let list = |way: usize| lists[of[way]].ok_or("needs zones such as zoned:60/10:40/90");
            if kind == "zoned" {
                let zones = |text| zones(text, |size| number(size, 0, 100), Some(100));
                Ok(Distribution::Zoned([zones(list(0)?)?, zones(list(1)?)?]))
            } else {
                let zones = |text| zones(text, bytes, None);
                Ok(Distribution::ZonedAbsolute([zones(list(0)?)?, zones(list(1)?)?]))
            }
        }
        _ => Err("expected random, zipf, pareto, normal, zoned or zoned_abs".to_owned()),
    }
}

/// A zone's share of the accesses and its size, either of which may be missing.
type Zone = (Option<u64>, Option<u64>);

/// Zones as (share of the accesses in percent, end): `60/10:30/20:10/70`. `total`: what the sizes have to add up to; the shares
/// have to add up to 100. Of a missing share or size, the missing entries have equal parts of the rest.
fn zones(
    text: &str,
    size: impl Fn(&str) -> Result<u64, String>,
    total: Option<u64>,
) -> Result<Vec<(u64, u64)>, String> {
    let mut entries: Vec<Zone> = Vec::new();
    for entry in text.split(':').filter(|entry| !entry.is_empty()) {
        let (share, length) = entry.split_once('/').unwrap_or((entry, ""));
        let share = if share.is_empty() { None } else { Some(number(share, 0, 100)?) };
        entries.push((share, if length.is_empty() { None } else { Some(size(length)?) }));
    }
    let rest = |total: u64, given: &dyn Fn(&Zone) -> Option<u64>| {
        let sum: u64 = entries.iter().filter_map(given).sum();
        let missing = entries.iter().filter(|entry| given(entry).is_none()).count() as u64;
        total
            .checked_sub(sum)
            .filter(|&left| missing > 0 || left == 0)
            .map(|left| left.checked_div(missing).unwrap_or(0))
    };
    let share = rest(100, &|entry| entry.0).ok_or("the shares of the accesses must add up to 100")?;
    let length = match total {
        Some(total) => rest(total, &|entry| entry.1).ok_or("the sizes must add up to 100")?,
        None if entries.iter().any(|entry| entry.1.is_none()) => {
            return Err("every zone needs a size".to_owned());
        }
        None => 0,
    };
    let mut end = 0_u64;
    let ends = entries.iter().map(|entry| {
        end = end.saturating_add(entry.1.unwrap_or(length));
        (entry.0.unwrap_or(share), end)
    });
    let zones: Vec<_> = ends.collect();
    if zones.is_empty() { Err("needs zones such as zoned:60/10:40/90".to_owned()) } else { Ok(zones) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("4k"), Some(4096));
        assert_eq!([size("1g"), size("1GB"), size("1Gi")], [Some(1 << 30); 3]);
        assert_eq!([size("1GiB"), size("4kib")], [Some(1_000_000_000), Some(4000)]);
        assert_eq!([size("512"), size("0x1000"), size("0xg")], [Some(512), Some(4096), None]);
        assert_eq!(Amount::parse("50%").map(|half| half.of(4097)), Ok(2048));
        assert!(["101%", "1.5%", "%", "x%", "-1%"].iter().all(|wrong| Amount::parse(wrong).is_err()));
        assert_eq!(nanoseconds("01:00:01", 1), nanoseconds("3601s", 1));
        assert_eq!([nanoseconds("1:x", 1), nanoseconds("1:1:1:1:1", 1)], [None, None]);
        assert_eq!(size("4q"), None);
        assert_eq!(size("99999999999t"), None);
        assert_eq!(nanoseconds("200", 1_000), Some(200_000));
        assert_eq!(nanoseconds("2s", 1_000), Some(2_000_000_000));
        assert_eq!(nanoseconds("1d", 1), nanoseconds("24h", 1));
        assert_eq!(nanoseconds("x", 1), None);
    }

    #[test]
    fn numbers_with_a_decimal_point_are_answered_with_whole_ones() {
        let size = |text| bytes(text).unwrap_err();
        for (text, instead) in [
            ("1.5g", "; write 1536m"),
            ("0.5k", "; write 512"),
            ("1.1m", "; write 1153434"),
            ("2.0m", "; write 2m"),
        ] {
            assert!(size(text).ends_with(instead), "{}", size(text));
        }
        assert!(["1.5q", ".", "0.0g", "1.2.3m"].iter().all(|text| !size(text).contains("write")));
        assert!(time("1.5", 1_000_000_000).unwrap_err().ends_with("; write 1500ms"));
        assert!(time("0.2ms", 1_000).unwrap_err().ends_with("; write 200us"));
    }

    #[test]
    fn values_by_direction() {
        let parse = |text| ByDirection::parse(text, bytes).map(|by| by.0);
        assert_eq!(parse("4k"), Ok([Some(4096); 3]));
        assert_eq!(parse("4k,8k"), Ok([Some(4096), Some(8192), Some(8192)]));
        assert_eq!(parse("4k,"), Ok([Some(4096), None, None]));
        assert_eq!(parse(",8k"), Ok([None, Some(8192), Some(8192)]));
        assert_eq!(parse(",8k,"), Ok([None, Some(8192), None]));
        assert!(parse("1,2,3,4").is_err() && parse("x,1").is_err());
    }

    #[test]
    fn missing_percentages_share_the_rest() {
        let parse = |text| percentages(text, bytes);
        assert_eq!(parse("4k/10:8k/:16k/"), Ok(vec![(4096, 10), (8192, 45), (16384, 45)]));
        assert_eq!(parse("4k"), Ok(vec![(4096, 100)]));
        assert!(parse("4k/60:8k/50").is_err() && parse("").is_err() && parse("4k/x").is_err());
    }

    #[test]
    fn distributions() {
        let parse = |value| distribution(value, false);
        assert_eq!(parse("zipf"), Ok(Distribution::Zipf { theta: 1.1, center: None }));
        assert_eq!(parse("zipf:0.9:0.5"), Ok(Distribution::Zipf { theta: 0.9, center: Some(0.5) }));
        assert_eq!(parse("pareto:0.3"), Ok(Distribution::Pareto { power: 0.3, center: None }));
        assert_eq!(parse("normal:20"), Ok(Distribution::Normal { deviation: 20.0, center: None }));
        let zones = vec![(60, 10), (30, 30), (8, 60), (2, 100)];
        assert_eq!(parse("zoned:60/10:30/20:8/30:2/40"), Ok(Distribution::Zoned([zones.clone(), zones])));
        // The example of fio's manual: the rest is spread over the missing entries.
        let zones = vec![(50, 5), (30, 15), (20, 100)];
        assert_eq!(parse("zoned:50/5:30/10:20/"), Ok(Distribution::Zoned([zones.clone(), zones])));
        let [reads, writes] = [vec![(100, 1 << 20)], vec![(40, 1 << 20), (60, 3 << 20)]];
        assert_eq!(parse("zoned_abs:100/1m,40/1m:60/2m"), Ok(Distribution::ZonedAbsolute([reads, writes])));
        for wrong in
            ["zipf:1", "zipf:x", "pareto:1", "normal", "zoned", "zoned:60/10:30/20", "zoned_abs:100", "odd"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
