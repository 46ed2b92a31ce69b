//! The processors that a thread runs on (`worker_cpu_affinity`), and its priority.

use std::io;
use std::num::NonZeroUsize;

use rustix::thread::CpuSet;

/// Returns the number of processors that this process may use at start: the number for `worker_processes auto`.
pub fn cpu_count_online() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Binds the calling thread to the processors whose bits are set; bit 0 of word 0 is processor 0.
///
/// # Errors
/// The system refuses a mask without any existing processor.
pub fn pin_thread(mask: &[u64]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in bits(mask).take_while(|cpu| *cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Returns the numbers of the processors that the calling thread may run on.
///
/// # Errors
/// More processors than the system's fixed-size set can hold.
pub fn thread_cpus() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Sets the calling thread's policy to SCHED_BATCH: when it wakes it preempts no other thread. For work that can wait
/// some microseconds beside threads that serve.
///
/// # Errors
/// A sandbox forbids it.
pub fn use_batch_policy() -> io::Result<()> {
    // SAFETY: integers, for which zero is a value.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live structure; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lowers the calling thread's priority by `steps` of nice(1), down to 19: it gets a smaller share of a busy processor.
/// That cannot be reverted without privilege.
///
/// # Errors
/// A sandbox forbids it.
pub fn lower_priority(steps: i32) -> io::Result<()> {
    // On Linux both concern the calling thread.
    let nice = rustix::process::getpriority_process(None)?;
    Ok(rustix::process::setpriority_process(None, nice.saturating_add(steps).min(19))?)
}

fn bits(mask: &[u64]) -> impl Iterator<Item = usize> + '_ {
    mask.iter().enumerate().flat_map(|(word, bits)| {
        (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
    })
}
