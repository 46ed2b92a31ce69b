//! The `proxy_*` directives of one block as written, and their inheritance.

use tidegate_conf::{Contexts, Word};
use tidegate_core::module::BlockInfo;

use crate::http::gateway::options::{self, GatewayConf, HasGateway};

/// One block.
#[derive(Default)]
pub struct Conf {
    pub gateway: GatewayConf,
    pub pass: Option<Word>,
    pub http_version: Option<Version>,
    pub method: Option<Word>,
    pub set_body: Option<Word>,
    pub set_header: Option<Vec<(Word, Word)>>,
    pub redirect: Option<Vec<RedirectConf>>,
    pub cookie_domain: Option<Vec<(Word, Word)>>,
    pub cookie_path: Option<Vec<(Word, Word)>>,
    pub cookie_flags: Option<Vec<Vec<Word>>>,
    pub early_hints: Option<Vec<Word>>,
    /// Where `pass` stands, since the location's name is what its URI replaces.
    pub place: Place,
}

/// `proxy_http_version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    H10,
    H11,
}

/// One `proxy_redirect`.
#[derive(Clone, Debug)]
pub enum RedirectConf {
    Off,
    Default,
    Pair(Word, Word),
}

/// The block that a `proxy_pass` was written in.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The location's name without modifier.
    pub name: Vec<u8>,
    pub is_regex: bool,
    pub is_named: bool,
    /// `if` or `limit_except`: no URI may be given.
    pub is_nameless: bool,
}

impl HasGateway for Conf {
    fn gateway(&mut self) -> &mut GatewayConf {
        &mut self.gateway
    }
}

impl Conf {
    /// Notes the block this stands in.
    pub fn note_place(&mut self, block: BlockInfo<'_>) {
        let nameless = Contexts::LOCATION_IF | Contexts::LIMIT_EXCEPT;
        if block.context.intersects(nameless) {
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
}

/// http → server → location → `if`.
pub fn inherit(child: &mut Conf, parent: &Conf, block: BlockInfo<'_>) {
    options::inherit(&mut child.gateway, &parent.gateway);
    if block.context.intersects(Contexts::LOCATION_IF | Contexts::LIMIT_EXCEPT)
        && child.pass.is_none()
    {
        child.pass = parent.pass.clone();
        child.place = parent.place.clone();
    }
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
