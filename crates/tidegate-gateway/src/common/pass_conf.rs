//! `*_pass` as written: its block, the blocks that inherit it, and those of them that handle requests.

use tidegate_conf::{Contexts, Word};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::BlockInfo;

/// The directive of one block.
#[derive(Clone, Default)]
pub struct PassConf {
    pub word: Option<Word>,
    /// The block of `word`.
    pub block: PassBlock,
    /// It was written in the block around.
    is_inherited: bool,
}

/// The block that a `*_pass` was written in.
#[derive(Clone, Debug, Default)]
pub struct PassBlock {
    /// The location's name without modifier.
    pub name: Vec<u8>,
    pub is_regex: bool,
    pub is_named: bool,
    /// The block is `if` or `limit_except`: no URI is allowed.
    pub is_unnamed_block: bool,
}

/// Blocks of a location without a name of their own: they pass requests as the location does.
const NAMELESS: Contexts = Contexts::LOCATION_IF.union(Contexts::LIMIT_EXCEPT);

impl PassConf {
    /// Records the block of the directive.
    pub fn note_block(&mut self, block: BlockInfo<'_>) {
        if block.context.intersects(NAMELESS) {
            self.block.is_unnamed_block = true;
            return;
        }
        if !block.context.intersects(Contexts::LOCATION) {
            return;
        }
        let Some(last) = block.args.last() else { return };
        let modifier =
            if block.args.len() > 1 { &block.args[0].bytes[..] } else { &last.bytes[..] };
        self.block.is_regex = modifier.starts_with(b"~");
        self.block.is_named = modifier.starts_with(b"@");
        let glued = match &last.bytes[..] {
            [b'=', ..] if block.args.len() == 1 => 1,
            [b'^', b'~', ..] if block.args.len() == 1 => 2,
            _ => 0,
        };
        self.block.name = last.bytes[glued..].to_vec();
    }

    /// Inherits the directive: location → `if`, `limit_except`. A location in a location has to set its own.
    pub fn inherit(&mut self, parent: &PassConf, block: BlockInfo<'_>) {
        if block.context.intersects(NAMELESS) && self.word.is_none() {
            self.clone_from(parent);
            self.is_inherited = true;
        }
    }

    /// Returns the destination, for a block that handles requests. A gateway of the block's own, of whatever kind, comes
    /// before one of the block around.
    pub fn target(&self, location: &LocationBuilder<'_, '_>) -> Option<&Word> {
        let within = Contexts::LOCATION.union(NAMELESS);
        let is_hidden = self.is_inherited && location.location.content.is_some();
        self.word.as_ref().filter(|_| location.context().intersects(within) && !is_hidden)
    }
}
