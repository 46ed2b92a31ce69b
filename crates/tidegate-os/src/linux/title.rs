//! The command line that `ps` shows for this process: `nginx: master process …`, `nginx: worker process`. The short
//! name beside it (`comm`: what `pidof`, `pgrep -x` and `start-stop-daemon --name` compare) stays that of the program.
//!
//! The kernel reads the command line from the memory that holds the program's arguments. The environment, which follows
//! them, is moved away first, so that a title may be longer than the command line was.

use std::ffi::CString;
use std::io;
use std::sync::{Mutex, PoisonError};

use super::process;

/// Where a title may be written, once that is known: address and length of the arguments and environment. The writer
/// holds the lock.
static AREA: Mutex<Option<(usize, usize)>> = Mutex::new(None);

/// Sets the title as far as possible: the first time only while the process has a single thread. Read the arguments
/// before: `std::env::args` is meaningless afterwards.
pub fn set_process_title(title: &str) {
    let mut area = AREA.lock().unwrap_or_else(PoisonError::into_inner);
    if area.is_none() && process::thread_count().is_ok_and(|threads| threads == 1) {
        *area = claim_area().ok();
    }
    if let Some((start, length)) = *area {
        write_title(start, length, title);
    }
}

/// Returns the short name of this process, which the kernel takes from the executed file (at most 15 bytes).
///
/// # Errors
/// /proc is not mounted.
pub fn short_name() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/self/comm")?.trim_end_matches('\n').to_owned())
}

/// Sets the short name, at most 15 bytes. Call it on the first thread, whose name it is.
pub fn set_short_name(name: &str) {
    let end = name.floor_char_boundary(15);
    if let Ok(short) = CString::new(&name[..end]) {
        let _ = rustix::thread::set_name(&short);
    }
}

/// Finds the area in /proc/self/stat and moves the environment out of it.
fn claim_area() -> io::Result<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let area = parse_area(&stat)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no argument area"))?;
    let Area { arguments_start, arguments_end, environment_start, environment_end } = area;
    if environment_start != arguments_end {
        return Ok((arguments_start, arguments_end - arguments_start));
    }
    // SAFETY: the caller checked that this is the only thread, so no other one reads or changes `environ` meanwhile.
    // The array is terminated by a null pointer and its entries are strings that end with NUL; each is replaced by an
    // equal one that is never freed.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let address = (*entry).addr();
            if (environment_start..environment_end).contains(&address) {
                let copy = libc::strdup(*entry);
                if copy.is_null() {
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                *entry = copy;
            }
            entry = entry.add(1);
        }
    }
    Ok((arguments_start, environment_end - arguments_start))
}

fn write_title(start: usize, length: usize, title: &str) {
    let Some(room) = length.checked_sub(1) else { return };
    let shown = title.len().min(room);
    let target = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the kernel mapped these `length` bytes, writable, for the program's arguments and
    // environment; no Rust reference to them exists (std::env copies on each call), the
    // environment no longer points there, and the caller holds the lock of the area.
    unsafe {
        std::ptr::copy_nonoverlapping(title.as_ptr(), target, shown);
        std::ptr::write_bytes(target.add(shown), 0, length - shown);
    }
}

pub(super) struct Area {
    pub(super) arguments_start: usize,
    pub(super) arguments_end: usize,
    pub(super) environment_start: usize,
    pub(super) environment_end: usize,
}

/// Parses fields 48 to 51 of proc_pid_stat(5).
pub(super) fn parse_area(stat: &str) -> Option<Area> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(45).map(str::parse::<usize>);
    let area = Area {
        arguments_start: fields.next()?.ok()?,
        arguments_end: fields.next()?.ok()?,
        environment_start: fields.next()?.ok()?,
        environment_end: fields.next()?.ok()?,
    };
    let ordered = area.arguments_start != 0
        && area.arguments_start < area.arguments_end
        && area.arguments_end <= area.environment_start
        && area.environment_start <= area.environment_end;
    ordered.then_some(area)
}

unsafe extern "C" {
    static mut environ: *mut *mut libc::c_char;
}
