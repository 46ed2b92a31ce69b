//! Clocks, the local time zone and the system's random numbers.

use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use windows_sys::Win32::Foundation::{FILETIME, SYSTEMTIME};
use windows_sys::Win32::Security::Cryptography::{
    BCRYPT_USE_SYSTEM_PREFERRED_RNG, BCryptGenRandom,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetProcessTimes, GetThreadTimes,
};
use windows_sys::Win32::System::Time::{
    FileTimeToSystemTime, GetTimeZoneInformation, SystemTimeToFileTime,
    SystemTimeToTzSpecificLocalTime, TIME_ZONE_INFORMATION,
};

/// Seconds from 1601, where the system's times begin, to 1970.
pub(super) const EPOCH: i64 = 11_644_473_600;
/// Units of the system's times in a second.
pub(super) const TICKS: i64 = 10_000_000;

/// Returns the time since 1970, up to one timer tick behind.
pub fn clock_realtime_coarse() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Returns the time since an arbitrary start, which never jumps. The start is that of [`clock_monotonic`].
pub fn clock_monotonic_coarse() -> Duration {
    clock_monotonic()
}

/// Returns the exact time since an arbitrary start, which never jumps: the clock under `std::time::Instant`.
pub fn clock_monotonic() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Returns the processor time of all threads of this process so far; `None` where the system does not say.
pub fn clock_process_cpu() -> Option<Duration> {
    let mut times = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
    let [created, ended, kernel, user] = &mut times;
    // SAFETY: the handle of the own process is always valid; all pointers are to live structures of their type.
    let known = unsafe { GetProcessTimes(GetCurrentProcess(), created, ended, kernel, user) };
    (known != 0).then(|| cpu_time(&times))
}

/// Returns the processor time of this thread so far, which grows in steps of some milliseconds; `None` where the system does
/// not say.
pub fn clock_thread_cpu() -> Option<Duration> {
    let mut times = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
    let [created, ended, kernel, user] = &mut times;
    // SAFETY: the handle of the calling thread is always valid; all pointers are to live structures of their type.
    let known = unsafe { GetThreadTimes(GetCurrentThread(), created, ended, kernel, user) };
    (known != 0).then(|| cpu_time(&times))
}

/// Returns the sum of the times in the kernel and outside, which are the last two.
fn cpu_time([_, _, kernel, user]: &[FILETIME; 4]) -> Duration {
    let ticks =
        |time: &FILETIME| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    Duration::from_nanos(100 * (ticks(kernel) + ticks(user)))
}

/// Returns the offset of local clocks at a Unix time, in seconds east of Greenwich; 0 where that is unknown.
pub fn local_utc_offset(unix_seconds: i64) -> i32 {
    let Some(ticks) = unix_seconds.checked_add(EPOCH).and_then(|time| time.checked_mul(TICKS))
    else {
        return 0;
    };
    let utc = FILETIME {
        dwLowDateTime: (ticks & 0xffff_ffff) as u32,
        dwHighDateTime: (ticks >> 32) as u32,
    };
    let (mut parts, mut local) = (empty_time(), empty_time());
    let mut shown = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
    // SAFETY: all pointers are to live structures of their types; the null pointer stands for the zone
    // that is in force.
    let converted = unsafe {
        FileTimeToSystemTime(&raw const utc, &raw mut parts) != 0
            && SystemTimeToTzSpecificLocalTime(std::ptr::null(), &raw const parts, &raw mut local)
                != 0
            && SystemTimeToFileTime(&raw const local, &raw mut shown) != 0
    };
    if !converted {
        return 0;
    }
    let shown = i64::from(shown.dwHighDateTime) << 32 | i64::from(shown.dwLowDateTime);
    // Whole seconds on both sides: the fraction is not converted.
    i32::try_from((shown - ticks).div_euclid(TICKS)).unwrap_or(0)
}

/// Returns the name of the local time zone; empty where that is unknown.
pub fn local_zone_name(unix_seconds: i64) -> String {
    let mut zone = TIME_ZONE_INFORMATION::default();
    // SAFETY: the pointer is to a live structure of its type.
    let _ = unsafe { GetTimeZoneInformation(&raw mut zone) };
    let summer = local_utc_offset(unix_seconds) != -60 * zone.Bias;
    let name = if summer { zone.DaylightName } else { zone.StandardName };
    let end = name.iter().position(|unit| *unit == 0).unwrap_or(name.len());
    String::from_utf16_lossy(&name[..end])
}

/// Fills the buffer with unpredictable bytes from the system.
///
/// # Errors
/// No such source.
pub fn random_bytes(buffer: &mut [u8]) -> io::Result<()> {
    for piece in buffer.chunks_mut(1 << 20) {
        let length = piece.len() as u32;
        // SAFETY: the pointer and length describe the writable piece; no algorithm handle is needed with
        // this flag.
        let status = unsafe {
            BCryptGenRandom(
                std::ptr::null_mut(),
                piece.as_mut_ptr(),
                length,
                BCRYPT_USE_SYSTEM_PREFERRED_RNG,
            )
        };
        if status != 0 {
            return Err(io::Error::other("BCryptGenRandom() failed"));
        }
    }
    Ok(())
}

fn empty_time() -> SYSTEMTIME {
    SYSTEMTIME::default()
}
