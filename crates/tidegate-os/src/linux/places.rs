//! Where things are when nothing says otherwise: as in Debian's nginx package, so that this program can
//! stand in its place.

/// The prefix of relative paths, with a slash at its end.
pub fn prefix() -> Vec<u8> {
    b"/usr/share/nginx/".to_vec()
}

/// The configuration.
pub const CONF: &str = "/etc/nginx/nginx.conf";
/// The error log until the configuration names one.
pub const ERROR_LOG: &str = "/var/log/nginx/error.log";
/// The file with the process id.
pub const PID: &str = "/run/nginx.pid";
/// Where nothing is kept.
pub const NULL: &str = "/dev/null";
/// Whether the kernel has settings that can be read (`/proc/sys`).
pub const HAS_KERNEL_SETTINGS: bool = true;
/// What `events` says of the loop.
pub const EVENT_METHOD: &str = "epoll";
