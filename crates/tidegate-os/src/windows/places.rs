//! Where things are when nothing says otherwise: below the folder that the program is started in, as with
//! nginx for Windows.

/// The prefix of relative paths, with a slash at its end.
pub fn prefix() -> Vec<u8> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut here = super::path::as_written(here.as_os_str().as_encoded_bytes());
    if !here.ends_with(b"/") {
        here.push(b'/');
    }
    here
}

/// The configuration.
pub const CONF: &str = "conf/nginx.conf";
/// The error log until the configuration names one.
pub const ERROR_LOG: &str = "logs/error.log";
/// The file with the process id.
pub const PID: &str = "logs/nginx.pid";
/// Where nothing is kept.
pub const NULL: &str = "NUL";
/// Whether the kernel has settings that can be read.
pub const HAS_KERNEL_SETTINGS: bool = false;
/// What `events` says of the loop.
pub const EVENT_METHOD: &str = "iocp";
