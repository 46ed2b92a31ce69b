//! Rights by user and group.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, chown, fchown};
use std::path::Path;

use tidegate_conf::{Diagnostic, Span};
use tidegate_core::main_settings::MainSettings;
use tidegate_os::layout::CHOSEN;
use tidegate_os::os_error;
use tidegate_os::{Credentials, file, identity};

use super::Rights;
use crate::claims::CLAIM;
use crate::resources::Directories;

/// Returns the worker's rights, and diagnostics about them.
///
/// # Errors
/// The user or group is unknown.
pub(crate) fn of(
    main: &MainSettings,
    sends_from_anywhere: bool,
) -> Result<(Rights, Option<Diagnostic>), Diagnostic> {
    let mut rights = Rights {
        credentials: None,
        groups: Vec::new(),
        sends_from_anywhere,
        files_max: main.worker_rlimit_nofile,
        core_bytes_max: main.worker_rlimit_core,
        priority: main.worker_priority,
        directory: main.working_directory.clone(),
    };
    if !identity::is_root() {
        let warning = main.user.as_ref().map(|_| {
            Diagnostic::warn(
                "the \"user\" directive makes sense only if the master process runs with \
                 super-user privileges, ignored",
            )
        });
        return Ok((rights, warning));
    }
    let credentials = credentials(main)?;
    rights.groups = identity::groups(&credentials).unwrap_or_default();
    rights.credentials = Some(credentials);
    Ok((rights, None))
}

fn credentials(main: &MainSettings) -> Result<Credentials, Diagnostic> {
    let Some((user, group)) = &main.user else {
        let (user, group) = (CHOSEN.user, CHOSEN.group);
        // `nobody` has a group of its own name, or `nogroup`.
        let found = identity::lookup_credentials(user, Some(group))
            .or_else(|_| identity::lookup_credentials(user, None))
            .or_else(|_| identity::lookup_credentials(user, Some(OTHER_GROUP)));
        return found.map_err(|_| Diagnostic::emerg(format!("getpwnam(\"{user}\") failed")));
    };
    let (user_span, group_span) = main.user_spans.unwrap_or((Span::NONE, Span::NONE));
    let failed = |call: &str, name: &str, span: Span| {
        Diagnostic::emerg(format!("{call}(\"{name}\") failed")).at(span)
    };
    let known = identity::lookup_user(user).ok().flatten();
    let (uid, _) = known.ok_or_else(|| {
        failed("getpwnam", user, user_span).label("the system knows no such user")
    })?;
    let group = group.as_deref().unwrap_or(user);
    let gid = identity::lookup_group(group).ok().flatten();
    let gid = gid.ok_or_else(|| {
        failed("getgrnam", group, group_span).label("the system knows no such group")
    })?;
    Ok(Credentials { user_name: user.clone(), uid, gid })
}

/// The group of `nobody` where it has no namesake: on Debian.
const OTHER_GROUP: &str = "nogroup";

/// Permissions of a directory with what clients sent or are sent: no other user may read it.
const DIRECTORY_MODE: u32 = 0o700;

/// Makes the directories that the worker writes into, as its own: existing ones become the worker's as well, as in
/// nginx. Without privileges the modules that need them make them.
///
/// # Errors
/// A directory cannot be made.
pub(crate) fn make_directories(
    directories: &Directories,
    owner: Option<&Credentials>,
) -> Result<(), Diagnostic> {
    let Some(owner) = owner else { return Ok(()) };
    for directory in &directories.written {
        let failed = |call: &str, error: &std::io::Error| {
            let (directory, error) = (directory.display(), os_error(error));
            Diagnostic::emerg(format!("{call} \"{directory}\" failed ({error})"))
        };
        if !directory.is_dir() {
            // Directories above it get the usual permissions: the worker has to pass through them.
            let above = directory.parent().map_or(Ok(()), std::fs::create_dir_all);
            above
                .and_then(|()| file::create_directory(directory, DIRECTORY_MODE, false))
                .map_err(|error| failed("mkdir()", &error))?;
        }
        let found = std::fs::metadata(directory).map_err(|error| failed("stat()", &error))?;
        if found.uid() != owner.uid {
            chown(directory, Some(owner.uid), None).map_err(|error| failed("chown()", &error))?;
        }
        let mode = file::mode(&found);
        if mode & DIRECTORY_MODE != DIRECTORY_MODE {
            file::set_path_mode(directory, mode | DIRECTORY_MODE)
                .map_err(|error| failed("chmod()", &error))?;
        }
    }
    directories.claimed.iter().for_each(|directory| give_cache_files(directory, owner.uid));
    Ok(())
}

/// Gives a cache's lock and index, and the state of an ACME issuer, to the worker's user, which may have been another one
/// when they were written: without the lock it could not use the directory. Other files keep their owner, as in nginx; those
/// that cannot be read are misses.
fn give_cache_files(directory: &Path, uid: u32) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|entry| is_given(entry.file_name().as_bytes())) {
        if entry.file_name() == CLAIM || entry.metadata().is_ok_and(|found| found.uid() == uid) {
            continue;
        }
        if let Ok(file) = file::open_plain(&entry.path(), false) {
            // The worker reports a file that it cannot use.
            let _ = fchown(&file, Some(uid), None);
        }
    }
}

/// Returns whether a file of a claimed directory is given: names of a cache's objects are hexadecimal digits.
fn is_given(name: &[u8]) -> bool {
    let ends = [&b".pem"[..], b".crt", b".order", b"account.key", b"account.json"];
    name.starts_with(b".") || ends.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Only the superuser can give directories away.
    #[test]
    fn directories_become_the_workers() {
        if !identity::is_root() {
            return;
        }
        let top = std::env::temp_dir().join(format!("tidegate-rights-{}", std::process::id()));
        let (new, old) = (top.join("above/new"), top.join("old"));
        std::fs::create_dir_all(&old).unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o555)).unwrap();
        let owner = Credentials { user_name: "nobody".to_owned(), uid: 65534, gid: 65534 };
        std::fs::write(old.join(".lock"), "").unwrap();
        std::fs::write(old.join("else"), "").unwrap();
        std::fs::hard_link(old.join("else"), old.join(".second")).unwrap();
        std::os::unix::fs::symlink(old.join("else"), old.join(".link")).unwrap();
        let written = vec![new.clone(), old.clone()];
        make_directories(&Directories { written, claimed: vec![old.clone()] }, Some(&owner))
            .unwrap();
        let seen = |path: &std::path::Path| {
            let found = std::fs::metadata(path).unwrap();
            (found.uid(), found.mode() & 0o777)
        };
        assert_eq!((seen(&new), seen(&old)), ((65534, 0o700), (65534, 0o755)));
        assert_eq!((seen(&old.join(".lock")).0, seen(&old.join("else")).0), (65534, 0));
        assert_eq!(seen(&top.join("above")).0, 0);
        assert_eq!(seen(&top.join("above")).1 & 0o111, 0o111);
        std::fs::remove_dir_all(top).unwrap();
    }
}
