//! Users, groups and dropping privileges: the `user` directive.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities};

use super::check;
use crate::types::Credentials;

/// Largest buffer offered for an entry of the user or group database, bytes.
const MAX_ENTRY: usize = 1 << 20;

/// More groups than Linux lets a process be in (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 1 << 16;

/// Whether this process has the superuser's rights.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Looks up a user: its id and the id of its main group. `None` when there is no such user.
///
/// # Errors
/// The user database cannot be read, or a NUL byte in the name.
pub fn lookup_user(name: &str) -> io::Result<Option<(u32, u32)>> {
    let name = CString::new(name)?;
    with_growing_buffer(|buffer| {
        let mut entry = MaybeUninit::<libc::passwd>::zeroed();
        let mut found = std::ptr::null_mut();
        // SAFETY: the name is NUL-terminated, the other pointers are to live memory of their
        // types, and the length is the buffer's.
        let code = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut found,
            )
        };
        if found.is_null() {
            return (code, None);
        }
        // SAFETY: a result that is not null means that the entry was filled.
        let entry = unsafe { entry.assume_init() };
        (code, Some((entry.pw_uid, entry.pw_gid)))
    })
}

/// Looks up a group's id. `None` when there is no such group.
///
/// # Errors
/// The group database cannot be read, or a NUL byte in the name.
pub fn lookup_group(name: &str) -> io::Result<Option<u32>> {
    let name = CString::new(name)?;
    with_growing_buffer(|buffer| {
        let mut entry = MaybeUninit::<libc::group>::zeroed();
        let mut found = std::ptr::null_mut();
        // SAFETY: as in lookup_user.
        let code = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut found,
            )
        };
        if found.is_null() {
            return (code, None);
        }
        // SAFETY: a result that is not null means that the entry was filled.
        let entry = unsafe { entry.assume_init() };
        (code, Some(entry.gr_gid))
    })
}

/// Looks up the user and group of `user NAME [GROUP]`; without a group it is the group with the user's name, as nginx's
/// manual says.
///
/// # Errors
/// `NotFound` naming the unknown user or group.
pub fn lookup_credentials(user: &str, group: Option<&str>) -> io::Result<Credentials> {
    let missing = |what: &str, name: &str| {
        io::Error::new(io::ErrorKind::NotFound, format!("no {what} named \"{name}\""))
    };
    let (uid, _) = lookup_user(user)?.ok_or_else(|| missing("user", user))?;
    let group = group.unwrap_or(user);
    let gid = lookup_group(group)?.ok_or_else(|| missing("group", group))?;
    Ok(Credentials { user_name: user.to_string(), uid, gid })
}

/// Returns the groups of a process with these credentials, as [`drop_privileges`] finds them at this moment.
///
/// # Errors
/// A NUL byte in the name; more groups than a process can have.
pub fn groups(of: &Credentials) -> io::Result<Vec<u32>> {
    let name = CString::new(of.user_name.as_str())?;
    let mut groups = vec![0; 64];
    loop {
        let mut count = libc::c_int::try_from(groups.len()).map_err(io::Error::other)?;
        // SAFETY: the name is NUL-terminated, the list is live memory of `count` numbers, and the count is
        // a live integer.
        let code = unsafe {
            libc::getgrouplist(name.as_ptr(), of.gid, groups.as_mut_ptr(), &raw mut count)
        };
        if code >= 0 {
            groups.truncate(usize::try_from(count).unwrap_or(0));
            groups.sort_unstable();
            return Ok(groups);
        }
        if groups.len() >= GROUPS_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        groups.resize(groups.len() * 4, 0);
    }
}

/// Becomes another user irrevocably, with all threads of the process: supplementary groups, group, user, in this order
/// since each step needs the privileges of the one before. With `keep_raw` the calling thread, and threads that it
/// starts later, may still send from addresses that are not the machine's own (CAP_NET_RAW, capabilities(7)).
///
/// # Errors
/// No privilege to do so. The process must then end: it may have changed in part.
pub fn drop_privileges(to: &Credentials, keep_raw: bool) -> io::Result<()> {
    if keep_raw {
        set_keep_capabilities(true)?;
    }
    let name = CString::new(to.user_name.as_str())?;
    // SAFETY: the name is NUL-terminated; glibc applies the change to all threads.
    check(unsafe { libc::initgroups(name.as_ptr(), to.gid) })?;
    // SAFETY: only an integer is passed; glibc applies the change to all threads.
    check(unsafe { libc::setgid(to.gid) })?;
    // SAFETY: as above.
    check(unsafe { libc::setuid(to.uid) })?;
    if keep_raw {
        set_keep_capabilities(false)?;
        let (kept, inheritable) = (CapabilitySet::NET_RAW, CapabilitySet::empty());
        set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
    }
    Ok(())
}

/// Calls a `get…_r` function with larger buffers until its entry fits.
fn with_growing_buffer<T>(
    mut call: impl FnMut(&mut [libc::c_char]) -> (libc::c_int, Option<T>),
) -> io::Result<Option<T>> {
    let mut size = 1024;
    loop {
        let mut buffer = vec![0; size];
        match call(&mut buffer) {
            (libc::ERANGE, _) if size < MAX_ENTRY => size *= 4,
            (libc::EINTR, _) => {}
            (_, Some(found)) => return Ok(Some(found)),
            // "Not found" is reported as 0 or as one of several codes (getpwnam(3)).
            (0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM, None) => return Ok(None),
            (code, None) => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// Returns the machine's name, as `hostname` shows it.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the kernel's number of the calling thread, as log lines show it.
pub fn thread_id() -> u64 {
    u64::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap_or(0)
}
