//! Memory and panics, which the C side provides.

#[cfg(feature = "kernel")]
use core::alloc::{GlobalAlloc, Layout};
use core::fmt::{self, Write};
#[cfg(feature = "kernel")]
use core::panic::PanicInfo;

#[cfg(feature = "kernel")]
unsafe extern "C" {
    fn dwellc_alloc(size: usize, align: usize) -> *mut u8;
    fn dwellc_free(at: *mut u8, size: usize, align: usize);
    fn dwellc_panicked(text: *const u8, length: usize) -> !;
}

unsafe extern "C" {
    fn dwellc_fault(text: *const u8, length: usize);
}

#[cfg(feature = "kernel")]
struct Arena;

// SAFETY: the functions of the module return memory of that size and alignment, or null, and take it back.
#[cfg(feature = "kernel")]
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the function accepts any size and alignment.
        unsafe { dwellc_alloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller passes memory of `alloc` with the same layout.
        unsafe { dwellc_free(at, layout.size(), layout.align()) }
    }
}

#[cfg(feature = "kernel")]
#[global_allocator]
static ARENA: Arena = Arena;

/// Longest message about a panic or a fault, in bytes.
const MESSAGE_MAX: usize = 200;

struct Message {
    bytes: [u8; MESSAGE_MAX],
    length: usize,
}

impl Message {
    fn of(what: fmt::Arguments<'_>) -> Self {
        let mut message = Self { bytes: [0; MESSAGE_MAX], length: 0 };
        let _ = message.write_fmt(what);
        message
    }
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let n = text.len().min(MESSAGE_MAX - self.length);
        self.bytes[self.length..self.length + n].copy_from_slice(&text.as_bytes()[..n]);
        self.length += n;
        Ok(())
    }
}

#[cfg(feature = "kernel")]
#[panic_handler]
fn panicked(info: &PanicInfo<'_>) -> ! {
    let message = Message::of(format_args!("{info}"));
    // SAFETY: pointer and length are those of the message, which lives until the end of the call.
    unsafe { dwellc_panicked(message.bytes.as_ptr(), message.length) }
}

/// Reports a policy's fault to the kernel's log.
pub(crate) fn fault(fault: &kernel_host::Fault) {
    let message = Message::of(format_args!("{fault}"));
    // SAFETY: pointer and length are those of the message, which lives until the end of the call.
    unsafe { dwellc_fault(message.bytes.as_ptr(), message.length) }
}
