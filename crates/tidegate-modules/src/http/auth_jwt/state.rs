//! What is known of a request's token, and its variables.

use std::rc::Rc;

use tidegate_codec::Known;
use tidegate_core::{Exchange, Template};
use tidegate_jose::{EncryptedToken, Object, SignedToken, TokenError, parse_claims};

/// `auth_jwt_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// JWS.
    Signed,
    /// JWE whose content has the claims.
    Encrypted,
    /// JWE whose content is a JWS.
    Nested,
}

/// The part of a token that a variable shows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Header,
    Claims,
}

/// Where the token of a location's requests is.
pub(super) struct TokenSource {
    pub(super) kind: TokenKind,
    /// The variable of `token=`; `None` for `Authorization`.
    pub(super) variable: Option<Template>,
}

/// A token in its form.
pub(super) enum Token {
    Signed(SignedToken),
    Encrypted(EncryptedToken),
}

/// What the variables show.
#[derive(Default)]
pub(super) struct Facts {
    header: Object,
    claims: Option<Object>,
    payload: Option<Vec<u8>>,
}

/// What the checks of a request have found, for it and its subrequests.
pub(super) enum Found {
    /// A token that is being checked: subrequests for keys may use its variables.
    Unchecked(Facts),
    /// A valid token.
    Valid(Facts),
    /// No valid token. The variables have no value.
    Nothing,
}

/// The facts of a token that has not been checked yet, and the token that they are of.
struct Early {
    token: Vec<u8>,
    facts: Option<Facts>,
}

impl TokenSource {
    /// Returns the token of a request.
    pub(super) fn find(&self, x: &mut Exchange) -> Option<Vec<u8>> {
        find(self.variable.as_ref(), x)
    }
}

/// Returns the token in a variable or, without one, in `Authorization` (RFC 6750 section 2.1).
pub(super) fn find(variable: Option<&Template>, x: &mut Exchange) -> Option<Vec<u8>> {
    let token = match variable {
        Some(variable) => variable.value(x),
        None => {
            let field = x.request.header(Known::Authorization)?;
            let (scheme, token) = field.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii().to_vec())?
        }
    };
    (!token.is_empty()).then_some(token)
}

impl Token {
    /// Parses a token of a type.
    ///
    /// # Errors
    /// It has another form.
    pub(super) fn parse(kind: TokenKind, text: &[u8]) -> Result<Token, TokenError> {
        match kind {
            TokenKind::Signed => SignedToken::parse(text).map(Token::Signed),
            TokenKind::Encrypted | TokenKind::Nested => {
                EncryptedToken::parse(text).map(Token::Encrypted)
            }
        }
    }

    /// Returns what the token shows without a key.
    pub(super) fn facts(&self) -> Facts {
        match self {
            Token::Signed(token) => Facts {
                header: token.header().clone(),
                claims: parse_claims(token.payload()).ok(),
                payload: None,
            },
            Token::Encrypted(token) => Facts { header: token.header().clone(), ..Facts::default() },
        }
    }
}

impl Facts {
    /// Creates the facts of a token with these claims; `payload` is what an encrypted one contains.
    pub(super) fn new(token: &Token, claims: Object, payload: Option<Vec<u8>>) -> Facts {
        Facts { claims: Some(claims), payload, ..token.facts() }
    }

    fn part(&self, part: Part) -> Option<&Object> {
        match part {
            Part::Header => Some(&self.header),
            Part::Claims => self.claims.as_ref(),
        }
    }
}

/// Ends the access phase: a request that was allowed without a valid token (`satisfy any`) has no values of one.
pub(super) fn end_access(x: &mut Exchange) {
    let found = x.lineage.inherited.of::<Found>();
    if !matches!(found.as_deref(), Some(Found::Valid(_))) {
        x.lineage.inherited.insert(Rc::new(Found::Nothing));
    }
}

/// Appends the member of this name.
pub(super) fn named(x: &mut Exchange, part: Part, name: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    put(x, |facts| facts.part(part)?.text_without_case(name).map(String::into_bytes), out)
}

/// Appends the member at this path.
pub(super) fn at_path(x: &mut Exchange, part: Part, path: &[String], out: &mut Vec<u8>) -> bool {
    put(x, |facts| facts.part(part)?.text(path).map(String::into_bytes), out)
}

/// Appends `$jwt_payload`.
pub(super) fn payload(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    put(x, |facts| facts.payload.clone(), out)
}

fn put(x: &mut Exchange, value: impl FnOnce(&Facts) -> Option<Vec<u8>>, out: &mut Vec<u8>) -> bool {
    let value = match x.lineage.inherited.of::<Found>().as_deref() {
        Some(Found::Valid(facts) | Found::Unchecked(facts)) => value(facts),
        Some(Found::Nothing) => None,
        None => early(x).and_then(value),
    };
    out.extend_from_slice(value.as_deref().unwrap_or_default());
    value.is_some()
}

/// Returns the facts of the token before the access phase. They are kept for as long as the location's token is the same.
fn early(x: &mut Exchange) -> Option<&Facts> {
    let location = x.location_ref();
    let source = location.extensions.of::<TokenSource>()?;
    let token = source.find(x)?;
    let kept = x.modules.extensions.of::<Early>();
    if kept.is_none_or(|early| early.token != token) {
        let facts = Token::parse(source.kind, &token).ok().map(|token| token.facts());
        x.modules.extensions.insert(Early { token, facts });
    }
    x.modules.extensions.of::<Early>()?.facts.as_ref()
}
