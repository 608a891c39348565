//! Page-aligned memory, as bytes.

/// Alignment of addresses for direct I/O; no device needs more.
pub const ALIGNMENT: usize = 4096;

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
pub(super) struct Page([u8; ALIGNMENT]);

pub(super) type Pages = Box<[Page]>;

pub(super) fn allocate(bytes: usize) -> Pages {
    vec![Page([0; ALIGNMENT]); bytes / ALIGNMENT].into_boxed_slice()
}

/// The same; `None` if there is no memory.
pub(super) fn try_allocate(bytes: usize) -> Option<Pages> {
    let (mut pages, count) = (Vec::new(), bytes / ALIGNMENT);
    pages.try_reserve_exact(count).ok()?;
    pages.resize(count, Page([0; ALIGNMENT]));
    Some(pages.into_boxed_slice())
}

pub(super) fn bytes(pages: &Pages) -> &[u8] {
    // SAFETY: `Page` is an array of bytes without padding, as its size is its alignment.
    unsafe { std::slice::from_raw_parts(pages.as_ptr().cast(), pages.len() * ALIGNMENT) }
}

pub(super) fn bytes_mut(pages: &mut Pages) -> &mut [u8] {
    // SAFETY: as above; the pages are borrowed mutably.
    unsafe { std::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), pages.len() * ALIGNMENT) }
}
