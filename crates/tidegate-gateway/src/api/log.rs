//! `tidegate/log`: the live log.

use super::command::{Command, leaf};
use super::error::ApiError;
use super::query::{CommandResult, Query, argument};
use crate::live_log::{self, Filter, TooMany};

/// Begins a response that has a line for each request that ends from now on.
///
/// # Errors
/// An invalid expression; too many watchers; a location without `write=on`, or a configuration without `admin_socket`: it
/// shows what access logs do.
pub(super) fn watch(query: &Query<'_>, command: &Command<'_>) -> Result<CommandResult, ApiError> {
    leaf(query, command)?;
    if !query.settings.write || query.x.plan.main.admin_socket.is_none() {
        let text = "the log is for the \"admin_socket\", and for locations with \"api write=on\" beside one";
        return Err(ApiError::new(403, "LogDisabled", text));
    }
    let wanted = argument(&query.x.request.args, "query").unwrap_or_default();
    let filter = Filter::compile(&String::from_utf8_lossy(&wanted))
        .map_err(|error| ApiError::new(400, "LogQueryError", error.to_string()))?;
    let lines = live_log::watch(filter, query.x.plan.generation)
        .map_err(|TooMany| ApiError::new(503, "TooManyWatchers", "too many watchers"))?;
    Ok(CommandResult { status: 200, lines: Some(lines), ..CommandResult::nothing() })
}
