//! Memory that is free and still the process's: of Rust code (mimalloc) and of the C library, which the TLS library uses.

#[cfg(feature = "mimalloc")]
unsafe extern "C" {
    /// Of mimalloc: frees what the calling thread does not use, at once if `force` is set.
    fn mi_collect(force: bool);
}

/// Gives free memory back to the system, of this thread's Rust code and of the C library. Both keep what is freed between
/// other blocks, and until more is needed: after a thousand connections a megabyte or more. It takes some 100 µs for a
/// megabyte.
pub fn trim() {
    #[cfg(feature = "mimalloc")]
    // SAFETY: it changes free memory alone, that of the calling thread.
    unsafe {
        mi_collect(true);
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: it changes free memory alone, under the locks of the C library.
    unsafe {
        libc::malloc_trim(0);
    }
}
