//! From a received head to an exchange and the future of its request.

use std::rc::Rc;

use tidegate_codec::request::RequestError;
use tidegate_core::Exchange;
use tidegate_h2::{HeadFault, StreamId};
use tidegate_rt::clock;

use super::connection::Multiplexer;
use super::exchange;
use super::stream::Stream;
use super::table::Request;
use crate::front::Front;
use crate::link::Link;
use crate::serve::begin::{self, Refusal};
use crate::serve::stream_body;
use crate::serve::streams::{self, Begun};

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
    let Some(servers) = begin::at_base_server(link.binding(), &x.connection, &plan, &mut x.routing)
    else {
        front.give_back(scratch);
        return None;
    };
    begin::first_byte(front, x, clock::batch_now());
    x.progress.action = "processing HTTP/2 connection";
    let composed = compose(multiplexer, x, &stream);
    let begun = match (fault, composed) {
        (Some(fault), _) => streams::malformed(link.binding(), x, fault),
        (None, Err(error)) => streams::refuse(link.binding(), x, &error),
        (None, Ok(())) => match begin::request(link.binding(), servers, x) {
            Ok(framing) => {
                // What an extended CONNECT sends is not the body of a request.
                stream_body::attach(x, &stream, framing, end || stream.is_extended());
                x.progress.action = "";
                match link.serves_http2_by(&plan, x.routing.server) {
                    true => Begun::Request,
                    false => streams::misdirected(x, "HTTP/2"),
                }
            }
            Err(Refusal::Head(error)) => streams::refuse(link.binding(), x, &error),
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
    let (composed, is_extended) = streams::compose(multiplexer.core().head(), x);
    stream.set_extended(is_extended);
    composed
}
