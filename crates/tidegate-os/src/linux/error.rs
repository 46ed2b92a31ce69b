//! The numbers of the system's errors, as far as somebody outside asks for them.

/// A link that must not be followed (ELOOP).
pub const LINK_REFUSED: i32 = libc::ELOOP;
/// What a path that cannot be one gives (EINVAL).
pub const INVALID: i32 = libc::EINVAL;

/// Errors of open and stat that mean that there is no such name, or no such directory above it.
pub fn is_missing(code: i32) -> bool {
    code == libc::ENOENT
}

/// Errors of open and stat that mean "there is no such file", so that another may be tried.
pub fn is_absent(code: i32) -> bool {
    matches!(code, libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG)
}

/// Errors of open and stat that mean "not for you".
pub fn is_refused(code: i32) -> bool {
    matches!(code, libc::EACCES | libc::ELOOP | libc::EMLINK)
}
