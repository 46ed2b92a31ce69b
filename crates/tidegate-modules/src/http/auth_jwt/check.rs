//! The check of a location's requests.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_codec::Known;
use tidegate_codec::headers::one_line;
use tidegate_conf::Diagnostic;
use tidegate_core::{Exchange, Level, Step, Template, blocking};
use tidegate_jose::{KeySet, Object, SignedToken, TokenError, check_times, parse_claims};
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;

use super::conf::{AccessConf, Conf};
use super::keys::{KeySource, Unavailable};
use super::state::{self, Facts, Found, Token, TokenKind};

/// The settings of a location.
pub(super) struct TokenCheck {
    realm: Template,
    /// The variable of `token=`.
    pub(super) token: Option<Template>,
    pub(super) kind: TokenKind,
    sources: Vec<KeySource>,
    key_cache: Duration,
    leeway: Duration,
    requires: Vec<Requirement>,
}

/// `auth_jwt_require`.
struct Requirement {
    values: Vec<Template>,
    status: u16,
}

/// A checked token: its claims, and what an encrypted one contains.
type Checked = (Object, Option<Vec<u8>>);

impl TokenCheck {
    pub(super) fn new(
        access: &AccessConf,
        conf: &Conf,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<TokenCheck, Diagnostic> {
        let mut requires = Vec::new();
        for require in &conf.requires {
            let values = require.values.iter().map(|value| plan.template(value));
            let values = values.collect::<Result<_, _>>()?;
            requires.push(Requirement { values, status: require.status });
        }
        let (kind, leeway) =
            (conf.kind.unwrap_or(TokenKind::Signed), conf.leeway.unwrap_or_default());
        let key_cache = conf.key_cache.unwrap_or_default();
        plan.show(&(kind, leeway, key_cache));
        let sources = conf.sources.iter().map(|source| KeySource::new(source, plan));
        Ok(TokenCheck {
            sources: sources.collect::<Result<_, _>>()?,
            realm: plan.template(&access.realm)?,
            token: access.token.as_ref().map(|token| plan.template(token)).transpose()?,
            kind,
            key_cache,
            leeway,
            requires,
        })
    }

    pub(super) fn apply<'a>(self: &Arc<TokenCheck>, x: &'a mut Exchange) -> Step<'a> {
        let realm = self.realm.value(x);
        if realm == b"off" {
            return Step::Decline;
        }
        let Some(token) = state::find(self.token.as_ref(), x) else {
            x.lineage.inherited.insert(Rc::new(Found::Nothing));
            x.log(Level::Info, format_args!("no JSON Web Token was provided"));
            return challenge(x, &realm, "");
        };
        match Token::parse(self.kind, &token) {
            Ok(token) => {
                let check = self.clone();
                Step::Wait(Box::pin(async move { check.run(x, &realm, token).await }))
            }
            Err(error) => refuse(x, &realm, &error),
        }
    }

    /// Checks a token. Dropped at its await, it ends subrequests, and files that wait in a pool are not read.
    ///
    /// | | the request |
    /// |---|---|
    /// | the token is valid, and all values of `auth_jwt_require` are true | continues |
    /// | the token is not valid | gets 401 with a challenge, logged |
    /// | a value of `auth_jwt_require` is false | gets its status, logged |
    /// | keys are not available | gets 500, logged |
    ///
    /// Sources: ngx_http_auth_jwt_module, RFC 6750 section 3.
    async fn run(&self, x: &mut Exchange, realm: &[u8], token: Token) -> Step<'static> {
        let found = Rc::new(Found::Unchecked(token.facts()));
        x.lineage.inherited.insert(found.clone());
        let names: Vec<Vec<u8>> = self.sources.iter().map(|source| source.name(x)).collect();
        // From here on the request waits, and has no values if it ends meanwhile.
        x.lineage.inherited.insert(Rc::new(Found::Nothing));
        let mut sets = Vec::with_capacity(self.sources.len());
        for (source, name) in self.sources.iter().zip(names) {
            match source.keys(x, name, self.key_cache, &found).await {
                Ok(set) => sets.push(set),
                Err(Unavailable) => return Step::Status(500),
            }
        }
        if sets.is_empty() {
            x.log(
                Level::Error,
                format_args!("there is no \"auth_jwt_key_file\" or \"auth_jwt_key_request\""),
            );
            return Step::Status(500);
        }
        let leeway = self.leeway;
        let checked = match self.check(token, sets, leeway).await {
            Ok(checked) => checked,
            Err(error) => {
                x.log(Level::Crit, format_args!("checking a JSON Web Token failed: {error}"));
                return Step::Status(500);
            }
        };
        match checked {
            Ok(facts) => x.lineage.inherited.insert(Rc::new(Found::Valid(facts))),
            Err(error) => return refuse(x, realm, &error),
        }
        self.require(x, realm)
    }

    /// Checks a token with its keys, on a pool thread where it takes long.
    ///
    /// # Errors
    /// The pool refuses the job.
    async fn check(
        &self,
        token: Token,
        sets: Vec<Arc<KeySet>>,
        leeway: Duration,
    ) -> io::Result<Result<Facts, TokenError>> {
        let now = clock::unix_millis();
        let is_costly = match &token {
            Token::Signed(token) => token.is_costly(&sets),
            // What is nested is known later.
            Token::Encrypted(token) => self.kind == TokenKind::Nested || token.is_costly(&sets),
        };
        let is_nested = self.kind == TokenKind::Nested;
        let check = move || {
            let (claims, payload) = open(&token, is_nested, &sets)?;
            check_times(&claims, now, leeway)?;
            Ok(Facts::new(&token, claims, payload))
        };
        match is_costly {
            true => blocking::run(move || Ok(check())).await,
            false => Ok(check()),
        }
    }

    fn require(&self, x: &mut Exchange, realm: &[u8]) -> Step<'static> {
        for requirement in &self.requires {
            for value in &requirement.values {
                let value = value.value(x);
                if !value.is_empty() && value != b"0" {
                    continue;
                }
                x.log(Level::Error, format_args!("a value of \"auth_jwt_require\" is false"));
                return match requirement.status {
                    401 => challenge(x, realm, INVALID),
                    status => Step::Status(status),
                };
            }
        }
        Step::Next
    }
}

/// The error code of RFC 6750 section 3.1 for a token that is refused.
const INVALID: &str = ", error=\"invalid_token\"";

/// Verifies or decrypts a token.
fn open(token: &Token, is_nested: bool, sets: &[Arc<KeySet>]) -> Result<Checked, TokenError> {
    match token {
        Token::Signed(token) => {
            token.verify(sets)?;
            Ok((parse_claims(token.payload())?, None))
        }
        Token::Encrypted(token) => {
            let payload = token.decrypt(sets)?;
            let claims = match is_nested {
                false => parse_claims(&payload)?,
                true => {
                    let inner = SignedToken::parse(&payload)?;
                    inner.verify(sets)?;
                    parse_claims(inner.payload())?
                }
            };
            Ok((claims, Some(payload)))
        }
    }
}

fn refuse(x: &mut Exchange, realm: &[u8], error: &TokenError) -> Step<'static> {
    x.lineage.inherited.insert(Rc::new(Found::Nothing));
    x.log(Level::Error, format_args!("the JSON Web Token is refused: {error}"));
    challenge(x, realm, INVALID)
}

/// Returns 401 with the challenge of RFC 6750 section 3.
fn challenge(x: &mut Exchange, realm: &[u8], error: &str) -> Step<'static> {
    let value = one_line([b"Bearer realm=\"", realm, b"\"", error.as_bytes()].concat());
    x.response.headers.set_known(Known::WwwAuthenticate, &value);
    Step::Status(401)
}
