//! Lists of media types (`charset_types`, `ssi_types`, …): the responses that a filter applies to.

use tidegate_conf::{Args, Diagnostic};

/// Media types in lower case, or all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MediaTypes {
    any: bool,
    types: Vec<Vec<u8>>,
}

impl MediaTypes {
    /// Makes the list of a directive's default.
    pub(crate) fn of(types: &[&str]) -> MediaTypes {
        MediaTypes {
            any: false,
            types: types.iter().map(|name| name.as_bytes().to_vec()).collect(),
        }
    }

    /// Reads a `*_types` directive: `text/html` is always included, `*` means all.
    pub(crate) fn read(slot: &mut Option<MediaTypes>, args: &Args<'_>) -> Result<(), Diagnostic> {
        let list = slot.get_or_insert_with(|| MediaTypes::of(&["text/html"]));
        for word in args.words() {
            let name = word.bytes.to_ascii_lowercase();
            match &name[..] {
                b"*" => list.any = true,
                _ if list.types.contains(&name) => {}
                _ => list.types.push(name),
            }
        }
        Ok(())
    }

    /// Returns whether a `Content-Type` is one of the types; its parameters are ignored. `*` matches responses
    /// without one as well.
    pub(crate) fn matches(&self, content_type: Option<&[u8]>) -> bool {
        let Some(content_type) = content_type else { return self.any };
        let name = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
        let name = name.trim_ascii();
        self.any || self.types.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}
