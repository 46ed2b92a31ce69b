//! A command for a path, the methods that paths have, and who may use them.

use tidegate_codec::request::Method;

use super::error::ApiError;
use super::query::{CommandResult, Query};

/// A function that routes the paths below its own.
pub(super) type CarryOut = fn(&Query<'_>, &Command<'_>) -> Result<CommandResult, ApiError>;

/// A path below one that a function routes.
pub(super) struct SubPath {
    /// Behind the route's path, with names in braces.
    pub(super) path: &'static str,
    /// Its methods; where there is GET, HEAD is another one.
    pub(super) methods: &'static [Method],
    /// What is there.
    pub(super) what: &'static str,
}

/// Whether DELETE resets an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletes {
    Resets,
    Never,
}

/// A command for paths that a function routes.
pub(super) struct Command<'a> {
    pub(super) version: &'a str,
    /// The parts of the path behind the route's.
    pub(super) rest: &'a [&'a str],
    pub(super) body: &'a [u8],
}

/// Allows what is only read and has no paths below.
pub(super) fn leaf(query: &Query<'_>, command: &Command<'_>) -> Result<(), ApiError> {
    match command.rest {
        [] => allow(query, Deletes::Never),
        _ => Err(ApiError::no_path()),
    }
}

/// Allows GET and HEAD, and DELETE where it resets something and changes are allowed.
pub(super) fn allow(query: &Query<'_>, delete: Deletes) -> Result<(), ApiError> {
    match query.x.request.method {
        Method::Get | Method::Head => Ok(()),
        Method::Delete if delete == Deletes::Resets => allow_change(query),
        _ => Err(ApiError::no_method()),
    }
}

/// Allows GET and HEAD.
pub(super) fn allow_read(query: &Query<'_>) -> Result<(), ApiError> {
    allow(query, Deletes::Never)
}

/// Allows a change where `write=on` is set.
pub(super) fn allow_change(query: &Query<'_>) -> Result<(), ApiError> {
    match query.settings.write {
        true => Ok(()),
        false => Err(ApiError::new(405, "MethodDisabled", "method disabled")),
    }
}
