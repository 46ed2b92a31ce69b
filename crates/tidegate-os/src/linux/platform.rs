//! Constants of the system.

/// The null device.
pub const NULL: &str = "/dev/null";
/// Whether the kernel has settings that can be read (`/proc/sys`).
pub const HAS_KERNEL_SETTINGS: bool = true;
/// The event method, as `events { use …; }` names it.
pub const EVENT_METHOD: &str = "epoll";
