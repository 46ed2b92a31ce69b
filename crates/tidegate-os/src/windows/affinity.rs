//! The processors that a thread runs on: `worker_cpu_affinity`.

use std::io;
use std::num::NonZeroUsize;

use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask, SetThreadAffinityMask,
};

/// Returns the number of processors that this process may use at start: the number for `worker_processes auto`.
pub fn cpu_count_online() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Binds the calling thread to the processors whose bits are set; bit 0 of word 0 is processor 0. Only the
/// first 64, those of one processor group, can be named.
///
/// # Errors
/// The system refuses a mask without any existing processor.
pub fn pin_thread(mask: &[u64]) -> io::Result<()> {
    let word = mask.first().copied().unwrap_or(0);
    let mask = usize::try_from(word).map_err(|_| super::unsupported("processor number"))?;
    // SAFETY: the pseudo handle of the calling thread is always valid; the rest is an integer.
    let before = unsafe { SetThreadAffinityMask(GetCurrentThread(), mask) };
    if before == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Does nothing: a thread that wakes does not preempt its equals on this system.
///
/// # Errors
/// None.
pub fn use_batch_policy() -> io::Result<()> {
    Ok(())
}

/// Does nothing: a thread of lower priority would get no processor at all while others are busy on this system.
///
/// # Errors
/// None.
pub fn lower_priority(_steps: i32) -> io::Result<()> {
    Ok(())
}

/// Returns the numbers of the processors that the process may run on.
///
/// # Errors
/// None in practice.
pub fn thread_cpus() -> io::Result<Vec<usize>> {
    let (mut process, mut system) = (0_usize, 0_usize);
    // SAFETY: the pseudo handle is always valid, and both pointers are to live integers.
    super::check(unsafe {
        GetProcessAffinityMask(GetCurrentProcess(), &raw mut process, &raw mut system)
    })?;
    Ok((0..usize::BITS as usize).filter(|cpu| process >> cpu & 1 == 1).collect())
}
