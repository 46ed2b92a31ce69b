//! The mapping of a request's path to a file's: `root` and `alias`.

use crate::exchange::{Exchange, PathState};

/// Returns the file-system path of the request's path, or `None` when `alias` cannot be applied.
pub fn map(x: &mut Exchange) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(128);
    map_into(x, &mut out).then_some(out)
}

/// Writes the file-system path of the request's path to a reused buffer; returns `false` when `alias` cannot be
/// applied.
pub fn map_into(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    out.clear();
    append_root(x, out);
    let path = std::mem::take(&mut x.request.path);
    let mapped = append_path(x, &path, out);
    x.request.path = path;
    mapped
}

/// Returns the file-system path of another path in the current location (`try_files`, `index`), or `None` when
/// `alias` cannot be applied.
pub fn map_path(x: &mut Exchange, path: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(128);
    append_root(x, &mut out);
    append_path(x, path, &mut out).then_some(out)
}

fn append_path(x: &Exchange, path: &[u8], out: &mut Vec<u8>) -> bool {
    let settings = x.settings();
    if !settings.alias || x.routing.path == PathState::Appended {
        out.extend_from_slice(path);
    } else if x.routing.path_was_replaced() {
        let message = "\"alias\" cannot be used in a location where the path was rewritten";
        x.log(crate::Level::Error, format_args!("{message}"));
        return false;
    } else if settings.alias_length != usize::MAX {
        let Some(rest) = path.get(settings.alias_length..) else { return false };
        out.extend_from_slice(rest);
    }
    true
}

/// Appends `$document_root` before symbolic links are resolved.
pub fn append_root(x: &mut Exchange, out: &mut Vec<u8>) {
    // A root without variables is absolute since the configuration was read.
    if let Some(root) = x.settings().root.literal() {
        return out.extend_from_slice(root);
    }
    let start = out.len();
    x.location_ref().settings.root.write(x, out);
    if !out.get(start..).is_some_and(tidegate_os::path::is_absolute) {
        let relative = out.split_off(start);
        out.extend_from_slice(x.plan.main.prefix.as_bytes());
        out.extend_from_slice(&relative);
    }
}

/// Returns how many bytes of a path come from the current location's `root` or `alias`; 0 where these have variables.
pub fn root_length(x: &Exchange, path: &[u8]) -> usize {
    let root = x.settings().root.literal().filter(|root| path.starts_with(root));
    root.map_or(0, <[u8]>::len)
}
