//! The system's error numbers that other crates compare with.

/// The error of a link that must not be followed (ELOOP).
pub const LINK_REFUSED: i32 = libc::ELOOP;
/// The error of an invalid path (EINVAL).
pub const INVALID: i32 = libc::EINVAL;

/// Whether an error of open or stat means that the name, or a directory above it, does not exist.
pub fn is_missing(code: i32) -> bool {
    code == libc::ENOENT
}

/// Whether an error of open or stat means "no such file", so that another file may be tried.
pub fn is_absent(code: i32) -> bool {
    matches!(code, libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG)
}

/// Whether an error means that this process, or the system, has as many descriptors as it may have.
pub fn is_out_of_descriptors(code: i32) -> bool {
    matches!(code, libc::EMFILE | libc::ENFILE)
}

/// Whether an error means that the system does not know an option of a socket.
pub fn is_unknown_option(code: i32) -> bool {
    code == libc::ENOPROTOOPT
}

/// Whether an error of open or stat means "access refused".
pub fn is_refused(code: i32) -> bool {
    matches!(code, libc::EACCES | libc::ELOOP | libc::EMLINK)
}
