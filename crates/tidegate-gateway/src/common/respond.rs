//! The client's response, made of an origin's.

use bytes::Bytes;
use tidegate_codec::request::Method;
use tidegate_codec::response::{ResponseHead, reason};
use tidegate_codec::{Known, connection, date, uri};
use tidegate_core::exchange::{
    ClientAbort, Conditions, FieldOwner, Filtering, PieceSending, RangeSupport,
};
use tidegate_core::step::Jump;
use tidegate_core::{Body, Exchange, Level, Step, error_page};
use tidegate_os::os_error;
use tidegate_rt::clock;
use tidegate_upstream::{LogContext, OriginBody, OriginResponse, READING_HEAD, tunnel};

use super::buffered::{SpillLog, Spool};
use super::options::{IGNORE_CHARSET, IGNORE_LIMIT_RATE, IGNORE_REDIRECT};
use super::settings::{GatewaySettings, NEVER_PASSED};
use super::state::GatewayState;
use super::store;
use crate::cache::gateway::StoredResponse;
use crate::cache::ring::{field, serve};
use crate::upstream::sticky;
use tidegate_core::pool_choice;

/// The changes of a protocol to the client's head: redirects, cookies.
pub(crate) trait Rewriter {
    /// Rewrites `x.response` after fields were copied; most protocols change nothing.
    fn rewrite(&self, _x: &mut Exchange) {}

    /// Returns the body of a response in another form (gRPC-Web); most protocols change nothing.
    fn body(&self, _x: &mut Exchange, body: Body) -> Body {
        body
    }
}

/// Fields that an internal redirect preserves (`X-Accel-Redirect`).
const PRESERVED: [&[u8]; 6] = [
    b"Content-Type",
    b"Set-Cookie",
    b"Content-Disposition",
    b"Cache-Control",
    b"Expires",
    b"Accept-Ranges",
];

/// Fields that a response has once: later ones are ignored, as nginx does.
const SINGLE: [Known; 8] = [
    Known::Expires,
    Known::Location,
    Known::LastModified,
    Known::Etag,
    Known::ContentType,
    Known::Refresh,
    Known::Date,
    Known::Server,
];

/// Makes the response: internal redirect (`X-Accel-Redirect`), intercepted error (`*_intercept_errors`), tunnel
/// (101), or head and body.
///
/// Invariant: the origin's head is kept for variables in each of these. `X-Accel-*` fields apply unless
/// `*_ignore_headers` names them; the first one that redirects ends the processing. The client's head carries the
/// cookie of `sticky`. The body is not touched here: it is pulled later, at the pace of the client or of
/// `*_buffering`.
pub(crate) fn respond(
    x: &mut Exchange,
    response: OriginResponse,
    settings: &GatewaySettings,
    rewriter: &impl Rewriter,
) -> Step<'static> {
    let OriginResponse { head, body, .. } = response;
    if let Some(field) = serve::response_field(x) {
        let buffering = settings.buffering.applies(&head.headers);
        copy_unchanged(x, &head, &field);
        remember(x, head);
        return Step::Respond(match body {
            OriginBody::Whole(bytes) => Body::from(bytes),
            OriginBody::Stream(reader) => stream(x, reader, settings, buffering, None),
            // A request of a peer asks for no other protocol.
            OriginBody::Upgraded(_) => return Step::Status(502),
        });
    }
    if settings.ignore & IGNORE_LIMIT_RATE == 0
        && let Some(rate) = head.headers.first(Known::XAccelLimitRate)
    {
        x.limit_rate = tidegate_conf::parse_number(rate);
    }
    if settings.ignore & IGNORE_REDIRECT == 0
        && let Some(place) = head.headers.first(Known::XAccelRedirect)
    {
        let place = place.to_vec();
        return internal_redirect(x, head, &place);
    }
    let is_absent = settings.intercepts_absence && head.status == 404;
    if is_absent || settings.intercept_errors && intercepts(x, head.status) {
        return intercept(x, head);
    }
    copy_head(x, &head, settings);
    x.response.conditions = Conditions::Origin;
    if settings.ignore_client_abort {
        x.delivery.client_abort = ClientAbort::Ignored;
    }
    rewriter.rewrite(x);
    // Behind a switch, requested or not, the bytes are not HTTP.
    if head.status == 101 {
        x.disposition.close_connection();
    }
    let buffering = settings.buffering.applies(&head.headers);
    remember(x, head);
    if GatewayState::of(x).bound.is_some() {
        let whole = matches!(body, OriginBody::Whole(_));
        sticky::on_response(x, whole, (clock::now(), clock::unix_seconds()));
    }
    let store = settings.store.as_ref();
    let copy = store.and_then(|store| store.copy(x, buffering, &settings.spool));
    let body = match body {
        OriginBody::Whole(bytes) if bytes.is_empty() && is_head_without_length(x) => {
            Body::of_unknown_length()
        }
        OriginBody::Upgraded(upgraded) => Body::Tunnel(tunnel(*upgraded)),
        OriginBody::Stream(reader) => stream(x, reader, settings, buffering, copy),
        OriginBody::Whole(bytes) => match copy {
            None => Body::from(bytes),
            Some(copy) => {
                x.response.content_length = Some(bytes.len() as u64);
                Body::Stream(Box::new(copy.of(Body::from(bytes))))
            }
        },
    };
    Step::Respond(rewriter.body(x, body))
}

/// Returns the body as it arrives: at the pace of `limit_rate`, gathered where responses are buffered, and copied
/// where they are stored.
fn stream(
    x: &mut Exchange,
    mut reader: Box<tidegate_upstream::BodyReader>,
    settings: &GatewaySettings,
    buffering: bool,
    copy: Option<store::StoreCopy>,
) -> Body {
    if settings.limit_rate.is_some() {
        reader.limit_rate(settings.rate(x), clock::exact_now());
    }
    if buffering {
        x.delivery.pieces = PieceSending::Gathered;
    }
    x.delivery.expects_trailers = settings.fetch.pass_trailers;
    let trailers = GatewayState::of(x).trailers.get_or_insert_default().clone();
    let spool = buffering.then(|| spool(x, settings));
    match copy {
        None => super::buffered::body(reader, spool, trailers),
        Some(copy) => {
            let copied = Box::new(copy.of(Body::Stream(reader)));
            super::buffered::body(copied, spool, trailers)
        }
    }
}

/// Returns whether this is a response to HEAD without the length of the one to GET (RFC 9110 section 8.6).
fn is_head_without_length(x: &Exchange) -> bool {
    x.request.head.method == Method::Head && x.response.content_length.is_none()
}

/// Returns the spool for a response that may not fit into memory.
fn spool(x: &mut Exchange, settings: &GatewaySettings) -> Spool {
    let log = LogContext::of(x);
    let directory = settings.spool.clone();
    let log: SpillLog = Box::new(move |made| {
        let (level, text) = match made {
            Ok(path) => {
                let path = path.display();
                let text = format!("an upstream response is buffered to a temporary file {path}");
                (Level::Warn, text)
            }
            Err(error) => {
                let (directory, error) = (directory.path.display(), os_error(error));
                (Level::Crit, format!("a temporary file in \"{directory}\" failed ({error})"))
            }
        };
        log.write(level, &text, "reading upstream", "");
    });
    Spool { settings: settings.spool.clone(), pool: pool_choice::pool_of(x), log }
}

/// Makes the response of a stored head: internal redirect, intercepted error, or head and body.
pub(crate) fn respond_stored(
    x: &mut Exchange,
    stored: StoredResponse<'_>,
    settings: &GatewaySettings,
    rewriter: &impl Rewriter,
) -> Step<'static> {
    let StoredResponse { head, body, content_length } = stored;
    if let Some(field) = serve::response_field(x) {
        copy_unchanged(x, head, &field);
        x.response.content_length = content_length;
        return Step::Respond(body);
    }
    if settings.ignore & IGNORE_LIMIT_RATE == 0
        && let Some(rate) = head.headers.first(Known::XAccelLimitRate)
    {
        x.limit_rate = tidegate_conf::parse_number(rate);
    }
    if settings.ignore & IGNORE_REDIRECT == 0
        && let Some(place) = head.headers.first(Known::XAccelRedirect)
    {
        return internal_redirect(x, head.clone(), place);
    }
    if settings.intercept_errors && intercepts(x, head.status) {
        return intercept(x, head.clone());
    }
    copy_head(x, head, settings);
    // A stored body does not change: its ranges may be served unless the origin forbids it.
    let accepts = head.headers.first(Known::AcceptRanges);
    if accepts.is_none_or(|units| !units.eq_ignore_ascii_case(b"none")) {
        x.response.ranges = RangeSupport::Many;
    }
    x.response.headers.remove(Known::AcceptRanges);
    rewriter.rewrite(x);
    // Most stored responses were served without an origin: they need no state.
    if x.modules.extensions.of::<GatewayState>().is_some_and(|state| state.bound.is_some()) {
        sticky::on_response(x, true, (clock::now(), clock::unix_seconds()));
    }
    // The length stored with a response to HEAD is not that of one to GET.
    if body.is_empty() && content_length.unwrap_or(0) == 0 && is_head_without_length(x) {
        return Step::Respond(Body::of_unknown_length());
    }
    x.response.content_length = content_length;
    Step::Respond(body)
}

/// Keeps the origin's head for variables.
pub(crate) fn remember(x: &mut Exchange, head: ResponseHead) {
    GatewayState::of(x).head = Some(head);
}

/// Copies status and fields, without those that are hidden (`*_hide_header`, `*_pass_header`) or belong to the
/// connection.
///
/// Invariant: of a field that is allowed once, the first counts (RFC 9110 section 5.3 forbids more). The values that
/// the server derives from fields (length, modification, charset) are derived from the origin's head, hidden or not.
pub(crate) fn copy_head(x: &mut Exchange, head: &ResponseHead, settings: &GatewaySettings) {
    let upgraded = head.status == 101;
    x.clear_response();
    x.disposition.set_status(head.status);
    // A CGI head without a reason has none of its own.
    let has_reason = !settings.completes_head || !head.reason().is_empty();
    if has_reason && head.reason() != reason(head.status).as_bytes() {
        x.response.reason = Some(Bytes::copy_from_slice(head.reason()));
    }
    let headers = &mut x.response.headers;
    headers.clone_from(&head.headers);
    // An empty type is treated as none. Of several the first counts, so the others are ignored.
    if headers.first(Known::ContentType).is_some_and(<[u8]>::is_empty) {
        headers.retain(|known, _, value| known != Known::ContentType || !value.is_empty());
    }
    let mut seen: u64 = 0;
    headers.retain(|known, name, _| {
        if settings.hidden.contains(known, name) {
            return false;
        }
        let bit = 1u64 << known as u8;
        let again = seen & bit != 0;
        seen |= bit;
        !(again && SINGLE.contains(&known))
    });
    if serve::has_rings(&x.plan) {
        // To a server of a ring it would be this one's word.
        headers.remove_named(field::NAME);
    }
    // The type of an earlier origin (`X-Accel-Redirect`) is for responses without one.
    if headers.contains(Known::ContentType) && !x.preserved_headers.is_empty() {
        x.preserved_headers.remove(Known::ContentType);
    }
    if !upgraded {
        x.response.content_length =
            head.headers.first(Known::ContentLength).and_then(connection::parse_length);
    }
    x.response.last_modified = head.headers.first(Known::LastModified).and_then(date::parse_http);
    if settings.force_ranges {
        x.response.ranges = RangeSupport::Many;
    }
    let owner = |known: Known| {
        let hidden = settings.hidden.contains(known, known.name().as_bytes());
        if settings.completes_head || hidden { FieldOwner::Server } else { FieldOwner::Origin }
    };
    x.delivery.date = owner(Known::Date);
    x.delivery.server = owner(Known::Server);
    if settings.ignore & IGNORE_CHARSET == 0
        && let Some(charset) = head.headers.first(Known::XAccelCharset)
        && !charset.is_empty()
    {
        x.response.charset = Some(Bytes::copy_from_slice(charset));
    }
}

/// Copies status and fields for another server of the ring, which changes them as its configuration says, and adds the field
/// that is for it.
fn copy_unchanged(x: &mut Exchange, head: &ResponseHead, field: &[u8]) {
    x.clear_response();
    x.disposition.set_status(head.status);
    if head.reason() != reason(head.status).as_bytes() {
        x.response.reason = Some(Bytes::copy_from_slice(head.reason()));
    }
    let headers = &mut x.response.headers;
    headers.clone_from(&head.headers);
    headers.retain(|known, _, _| !NEVER_PASSED.contains(&known));
    headers.remove_named(field::NAME);
    headers.push(field::NAME, field);
    x.response.content_length =
        head.headers.first(Known::ContentLength).and_then(connection::parse_length);
    x.response.conditions = Conditions::Origin;
    x.delivery.date = FieldOwner::Origin;
    x.delivery.server = FieldOwner::Origin;
    x.delivery.filtering = Filtering::Unchanged;
    // `limit_rate` is about the clients, who may be many behind one request of a peer.
    x.limit_rate = Some(0);
}

fn intercepts(x: &Exchange, status: u16) -> bool {
    status >= 300 && x.settings().error_pages.iter().any(|page| page.code == status)
}

/// Lets `error_page` respond in the origin's place; a 401 keeps the challenge that the client must respond to.
fn intercept(x: &mut Exchange, head: ResponseHead) -> Step<'static> {
    let status = head.status;
    x.clear_response();
    if status == 401 {
        for value in head.headers.all(Known::WwwAuthenticate) {
            x.preserved_headers.push_known(Known::WwwAuthenticate, value);
        }
    }
    remember(x, head);
    GatewayState::leave(x);
    Step::Status(status)
}

/// Redirects to another location by `X-Accel-Redirect`.
fn internal_redirect(x: &mut Exchange, head: ResponseHead, place: &[u8]) -> Step<'static> {
    // Those of an earlier redirect are replaced, but for cookies.
    for name in PRESERVED {
        if name != b"Set-Cookie"
            && head.headers.iter().any(|(_, own, _)| name.eq_ignore_ascii_case(own))
        {
            x.preserved_headers.remove_named(name);
        }
    }
    for (_, name, value) in head.headers.iter() {
        if PRESERVED.iter().any(|preserved| preserved.eq_ignore_ascii_case(name)) {
            x.preserved_headers.push(name, value);
        }
    }
    remember(x, head);
    serve::note_redirect(x);
    GatewayState::leave(x);
    x.progress.action = READING_HEAD;
    if place.starts_with(b"@") {
        return Step::Jump(Jump::Named(place.to_vec()));
    }
    x.request.become_get();
    let (path, args) = error_page::split_args(place.to_vec());
    let mut decoded = Vec::with_capacity(path.len());
    uri::unescape(&path, &mut decoded);
    if is_unsafe(&decoded) {
        x.log(
            tidegate_core::Level::Error,
            format_args!("unsafe URI \"{}\" was detected", String::from_utf8_lossy(place)),
        );
        x.preserved_headers.clear();
        return Step::Status(404);
    }
    Step::Jump(Jump::Path { path: decoded, args })
}

/// Returns whether a path leads out of its root, or holds a zero byte.
fn is_unsafe(path: &[u8]) -> bool {
    path.is_empty()
        || path.contains(&0)
        || path.split(|byte| *byte == b'/').any(|segment| segment == b"..")
}
