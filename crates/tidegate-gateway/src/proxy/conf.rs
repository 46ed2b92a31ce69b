//! The `proxy_*` directives of one block as written, and their inheritance.

use tidegate_conf::Word;
use tidegate_plan::module::BlockInfo;

use crate::common::options::{self, GatewayConf, HasGateway};
use crate::common::pass_conf::PassConf;

/// The directives of one block.
#[derive(Default)]
pub struct Conf {
    pub gateway: GatewayConf,
    pub pass: PassConf,
    pub http_version: Option<OriginVersion>,
    pub method: Option<Word>,
    pub set_body: Option<Word>,
    pub set_header: Option<Vec<(Word, Word)>>,
    pub redirect: Option<Vec<RedirectConf>>,
    /// It was written in a block around this one.
    pub redirect_is_inherited: bool,
    pub cookie_domain: Option<Vec<(Word, Word)>>,
    pub cookie_path: Option<Vec<(Word, Word)>>,
    pub cookie_flags: Option<Vec<Vec<Word>>>,
    pub early_hints: Option<Vec<Word>>,
}

/// `proxy_http_version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginVersion {
    H10,
    H11,
    H2,
}

/// One `proxy_redirect`.
#[derive(Clone, Debug)]
pub enum RedirectConf {
    Off,
    Default,
    Pair(Word, Word),
}

impl HasGateway for Conf {
    fn gateway(&mut self) -> &mut GatewayConf {
        &mut self.gateway
    }
}

/// Inherits settings: http → server → location → `if`.
pub(crate) fn inherit(child: &mut Conf, parent: &Conf, block: BlockInfo<'_>) {
    options::inherit(&mut child.gateway, &parent.gateway);
    child.pass.inherit(&parent.pass, block);
    child.redirect_is_inherited = child.redirect.is_none();
    macro_rules! take_over {
        ($($field:ident),*) => {
            $(if child.$field.is_none() { child.$field = parent.$field.clone(); })*
        };
    }
    take_over!(
        http_version,
        method,
        set_body,
        set_header,
        redirect,
        cookie_domain,
        cookie_path,
        cookie_flags,
        early_hints
    );
}
