//! Copies of what will not be looked at soon, past the processor's caches.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

/// A cache line, of every x86-64 processor.
#[cfg(target_arch = "x86_64")]
#[repr(align(64))]
struct Line([u8; 64]);

/// Copies `from` to `to`, which must be as long. An ordinary copy has each line fetched that it writes over, which takes about as
/// long as everything else where the line is in no cache. What was copied is in none either afterwards.
///
/// # Panics
/// They are not equally long.
#[cfg(target_arch = "x86_64")]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "a copy is as long as what is copied");
    // SAFETY: whatever bytes there are make a line.
    let (before, lines, after) = unsafe { to.align_to_mut::<Line>() };
    let (from_before, from) = from.split_at(before.len());
    let (from_lines, from_after) = from.split_at(size_of_val(lines));
    before.copy_from_slice(from_before);
    for (to, from) in lines.iter_mut().zip(from_lines.as_chunks().0) {
        stream(to, from);
    }
    after.copy_from_slice(from_after);
    // SAFETY: every x86-64 processor has it. Stores that follow come behind the streamed ones, for other processors as well.
    unsafe { _mm_sfence() };
}

#[cfg(target_arch = "x86_64")]
fn stream(to: &mut Line, from: &[u8; 64]) {
    let (to, from) = ((&raw mut to.0).cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
    // SAFETY: both are four times as long as what is moved at once, `to` is aligned, and the caller fences what is streamed. All is
    // loaded first, so that nothing comes between the stores that fill the line.
    unsafe {
        let (a, b) = (_mm_loadu_si128(from), _mm_loadu_si128(from.add(1)));
        let (c, d) = (_mm_loadu_si128(from.add(2)), _mm_loadu_si128(from.add(3)));
        _mm_stream_si128(to, a);
        _mm_stream_si128(to.add(1), b);
        _mm_stream_si128(to.add(2), c);
        _mm_stream_si128(to.add(3), d);
    }
}

/// Copies `from` to `to`, which must be as long.
///
/// # Panics
/// They are not equally long.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_copied_and_nothing_beside_it_wherever_it_begins_and_ends() {
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
