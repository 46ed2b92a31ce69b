//! The filter that names the charset of a response and recodes its body.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tidegate_codec::headers::one_line;
use tidegate_codec::{Headers, Known};
use tidegate_conf::Diagnostic;
use tidegate_core::body::{BodyError, BodyStream, Chunk};
use tidegate_core::byte_body::{ByteBody, Piece};
use tidegate_core::exchange::RangeSupport;
use tidegate_core::{Body, Exchange, Level, Template};
use tidegate_plan::PlanBuilder;

use super::conf::{Conf, Name};
use super::recode::Recoder;
use super::{MapTable, key};
use crate::http::media_types::MediaTypes;

/// Default of `charset_types`.
const TYPES: &[&str] = &[
    "text/html",
    "text/xml",
    "text/plain",
    "text/vnd.wap.wml",
    "application/javascript",
    "application/rss+xml",
];

/// The charset directives of a location.
#[derive(Debug)]
pub(super) struct CharsetFilter {
    charset: Option<Template>,
    source: Option<Template>,
    overrides: bool,
    types: MediaTypes,
    maps: Arc<MapTable>,
}

impl CharsetFilter {
    pub(super) fn compile(
        conf: &Conf,
        maps: Arc<MapTable>,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<CharsetFilter, Diagnostic> {
        let mut template = |name: &Option<Name>| match name {
            None | Some(Name::Off) => Ok(None),
            Some(Name::Fixed(text, _)) => Ok(Some(Template::constant(text))),
            Some(Name::Made(word)) => plan.template(word).map(Some),
        };
        Ok(CharsetFilter {
            charset: template(&conf.charset)?,
            source: template(&conf.source)?,
            overrides: conf.overrides.unwrap_or(false),
            types: conf.types.clone().unwrap_or_else(|| MediaTypes::of(TYPES)),
            maps,
        })
    }

    /// Names the response's charset, and recodes the body where it has another one.
    ///
    /// Invariant: the head never names a charset that the body does not have. A body with a content coding is left
    /// alone, as it cannot be recoded; so is a pair of charsets without a `charset_map`, which is logged. Redirects
    /// and types that `charset_types` does not list are not changed. Sources: `charset`, `source_charset`,
    /// `override_charset`, RFC 9110 section 8.3.2.
    pub(super) fn apply(&self, x: &mut Exchange, body: Body) -> Body {
        let requested = x.response.charset.take();
        if self.charset.is_none() && requested.is_none() && !x.is_subrequest() {
            return body;
        }
        let Some(content_type) = x.response.headers.first(Known::ContentType) else { return body };
        // As nginx: the body of a redirect is not displayed.
        if matches!(x.disposition.status(), 301 | 302) {
            return body;
        }
        let (name, own) = split(content_type);
        let (name, own) = (name.to_vec(), own.map(<[u8]>::to_vec));
        let Some(wanted) = self.target_charset(x, requested, own.is_some()) else { return body };
        let source = match own {
            Some(own) => Some(own),
            None => self.source.as_ref().map(|source| source.value(x)),
        };
        let recoder = match source.filter(|source| !source.is_empty()) {
            Some(source) if !source.eq_ignore_ascii_case(&wanted) => {
                // A body with a content coding cannot be recoded.
                if x.response.headers.contains(Known::ContentEncoding) {
                    return body;
                }
                match self.maps.get(&key(&source, &wanted)) {
                    Some(recoder) => Some(recoder.clone()),
                    None => {
                        log_missing_map(x, &source, &wanted);
                        return body;
                    }
                }
            }
            _ => None,
        };
        let content_type = [&name[..], b"; charset=", &wanted].concat();
        x.response.headers.set_known(Known::ContentType, &content_type);
        match recoder {
            Some(recoder) => recoded(x, body, recoder),
            None => body,
        }
    }

    /// Returns the charset that the response will name, if any.
    pub(super) fn of_response(&self, x: &mut Exchange) -> Option<Vec<u8>> {
        let own = split(x.response.headers.first(Known::ContentType)?).1.map(<[u8]>::to_vec);
        let requested = x.response.charset.clone();
        self.target_charset(x, requested, own.is_some()).or(own)
    }

    /// Returns the charset that the client's response is to have.
    fn target_charset(
        &self,
        x: &mut Exchange,
        requested: Option<Bytes>,
        has_own: bool,
    ) -> Option<Vec<u8>> {
        if x.is_subrequest() {
            return x.lineage.page_type.as_deref().and_then(|page| split(page).1).map(Vec::from);
        }
        if let Some(requested) = requested {
            return (requested != "off").then(|| requested.to_vec());
        }
        if has_own && !self.overrides {
            return None;
        }
        if !has_own && !self.types.matches(x.response.headers.first(Known::ContentType)) {
            return None;
        }
        let wanted = one_line(self.charset.as_ref()?.value(x));
        (!wanted.is_empty() && wanted != b"off").then_some(wanted)
    }
}

/// Splits a `Content-Type` into the text before its charset parameter, and the charset.
fn split(content_type: &[u8]) -> (&[u8], Option<&[u8]>) {
    let semicolons = content_type.iter().enumerate().filter(|(_, byte)| **byte == b';');
    for (at, _) in semicolons {
        let parameter = content_type[at + 1..].trim_ascii();
        let Some((name, value)) = parameter.split_at_checked(b"charset=".len()) else { continue };
        if name.eq_ignore_ascii_case(b"charset=") {
            let value = value.strip_prefix(b"\"").unwrap_or(value);
            let value = value.strip_suffix(b"\"").unwrap_or(value);
            return (content_type[..at].trim_ascii_end(), Some(value));
        }
    }
    (content_type, None)
}

fn log_missing_map(x: &Exchange, source: &[u8], wanted: &[u8]) {
    let (source, wanted) = (String::from_utf8_lossy(source), String::from_utf8_lossy(wanted));
    x.log(
        Level::Error,
        format_args!("no \"charset_map\" between the charsets \"{source}\" and \"{wanted}\""),
    );
}

fn recoded(x: &mut Exchange, body: Body, recoder: Arc<Recoder>) -> Body {
    if matches!(body, Body::Tunnel(_)) {
        return body;
    }
    if recoder.keeps_length() {
        if let Body::Bytes(bytes) = body {
            let mut out = Vec::with_capacity(bytes.len());
            recoder.recode(&bytes, &mut Vec::new(), &mut out);
            return Body::from(Bytes::from(out));
        }
        x.response.content_length = x.response.content_length.or_else(|| body.known_length());
    } else {
        x.response.content_length = None;
        x.response.headers.remove(Known::ContentLength);
        x.response.headers.remove(Known::AcceptRanges);
        x.response.ranges = RangeSupport::None;
    }
    let source = Some(ByteBody::new(body));
    Body::Stream(Box::new(RecodedBody { source, recoder, left: Vec::new(), trailers: None }))
}

/// A body that is recoded to another charset.
struct RecodedBody {
    source: Option<ByteBody>,
    recoder: Arc<Recoder>,
    /// First bytes of a character whose rest has not arrived yet.
    left: Vec<u8>,
    trailers: Option<Headers>,
}

/// A chunk may end within a character: its first bytes are kept in `left` until the rest arrives, at most the bytes
/// of one character. Nothing is taken from the source before it is ready, so dropping a pending poll loses nothing.
impl BodyStream for RecodedBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let mut out = Vec::new();
        loop {
            let Some(source) = &mut self.source else { return Poll::Ready(None) };
            match ready!(source.poll_piece(context)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(Piece::Flush)) => return Poll::Ready(Some(Ok(Chunk::Flush))),
                Some(Ok(Piece::Bytes(bytes))) => {
                    self.recoder.recode(&bytes, &mut self.left, &mut out);
                }
                None => {
                    self.trailers = source.trailers();
                    self.source = None;
                    self.recoder.finish(&mut self.left, &mut out);
                }
            }
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Chunk::Bytes(Bytes::from(out)))));
            }
        }
    }

    fn trailers(&mut self) -> Option<Headers> {
        self.trailers.take()
    }
}
