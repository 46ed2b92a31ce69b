//! The rewrite directives of a block as written.

use tidegate_conf::{Args, Diagnostic, Word};

use super::assignment::SetConf;
use super::condition::ConditionConf;
use crate::http::set_misc::{MiscConf, MiscSettings};

/// The statements of one block in order.
#[derive(Default)]
pub(crate) struct Conf {
    pub statements: Vec<Statement>,
    pub log: Option<bool>,
    pub warn_uninitialized: Option<bool>,
    /// Settings of the functions of set-misc.
    pub misc: MiscSettings,
}

/// One statement.
#[derive(Clone)]
pub(crate) enum Statement {
    Rewrite(RewriteConf),
    Return(ReturnConf),
    Set(SetConf),
    /// An assignment by a function of set-misc.
    Misc(MiscConf),
    Break,
    /// The n-th `if` statement belongs to the n-th `if` block.
    If(ConditionConf),
}

/// The third argument of `rewrite`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flag {
    None,
    Last,
    Break,
    /// With this status.
    Redirect(u16),
}

/// `rewrite REGEX REPLACEMENT [FLAG]`.
#[derive(Clone)]
pub(crate) struct RewriteConf {
    pub regex: Word,
    pub replacement: Word,
    pub flag: Flag,
}

/// `return`: a status and a text or address.
#[derive(Clone)]
pub(crate) struct ReturnConf {
    pub status: u16,
    pub text: Option<Word>,
}

/// Returns whether a replacement or text is an absolute address, which makes a redirect.
fn is_address(text: &[u8]) -> bool {
    let starts: [&[u8]; 3] = [b"http://", b"https://", b"$scheme"];
    starts.iter().any(|start| text.starts_with(start))
}

/// Reads a `rewrite`.
pub(super) fn rewrite(args: &Args<'_>) -> Result<Statement, Diagnostic> {
    let replacement = args.word(1).clone();
    if replacement.bytes.is_empty() {
        return Err(args.error(1, "empty replacement"));
    }
    let mut flag = match is_address(&replacement.bytes) {
        true => Flag::Redirect(302),
        false => Flag::None,
    };
    if args.len() == 3 {
        flag = match args.bytes(2) {
            b"last" => Flag::Last,
            b"break" => Flag::Break,
            b"redirect" => Flag::Redirect(302),
            b"permanent" => Flag::Redirect(301),
            _ => return Err(args.invalid_parameter(2)),
        };
        // An absolute address cannot become a path, not even with `last` or `break`.
        if matches!(flag, Flag::Last | Flag::Break) && is_address(&replacement.bytes) {
            flag = Flag::Redirect(302);
        }
    }
    Ok(Statement::Rewrite(RewriteConf { regex: args.word(0).clone(), replacement, flag }))
}

/// Reads a `return`.
pub(super) fn read_return(args: &Args<'_>) -> Result<Statement, Diagnostic> {
    let first = args.bytes(0);
    if args.len() == 1 && is_address(first) {
        let text = Some(args.word(0).clone());
        return Ok(Statement::Return(ReturnConf { status: 302, text }));
    }
    let status = tidegate_conf::parse_number(first).filter(|status| *status <= 999);
    let Some(status) = status.and_then(|status| u16::try_from(status).ok()) else {
        let shown = args.word(0).display();
        return Err(args.error(0, format!("invalid return code \"{shown}\"")));
    };
    let text = (args.len() > 1).then(|| args.word(1).clone());
    Ok(Statement::Return(ReturnConf { status, text }))
}
