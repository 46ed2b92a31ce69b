//! The environment of started processes: the `env` directive.

use std::ffi::OsString;

use tidegate_core::instance;

use crate::activation;
use crate::supervisor::WATCHDOG_PROCESS;

/// nginx keeps the time zone without a directive.
const KEPT: &str = "TZ";

/// Returns a worker's environment: `TZ`, what the directive names or sets, and the name of the family.
pub(super) fn of_worker(directives: &[String]) -> Vec<(OsString, OsString)> {
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    let mut set = |name: &str, value: Option<OsString>| {
        if let Some(value) = value {
            variables.retain(|(known, _)| known != name);
            variables.push((name.into(), value));
        }
    };
    set(KEPT, std::env::var_os(KEPT));
    for directive in directives {
        match directive.split_once('=') {
            Some((name, value)) => set(name, Some(value.into())),
            None => set(directive, std::env::var_os(directive)),
        }
    }
    set(instance::VARIABLE, Some(instance::name().into()));
    variables
}

/// Returns a new binary's environment: everything, and the name of the family. A watchdog that was meant for this process
/// is meant for the next one too; sockets that were passed to this one are among those that `NGINX` lists.
pub(super) fn inherited() -> Vec<(OsString, OsString)> {
    let own = (OsString::from(instance::VARIABLE), instance::name().into());
    let is_kept = |name: &OsString| {
        *name != own.0
            && name != WATCHDOG_PROCESS
            && !activation::VARIABLES.iter().any(|one| name == one)
    };
    std::env::vars_os().filter(|(name, _)| is_kept(name)).chain([own.clone()]).collect()
}

#[cfg(test)]
mod tests;
