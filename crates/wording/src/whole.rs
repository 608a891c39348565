//! Sizes that are whole numbers of a binary unit.

use alloc::format;
use alloc::string::String;

/// A number of bytes in words, in the largest unit of which it is a whole number, up to GiB: `128 KiB`, `1000 bytes`.
#[must_use]
pub fn whole(bytes: u64) -> String {
    let power = (u64::from(bytes.trailing_zeros()) / 10).min(3) as usize;
    match (bytes, power) {
        (0, _) | (_, 0) => format!("{bytes} bytes"),
        _ => format!("{} {}", bytes >> (10 * power), ["bytes", "KiB", "MiB", "GiB"][power]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_the_largest_unit_that_fits() {
        let said = ["0 bytes", "1000 bytes", "128 KiB", "1 MiB", "51 GiB", "2048 GiB"];
        assert_eq!([0, 1000, 128 << 10, 1 << 20, 51 << 30, 1 << 41].map(whole), said);
    }
}
