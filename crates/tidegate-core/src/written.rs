//! Blocks as the configuration has them, for those who explain it. Only a plan with `admin_socket` has them.

use std::sync::Arc;

/// A block with its statements.
#[derive(Debug)]
pub struct WrittenBlock {
    /// The statement that opens it; without a name for the main context.
    pub opening: WrittenLine,
    /// The block around it.
    pub outer: Option<Arc<WrittenBlock>>,
    /// Its statements in order.
    pub lines: Vec<WrittenLine>,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct WrittenLine {
    /// Its first word.
    pub name: String,
    /// All its words; a block is shown as `{ … }`, and a long text is cut.
    pub text: String,
    /// `FILE:LINE`.
    pub place: String,
}

impl WrittenBlock {
    /// Returns this block and those around it, the inner ones first.
    pub fn chain(&self) -> impl Iterator<Item = &WrittenBlock> {
        std::iter::successors(Some(self), |block| block.outer.as_deref())
    }
}
