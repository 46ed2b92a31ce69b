//! Memory of the C library.

/// Gives free memory back to the system: here nothing, the heap does so by itself.
pub fn trim() {}
