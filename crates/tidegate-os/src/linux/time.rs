//! Clocks, the local time zone and the system's random numbers.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns the time since 1970, at most one timer tick (a few milliseconds) behind, without a system call.
pub fn clock_realtime_coarse() -> Duration {
    duration(clock_gettime(ClockId::RealtimeCoarse))
}

/// Returns the time since an arbitrary start, which never jumps, as precise as [`clock_realtime_coarse`]. The start is
/// that of [`clock_monotonic`].
pub fn clock_monotonic_coarse() -> Duration {
    duration(clock_gettime(ClockId::MonotonicCoarse))
}

/// Returns the exact time since an arbitrary start, which never jumps: the clock under `std::time::Instant`.
pub fn clock_monotonic() -> Duration {
    duration(clock_gettime(ClockId::Monotonic))
}

/// Returns the processor time of all threads of this process so far; `None` where the system does not say.
pub fn clock_process_cpu() -> Option<Duration> {
    Some(duration(clock_gettime(ClockId::ProcessCPUTime)))
}

/// Returns the processor time of this thread so far; `None` where the system does not say.
pub fn clock_thread_cpu() -> Option<Duration> {
    Some(duration(clock_gettime(ClockId::ThreadCPUTime)))
}

/// Returns the offset of local clocks (TZ, /etc/localtime) at a Unix time, in seconds east of Greenwich; 0 where that
/// is unknown.
pub fn local_utc_offset(unix_seconds: i64) -> i32 {
    let time: libc::time_t = unix_seconds;
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to live memory of their types for the length of the call;
    // localtime_r is safe to call from several threads.
    let filled = unsafe { libc::localtime_r(&raw const time, parts.as_mut_ptr()) };
    if filled.is_null() {
        return 0;
    }
    // SAFETY: localtime_r succeeded, so it filled the structure; its fields are integers and a
    // pointer, which were zeroed before and are valid either way.
    let parts = unsafe { parts.assume_init() };
    i32::try_from(parts.tm_gmtoff).unwrap_or(0)
}

/// Returns the name of the local time zone at a Unix time (`CET`); empty where that is unknown.
pub fn local_zone_name(unix_seconds: i64) -> String {
    let time: libc::time_t = unix_seconds;
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to live memory of their types for the length of the call.
    let filled = unsafe { libc::localtime_r(&raw const time, parts.as_mut_ptr()) };
    if filled.is_null() {
        return String::new();
    }
    let mut text = [0_u8; 64];
    // SAFETY: the buffer's length is given, the format ends in a zero byte, and localtime_r filled the
    // structure; strftime copies the zone's name, so that none of libc's own memory is kept.
    let length = unsafe {
        libc::strftime(text.as_mut_ptr().cast(), text.len(), c"%Z".as_ptr(), parts.as_ptr())
    };
    String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned()
}

/// Fills the buffer with unpredictable bytes from the kernel.
///
/// # Errors
/// No such source (kernels before 3.17, or a sandbox).
pub fn random_bytes(mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        // SAFETY: the pointer and length describe the writable buffer.
        let filled = unsafe { libc::getrandom(buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        match usize::try_from(filled) {
            Ok(filled) => buffer = buffer.get_mut(filled..).unwrap_or_default(),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

fn duration(time: Timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
