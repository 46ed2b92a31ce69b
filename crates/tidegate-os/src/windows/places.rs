//! Names that the system gives to things.

/// Where nothing is kept.
pub const NULL: &str = "NUL";
/// Whether the kernel has settings that can be read.
pub const HAS_KERNEL_SETTINGS: bool = false;
/// What `events` says of the loop.
pub const EVENT_METHOD: &str = "iocp";
