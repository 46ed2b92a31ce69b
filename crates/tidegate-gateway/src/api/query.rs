//! A command and its result, as all parts of the API use them.

use std::sync::Arc;

use serde_json::Value;
use tidegate_cache::ListPosition;
use tidegate_codec::uri;
use tidegate_core::{Body, Exchange};
use tidegate_upstream::Group;

use super::objects::{Document, Object};
use super::one::Named;
use super::source::Source;
use crate::cache::config::zones as cache;
use crate::cache::purge::PurgeTarget;
use crate::keyval::Zone;
use crate::keyval::shared::SharedPairs;
use crate::keyval::write::Write;
use crate::upstream::saved::StateFile;

/// The settings of a location's handler.
pub(super) struct Settings {
    pub(super) write: bool,
    /// Whether keys of limits are shown as they are.
    pub(super) show_keys: bool,
    /// When the configuration was loaded, in Unix milliseconds.
    pub(super) loaded: u64,
    /// Bytes of the location's name.
    pub(super) prefix: usize,
}

/// The result of a command.
pub(super) struct CommandResult {
    pub(super) status: u16,
    /// The body; `None` for none.
    pub(super) document: Option<Document>,
    /// Lines of a log, which come as they are written.
    pub(super) lines: Option<Body>,
    /// Path of the created object, below the version.
    pub(super) place: Option<String>,
    /// What is read before the response, on a pool thread.
    pub(super) later: Option<Later>,
    /// What has a file that is to be written before the response.
    pub(super) changed: Option<Changed>,
}

/// A page of what a cache has stored.
pub(super) struct Listing {
    pub(super) zone: Arc<cache::Zone>,
    pub(super) from: ListPosition,
    pub(super) prefix: Vec<u8>,
    pub(super) limit: usize,
}

/// What a command has to wait for.
pub(super) enum Later {
    /// A page of what a cache has stored.
    Listing(Listing),
    /// An object of a collection.
    Named(Named),
}

/// What a command has changed.
pub(super) enum Changed {
    /// The servers of a group with a `state`.
    Servers { name: String, group: Arc<Group>, file: Arc<StateFile> },
    /// A zone of pairs, which may have a `state=`.
    Pairs(Arc<Zone>),
    /// A cache, by a purge that is carried out before the response.
    Purged { zone: Arc<cache::Zone>, target: PurgeTarget, soft: bool },
    /// The pairs of a zone that servers share, once the store has them.
    Shared { zone: Arc<Zone>, shared: Arc<SharedPairs>, write: Write },
}

impl CommandResult {
    pub(super) fn new(document: Document) -> CommandResult {
        CommandResult { status: 200, document: Some(document), ..CommandResult::nothing() }
    }

    pub(super) fn of(value: Value) -> CommandResult {
        CommandResult::new(Document::single(Object::new(move || value)))
    }

    /// 204: something was reset or removed.
    pub(super) fn nothing() -> CommandResult {
        CommandResult {
            status: 204,
            document: None,
            lines: None,
            place: None,
            later: None,
            changed: None,
        }
    }
}

/// A command that is carried out.
pub(super) struct Query<'a> {
    pub(super) x: &'a Exchange,
    pub(super) settings: &'a Settings,
    pub(super) source: Source,
}

/// Returns an argument, decoded.
pub(super) fn argument(args: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut all = args.split(|byte| *byte == b'&');
    let value = all.find_map(|arg| arg.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    let mut decoded = Vec::new();
    uri::unescape(value, &mut decoded);
    Some(decoded)
}
