//! From a received head to an exchange and the future of its request.

use std::rc::Rc;

use tidegate_codec::request::{ComposedHead, Method, RequestError, RequestFault, Version};
use tidegate_core::Exchange;
use tidegate_core::error_log::Level;
use tidegate_core::request_body::RequestBody;
use tidegate_h2::{HeadFault, StreamId};
use tidegate_rt::clock;

use super::body::H2Body;
use super::connection::Multiplexer;
use super::exchange;
use super::stream::Stream;
use super::table::Request;
use super::tunnel;
use crate::front::Front;
use crate::link::Link;
use crate::serve::begin::{self, BodyFraming, Refusal};

/// nginx's status for a head that is too large; the client gets 400.
const TOO_LARGE: u16 = 494;
/// The status of a request for a server that does not serve this protocol on a connection made for another one (RFC
/// 9110 section 15.5.20).
const MISDIRECTED: u16 = 421;

/// What is known of a head when its request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// A request for the phases.
    Request,
    /// It is refused with this status.
    Refused(u16),
}

/// Makes a request of the head that the protocol has just reported; `end` where no body follows. `None` if the plan no
/// longer has the listener: nothing is served on this connection any more.
pub(super) fn begin(
    front: &Rc<Front>,
    link: &Rc<Link>,
    multiplexer: &Rc<Multiplexer>,
    id: StreamId,
    end: bool,
    fault: Option<HeadFault>,
) -> Option<(Rc<Stream>, Request)> {
    let mut scratch = front.scratch();
    let stream = scratch.attach_stream(link, multiplexer, id);
    let x = &mut scratch.exchange;
    let plan = x.plan.clone();
    let Some(servers) = begin::at_base_server(link, &plan, &mut x.routing) else {
        front.give_back(scratch);
        return None;
    };
    begin::first_byte(front, x, clock::batch_now());
    x.progress.action = "processing HTTP/2 connection";
    let composed = compose(multiplexer, x, &stream);
    let begun = match (fault, composed) {
        (Some(fault), _) => malformed(link, x, fault),
        (None, Err(error)) => refuse(link, x, &error),
        (None, Ok(())) => match begin::request(link, servers, x) {
            Ok(framing) => {
                attach_body(x, &stream, framing, end);
                x.progress.action = "";
                match link.serves_http2_by(&plan, x.routing.server) {
                    true => Begun::Request,
                    false => misdirected(x),
                }
            }
            Err(Refusal::Head(error)) => refuse(link, x, &error),
            Err(refusal) => Begun::Refused(refusal.status()),
        },
    };
    x.disposition.keep_connection();
    let request = exchange::run(front.clone(), link.clone(), stream.clone(), scratch, begun);
    Some((stream, Box::pin(request)))
}

/// Takes the head from the protocol.
fn compose(
    multiplexer: &Multiplexer,
    x: &mut Exchange,
    stream: &Stream,
) -> Result<(), RequestError> {
    let mut core = multiplexer.core();
    let head = core.head();
    let upgrade = tunnel::as_upgrade(head);
    stream.set_extended(upgrade.is_some());
    x.outcome.request_length = head.block_bytes.into();
    x.request.head.compose(ComposedHead {
        line: head.line,
        method: upgrade.unwrap_or(head.method),
        target: head.target,
        headers: &mut head.headers,
        ignored_lines: &mut head.ignored,
        version: Version::H2,
    })
}

fn attach_body(x: &mut Exchange, stream: &Rc<Stream>, framing: BodyFraming, end: bool) {
    // What an extended CONNECT sends is not the body of a request.
    if end || stream.is_extended() {
        x.request.body.length = framing.length;
        return;
    }
    let timeout = x.settings().client_body_timeout;
    let source = H2Body::new(stream.clone(), x.request.expects_continue, timeout);
    let is_open_ended = framing.length.is_none();
    let body = RequestBody::new(framing.length, is_open_ended, Box::new(source));
    x.request.body = body.until_end();
}

/// The server that the request names has HTTP/2 off.
#[cold]
fn misdirected(x: &Exchange) -> Begun {
    x.log(
        Level::Info,
        format_args!("client attempted to request the server name for which HTTP/2 is disabled"),
    );
    Begun::Refused(MISDIRECTED)
}

/// Returns the status for a malformed head, in nginx's statuses.
#[cold]
fn malformed(link: &Rc<Link>, x: &mut Exchange, fault: HeadFault) -> Begun {
    begin::identify(link, x);
    let status = match fault {
        HeadFault::TooLarge => {
            x.log(Level::Info, format_args!("client sent too large request"));
            TOO_LARGE
        }
        HeadFault::TooMany => {
            x.log(Level::Info, format_args!("client sent too many header lines"));
            400
        }
        // It has a path, which CONNECT may not have; it is not served either way.
        HeadFault::PseudoUnknown if x.request.method == Method::Connect => {
            x.log(Level::Info, format_args!("client sent CONNECT method"));
            405
        }
        _ => {
            x.log(Level::Info, format_args!("client sent invalid request: {fault}"));
            fault.status()
        }
    };
    Begun::Refused(status)
}

#[cold]
fn refuse(link: &Rc<Link>, x: &mut Exchange, error: &RequestError) -> Begun {
    begin::identify(link, x);
    if error.fault == RequestFault::TargetHostInvalid {
        begin::forget_fields(link, x);
    }
    let message = error.message(x.request.head.headers.text());
    x.log(Level::Info, format_args!("{message}"));
    Begun::Refused(error.status())
}
