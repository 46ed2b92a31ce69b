//! Windows: one process, which drops no privileges.

use tidegate_conf::Diagnostic;
use tidegate_core::main_settings::MainSettings;
use tidegate_os::Credentials;

use super::Rights;
use crate::resources::Directories;

/// Changes no rights. Directives that would are reported.
///
/// # Errors
/// None.
pub(crate) fn of(
    main: &MainSettings,
    _sends_from_anywhere: bool,
) -> Result<(Rights, Option<Diagnostic>), Diagnostic> {
    let warning = main
        .user
        .as_ref()
        .map(|_| Diagnostic::warn("\"user\" is not supported on this platform, ignored"));
    Ok((Rights::default(), warning))
}

/// Does nothing: the modules that need directories make them.
///
/// # Errors
/// None.
pub(crate) fn make_directories(
    _directories: &Directories,
    _owner: Option<&Credentials>,
) -> Result<(), Diagnostic> {
    Ok(())
}
