//! Names that the system gives to things.

/// Where nothing is kept.
pub const NULL: &str = "/dev/null";
/// Whether the kernel has settings that can be read (`/proc/sys`).
pub const HAS_KERNEL_SETTINGS: bool = true;
/// What `events` says of the loop.
pub const EVENT_METHOD: &str = "epoll";
