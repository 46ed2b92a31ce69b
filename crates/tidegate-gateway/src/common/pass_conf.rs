//! `*_pass` as written: where it stands, which blocks inherit it, and in which of them requests can be.

use tidegate_conf::{Contexts, Word};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::BlockInfo;

/// The directive of one block.
#[derive(Clone, Default)]
pub struct PassConf {
    pub word: Option<Word>,
    /// Where `word` stands.
    pub place: Place,
}

/// The block that a `*_pass` was written in.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The location's name without modifier.
    pub name: Vec<u8>,
    pub is_regex: bool,
    pub is_named: bool,
    /// `if` or `limit_except`: no URI may be given.
    pub is_nameless: bool,
}

/// Blocks of a location that have no name of their own: what is passed from the location is from them, too.
const NAMELESS: Contexts = Contexts::LOCATION_IF.union(Contexts::LIMIT_EXCEPT);

impl PassConf {
    /// Notes the block this stands in.
    pub fn note_place(&mut self, block: BlockInfo<'_>) {
        if block.context.intersects(NAMELESS) {
            self.place.is_nameless = true;
            return;
        }
        if !block.context.intersects(Contexts::LOCATION) {
            return;
        }
        let Some(last) = block.args.last() else { return };
        let modifier =
            if block.args.len() > 1 { &block.args[0].bytes[..] } else { &last.bytes[..] };
        self.place.is_regex = modifier.starts_with(b"~");
        self.place.is_named = modifier.starts_with(b"@");
        let glued = block.args.len() == 1 && last.bytes.starts_with(b"=");
        self.place.name = last.bytes[usize::from(glued)..].to_vec();
    }

    /// location → `if`, `limit_except`: a location in a location has to say again where it passes to.
    pub fn inherit(&mut self, parent: &PassConf, block: BlockInfo<'_>) {
        if block.context.intersects(NAMELESS) && self.word.is_none() {
            self.clone_from(parent);
        }
    }

    /// What is passed to, for a block in which requests can be.
    pub fn target(&self, location: &LocationBuilder<'_, '_>) -> Option<&Word> {
        let within = Contexts::LOCATION.union(NAMELESS);
        self.word.as_ref().filter(|_| location.context().intersects(within))
    }
}
