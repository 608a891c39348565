//! Numbers of things in messages.

use alloc::format;
use alloc::string::String;

/// A number of things by the name of one: `1 request`, `2 requests`, `3 switches`.
#[must_use]
pub fn counted(number: u64, one: &str) -> String {
    let ending = match one {
        _ if number == 1 => "",
        _ if one.ends_with(['s', 'h']) => "es",
        _ => "s",
    };
    format!("{number} {one}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one() {
        let all = [(0, "request"), (1, "request"), (2, "process"), (1, "switch"), (3, "switch")];
        let said = ["0 requests", "1 request", "2 processes", "1 switch", "3 switches"];
        assert_eq!(all.map(|(number, one)| counted(number, one)), said);
    }
}
