//! `tidegate/log`: the live log.

use tidegate_codec::uri;

use super::error::ApiError;
use super::query::{CommandResult, Query};
use super::routes::{Command, leaf};
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
    let filter = Filter::compile(&expression(&query.x.request.args))
        .map_err(|error| ApiError::new(400, "LogQueryError", error.to_string()))?;
    let lines = live_log::watch(filter, query.x.plan.generation)
        .map_err(|TooMany| ApiError::new(503, "TooManyWatchers", "too many watchers"))?;
    Ok(CommandResult { status: 200, lines: Some(lines), ..CommandResult::nothing() })
}

/// Returns the argument `query`, decoded; empty without it.
fn expression(args: &[u8]) -> String {
    let mut wanted = args.split(|byte| *byte == b'&');
    let wanted = wanted.find_map(|arg| arg.strip_prefix(b"query=")).unwrap_or_default();
    let mut text = Vec::new();
    uri::unescape(wanted, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
