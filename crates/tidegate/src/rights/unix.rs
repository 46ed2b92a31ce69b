//! Rights by user and group.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::PathBuf;

use tidegate_conf::Diagnostic;
use tidegate_core::builder::os_error;
use tidegate_core::main_settings::MainSettings;
use tidegate_os::{Credentials, identity};

use super::Rights;

/// nginx's default user, and the name of its group on Debian.
const USER_DEFAULT: &str = "nobody";
const GROUP_DEFAULT: &str = "nogroup";

/// The worker's rights, and what there is to say about them.
///
/// # Errors
/// The user or group is unknown.
pub fn of(
    main: &MainSettings,
    sends_from_anywhere: bool,
) -> Result<(Rights, Option<Diagnostic>), Diagnostic> {
    let mut rights = Rights {
        credentials: None,
        sends_from_anywhere,
        files_max: main.worker_rlimit_nofile,
        core_bytes_max: main.worker_rlimit_core,
        priority: main.worker_priority,
        folder: main.working_directory.clone(),
    };
    if !identity::is_root() {
        let told = main.user.as_ref().map(|_| {
            Diagnostic::warn(
                "the \"user\" directive makes sense only if the master process runs with \
                 super-user privileges, ignored",
            )
        });
        return Ok((rights, told));
    }
    rights.credentials = Some(credentials(main)?);
    Ok((rights, None))
}

fn credentials(main: &MainSettings) -> Result<Credentials, Diagnostic> {
    let Some((user, group)) = &main.user else {
        let found = identity::lookup_credentials(USER_DEFAULT, None)
            .or_else(|_| identity::lookup_credentials(USER_DEFAULT, Some(GROUP_DEFAULT)));
        return found
            .map_err(|_| Diagnostic::emerg(format!("getpwnam(\"{USER_DEFAULT}\") failed")));
    };
    let failed = |call: &str, name: &str| Diagnostic::emerg(format!("{call}(\"{name}\") failed"));
    let known = identity::lookup_user(user).ok().flatten();
    let (uid, _) = known.ok_or_else(|| failed("getpwnam", user))?;
    let group = group.as_deref().unwrap_or(user);
    let gid = identity::lookup_group(group).ok().flatten();
    let gid = gid.ok_or_else(|| failed("getgrnam", group))?;
    Ok(Credentials { user_name: user.clone(), uid, gid })
}

/// Makes folders that the worker writes into, as its own. Without privileges they are left to who
/// needs them.
///
/// # Errors
/// One cannot be made.
pub fn make_folders(folders: &[PathBuf], owner: Option<&Credentials>) -> Result<(), Diagnostic> {
    let Some(owner) = owner else { return Ok(()) };
    for folder in folders {
        let failed = |call: &str, error: &std::io::Error| {
            let (folder, error) = (folder.display(), os_error(error));
            Diagnostic::emerg(format!("{call} \"{folder}\" failed ({error})"))
        };
        if !folder.is_dir() {
            std::fs::create_dir_all(folder).map_err(|error| failed("mkdir()", &error))?;
        }
        let found = std::fs::metadata(folder).map_err(|error| failed("stat()", &error))?;
        if found.uid() != owner.uid {
            chown(folder, Some(owner.uid), None).map_err(|error| failed("chown()", &error))?;
        }
    }
    Ok(())
}
