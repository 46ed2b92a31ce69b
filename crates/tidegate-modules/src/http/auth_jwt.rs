//! `auth_jwt`: requests with a JSON Web Token (RFC 7519) that one of the given keys has signed or encrypted.
//!
//! ```nginx
//! auth_jwt_claim_set $mail info e-mail;
//! map $jwt_claim_iss $is_known_issuer { "https://idp.example.com" 1; }
//!
//! location /api/ {
//!     auth_jwt             "closed site" token=$cookie_token;
//!     auth_jwt_key_file    keys.json;
//!     auth_jwt_key_request /keys;
//!     auth_jwt_require     $is_known_issuer error=403;
//!     proxy_set_header     X-User $jwt_claim_sub;
//!     proxy_pass           http://api;
//! }
//! location = /keys {
//!     internal;
//!     proxy_cache keys;
//!     proxy_pass  https://idp.example.com/keys;
//! }
//! ```
//! Tokens and keys are those of `tidegate-jose`. Files are read on pool threads, where also their keys are made ready and
//! costly tokens are checked.
//!
//! The variables have the values of a signed token before it has been checked, so that they can choose its keys. From the
//! access phase on they have those of a token that was found valid, or none.

mod check;
mod conf;
mod keys;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::variables::Variable;
use tidegate_core::{Phase, Step};
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

use check::TokenCheck;
use conf::{Conf, ROWS, SetConf};
use state::{Part, TokenSource};
use tidegate_plan::made_variable;

/// `ngx_http_auth_jwt_module`.
pub(crate) struct AuthJwt;

impl Module for AuthJwt {
    type Conf = Conf;
    const NAME: &'static str = "auth_jwt";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
    const VARIABLES: &'static [Variable] = &[
        Variable::prefixed(
            "jwt_header_",
            "Member of this name of the header of the JSON Web Token. The case of letters counts only between several.",
            |x, name, out| state::named(x, Part::Header, name, out),
        ),
        Variable::prefixed(
            "jwt_claim_",
            "Claim of this name of the JSON Web Token. The case of letters counts only between several.",
            |x, name, out| state::named(x, Part::Claims, name, out),
        ),
        Variable::fixed(
            "jwt_payload",
            "What an encrypted JSON Web Token contains: its claims, or the signed token in a nested one.",
            state::payload,
        ),
    ];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.inherit(parent);
    }

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        made_variable::define_all(&conf.sets, plan, define)
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some(access) = conf.access.as_ref().filter(|access| access.realm.bytes != b"off")
        else {
            return Ok(());
        };
        let check = Arc::new(TokenCheck::new(access, conf, location.plan)?);
        let source = TokenSource { kind: check.kind, variable: check.token.clone() };
        location.location.extensions.insert(source);
        location.handler(Phase::Access, Box::new(move |x| check.apply(x)));
        location.handler(
            Phase::Precontent,
            Box::new(|x| {
                state::end_access(x);
                Step::Decline
            }),
        );
        Ok(())
    }
}

/// Defines the variable of `auth_jwt_claim_set` or `auth_jwt_header_set`.
fn define(set: &SetConf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
    made_variable::check_free(plan, &set.name, set.span)?;
    let (part, path) = (set.part, set.path.clone());
    let compute = Arc::new(move |x: &mut _, out: &mut _| state::at_path(x, part, &path, out));
    plan.variables.define_computed(&set.name, compute, false);
    Ok(())
}
