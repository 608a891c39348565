//! Copies data without the processor's caches, if it will not be read soon.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

/// A cache line, of every x86-64 processor.
#[cfg(target_arch = "x86_64")]
#[repr(align(64))]
struct Line([u8; 64]);

/// Copies `from` to `to`. An ordinary copy loads each cache line that it overwrites, which doubles the time if the line is in no
/// cache. After this copy the data is in no cache.
///
/// # Panics
/// If the lengths differ.
#[cfg(target_arch = "x86_64")]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "equal lengths");
    // SAFETY: any 64 bytes are a valid line.
    let (before, lines, after) = unsafe { to.align_to_mut::<Line>() };
    let (from_before, from) = from.split_at(before.len());
    let (from_lines, from_after) = from.split_at(size_of_val(lines));
    before.copy_from_slice(from_before);
    for (to, from) in lines.iter_mut().zip(from_lines.as_chunks().0) {
        stream(to, from);
    }
    after.copy_from_slice(from_after);
    // SAFETY: every x86-64 processor has this instruction. It orders later stores after the streamed ones, also for other processors.
    unsafe { _mm_sfence() };
}

#[cfg(target_arch = "x86_64")]
fn stream(to: &mut Line, from: &[u8; 64]) {
    let (to, from) = ((&raw mut to.0).cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
    // SAFETY: both have the length of four vectors, `to` is aligned, and the caller executes the fence. All loads precede the
    // stores, so that the stores fill a line without interruption.
    unsafe {
        let (a, b) = (_mm_loadu_si128(from), _mm_loadu_si128(from.add(1)));
        let (c, d) = (_mm_loadu_si128(from.add(2)), _mm_loadu_si128(from.add(3)));
        _mm_stream_si128(to, a);
        _mm_stream_si128(to.add(1), b);
        _mm_stream_si128(to.add(2), c);
        _mm_stream_si128(to.add(3), d);
    }
}

/// Copies `from` to `to`.
///
/// # Panics
/// If the lengths differ.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_range_is_copied_at_every_alignment() {
        let from: Vec<u8> = (0..1024).map(|n| (n % 251) as u8 + 1).collect();
        for begin in 0..70 {
            for len in [0, 1, 15, 63, 64, 65, 200, 512] {
                let mut to = vec![0; from.len()];
                copy(&mut to[begin..begin + len], &from[3..3 + len]);
                assert!(to[begin..begin + len] == from[3..3 + len], "{len} bytes at {begin}");
                assert!(
                    to[..begin].iter().chain(&to[begin + len..]).all(|&byte| byte == 0),
                    "{len} bytes at {begin}"
                );
            }
        }
    }
}
