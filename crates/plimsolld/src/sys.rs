//! The only unsafe code of this crate: asking the C library's allocator what it keeps, and to give it back.

#![expect(unsafe_code, reason = "the allocator's own interface is C")]

/// Bytes the allocator keeps free for later; 0 where it does not say.
pub(crate) fn kept_free() -> usize {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: `mallinfo2` (glibc 2.33 and later) takes nothing, returns a struct of ten `size_t` by value, and takes the
        // allocator's own locks.
        let info = unsafe { mallinfo2() };
        info.fordblks
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

/// Gives the pages that only hold free memory back to the system.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` takes a number, touches only memory nobody has allocated, and takes the allocator's own locks.
    unsafe {
        malloc_trim(0);
    }
}

/// `struct mallinfo2` of `malloc.h`.
#[cfg(target_env = "gnu")]
#[repr(C)]
struct MallInfo2 {
    /// `arena` to `uordblks`.
    _before: [usize; 8],
    fordblks: usize,
    _keepcost: usize,
}

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn mallinfo2() -> MallInfo2;
    fn malloc_trim(pad: usize) -> core::ffi::c_int;
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_is_counted_as_kept() {
        // Below the size that is mapped by itself, and a last block that keeps the others from joining the top.
        let blocks: Vec<Vec<u8>> = (0..1024).map(|_| vec![1; 64 * 1024]).collect();
        let before = kept_free();
        let mut blocks = blocks;
        let last = blocks.pop();
        drop(blocks);
        assert!(kept_free() > before + 32 * 1024 * 1024);
        give_back();
        drop(last);
    }
}
