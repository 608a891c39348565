//! Names of operations between a connection and the device.

/// The connection, its request, and the part of that request that an operation belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::nbd) struct Cookie {
    pub(in crate::nbd) connection: u16,
    pub(in crate::nbd) pending: u16,
    pub(in crate::nbd) part: u16,
}

impl Cookie {
    pub(in crate::nbd) const fn pack(self) -> u64 {
        (self.connection as u64) << 32 | (self.pending as u64) << 16 | self.part as u64
    }

    pub(in crate::nbd) const fn unpack(cookie: u64) -> Self {
        Self { connection: (cookie >> 32) as u16, pending: (cookie >> 16) as u16, part: cookie as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_cookie_is_kept() {
        for (connection, pending, part) in
            [(0, 0, 0), (1, 2, 3), (u16::MAX, 0, 0), (0, u16::MAX, 0), (0, 0, u16::MAX)]
        {
            let cookie = Cookie { connection, pending, part };
            assert_eq!(Cookie::unpack(cookie.pack()), cookie);
        }
    }
}
