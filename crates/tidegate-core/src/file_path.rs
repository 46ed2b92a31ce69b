//! From a request's path to a file's: `root` and `alias`.

use crate::exchange::Exchange;

/// The file-system path of the request's path, or `None` when `alias` cannot be applied.
pub fn map(x: &mut Exchange) -> Option<Vec<u8>> {
    let path = std::mem::take(&mut x.request.path);
    let mapped = map_path(x, &path);
    x.request.path = path;
    mapped
}

/// The file-system path of another path in the present location (`try_files`, `index`).
pub fn map_path(x: &mut Exchange, path: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(128);
    append_root(x, &mut out);
    let location = x.location();
    if !location.settings.alias || x.alias_takes_path {
        out.extend_from_slice(path);
    } else if x.path_replaced {
        let message = "\"alias\" cannot be used in a location where the path was rewritten";
        x.log(crate::Level::Error, format_args!("{message}"));
        return None;
    } else if location.settings.alias_length != usize::MAX {
        out.extend_from_slice(path.get(location.settings.alias_length..)?);
    }
    Some(out)
}

/// `$document_root`'s text before links are resolved.
pub fn append_root(x: &mut Exchange, out: &mut Vec<u8>) {
    let plan = x.plan.clone();
    let root = &plan.location(x.location).settings.root;
    let start = out.len();
    root.write(x, out);
    if root.literal().is_none() && out.get(start) != Some(&b'/') {
        let relative = out.split_off(start);
        out.extend_from_slice(plan.main.prefix.as_bytes());
        out.extend_from_slice(&relative);
    }
}
