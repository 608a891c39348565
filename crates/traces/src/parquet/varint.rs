//! Numbers of variable length.

/// An unsigned LEB128 number.
pub(super) fn number(to: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// A signed number in zigzag order.
pub(super) fn signed(to: &mut Vec<u8>, value: i64) {
    number(to, (value << 1 ^ value >> 63) as u64);
}
