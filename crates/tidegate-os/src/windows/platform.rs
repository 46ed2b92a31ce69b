//! Constants of the system.

/// The null device.
pub const NULL: &str = "NUL";
/// Whether the kernel has settings that can be read.
pub const HAS_KERNEL_SETTINGS: bool = false;
/// The event method, as `events { use …; }` names it.
pub const EVENT_METHOD: &str = "iocp";
