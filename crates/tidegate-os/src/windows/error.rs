//! The system's error numbers that other crates compare with.

use windows_sys::Win32::Foundation as code;

/// The error of a link that must not be followed.
pub const LINK_REFUSED: i32 = code::ERROR_STOPPED_ON_SYMLINK.cast_signed();
/// The error of an invalid path, and of a name that is not a file's own.
pub const INVALID: i32 = code::ERROR_INVALID_NAME.cast_signed();

/// Whether an error of open or stat means that the name, or a directory above it, does not exist.
pub fn is_missing(code: i32) -> bool {
    matches!(code.cast_unsigned(), code::ERROR_FILE_NOT_FOUND | code::ERROR_PATH_NOT_FOUND)
}

/// Whether an error of open or stat means "no such file", so that another file may be tried.
pub fn is_absent(code: i32) -> bool {
    matches!(
        code.cast_unsigned(),
        code::ERROR_FILE_NOT_FOUND
            | code::ERROR_PATH_NOT_FOUND
            | code::ERROR_INVALID_NAME
            | code::ERROR_BAD_PATHNAME
            | code::ERROR_DIRECTORY
            | code::ERROR_FILENAME_EXCED_RANGE
            | code::ERROR_INVALID_DRIVE
            | code::ERROR_BAD_NETPATH
            | code::ERROR_BAD_NET_NAME
            | code::ERROR_NOT_READY
            | code::ERROR_DELETE_PENDING
    )
}

/// Whether an error means that there are no more sockets (WSAEMFILE).
pub fn is_out_of_descriptors(code: i32) -> bool {
    code == 10024
}

/// Whether an error means that the system does not know an option of a socket (WSAENOPROTOOPT), or not of this kind of
/// socket (WSAEOPNOTSUPP).
pub fn is_unknown_option(code: i32) -> bool {
    matches!(code, 10042 | 10045)
}

/// Whether an error of open or stat means "access refused".
pub fn is_refused(code: i32) -> bool {
    matches!(
        code.cast_unsigned(),
        code::ERROR_ACCESS_DENIED
            | code::ERROR_SHARING_VIOLATION
            | code::ERROR_STOPPED_ON_SYMLINK
            | code::ERROR_CANT_RESOLVE_FILENAME
            | code::ERROR_CANT_ACCESS_FILE
    )
}
