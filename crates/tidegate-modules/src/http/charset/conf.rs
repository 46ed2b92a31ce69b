//! The charset directives of a block as written.

use std::sync::Arc;

use tidegate_conf::{Args, Diagnostic, Span, Statement, Word};

use crate::http::media_types::MediaTypes;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    pub charset: Option<Name>,
    pub source: Option<Name>,
    pub overrides: Option<bool>,
    pub types: Option<MediaTypes>,
    pub maps: Vec<MapConf>,
}

/// The name of a charset.
#[derive(Clone)]
pub(crate) enum Name {
    Off,
    Fixed(Vec<u8>, Span),
    /// With variables.
    Made(Word),
}

/// A `charset_map` block.
pub(crate) struct MapConf {
    pub from: Word,
    pub to: Word,
    pub entries: Arc<Vec<Statement>>,
}

/// Reads the name of a charset.
pub(super) fn name(args: &Args<'_>, may_be_off: bool) -> Result<Name, Diagnostic> {
    let word = args.word(0);
    if may_be_off && word.bytes == b"off" {
        return Ok(Name::Off);
    }
    if word.bytes.contains(&b'$') {
        return Ok(Name::Made(word.clone()));
    }
    Ok(Name::Fixed(word.bytes.clone(), word.span))
}

/// Reads a `charset_map`.
pub(super) fn map(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let (from, to) = (args.word(0).clone(), args.word(1).clone());
    if from.bytes.eq_ignore_ascii_case(&to.bytes) {
        let name = from.display();
        let message =
            format!("\"charset_map\" between the same charsets \"{name}\" and \"{name}\"");
        return Err(args.error(1, message));
    }
    conf.maps.push(MapConf { from, to, entries: args.shared_entries()? });
    Ok(())
}
