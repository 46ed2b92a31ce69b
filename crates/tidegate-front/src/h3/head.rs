//! From a received head to an exchange and the future of its request.

use std::rc::Rc;

use tidegate_codec::request::RequestError;
use tidegate_core::Exchange;
use tidegate_h3::HeadFault;
use tidegate_rt::clock;

use super::connection::QuicLink;
use super::directives::Http3Server;
use super::exchange::{self, Request};
use super::stream::Stream;
use crate::front::Front;
use crate::serve::begin::{self, Refusal};
use crate::serve::stream_body;
use crate::serve::streams::{self, Begun};

/// Makes a request of the head that the protocol has just reported; `end` where no body follows. `None` if the plan no
/// longer has the listener: nothing is served on this connection any more.
pub(super) fn begin(
    front: &Rc<Front>,
    link: &Rc<QuicLink>,
    id: u64,
    end: bool,
    fault: Option<HeadFault>,
) -> Option<(Rc<Stream>, Request)> {
    let mut scratch = front.scratch();
    let stream = Stream::new(link.clone(), id);
    scratch.attach_client(stream.clone(), link.info());
    let x = &mut scratch.exchange;
    let plan = x.plan.clone();
    let binding = &link.binding;
    let Some(servers) = begin::at_base_server(binding, &x.connection, &plan, &mut x.routing) else {
        front.give_back(scratch);
        return None;
    };
    begin::first_byte(front, x, clock::batch_now());
    x.progress.action = "processing HTTP/3 connection";
    let composed = compose(link, x, &stream);
    let begun = match (fault, composed) {
        (Some(fault), _) => streams::malformed(binding, x, fault),
        (None, Err(error)) => streams::refuse(binding, x, &error),
        (None, Ok(())) => match begin::request(binding, servers, x) {
            Ok(framing) => {
                // What an extended CONNECT sends is not the body of a request.
                stream_body::attach(x, &stream, framing, end || stream.is_extended());
                x.progress.action = "";
                match serves_http3(x) {
                    true => Begun::Request,
                    false => streams::misdirected(x, "HTTP/3"),
                }
            }
            Err(Refusal::Head(error)) => streams::refuse(binding, x, &error),
            Err(refusal) => Begun::Refused(refusal.status()),
        },
    };
    x.disposition.keep_connection();
    let request = exchange::run(front.clone(), link.clone(), stream.clone(), scratch, begun);
    Some((stream, Box::pin(request)))
}

/// Takes the head from the protocol.
fn compose(link: &QuicLink, x: &mut Exchange, stream: &Stream) -> Result<(), RequestError> {
    let Some((composed, is_extended)) = link.with_core(|core| streams::compose(core.head(), x))
    else {
        return Ok(());
    };
    stream.set_extended(is_extended);
    composed
}

/// Whether the server that is meant takes requests of this connection's protocol.
fn serves_http3(x: &Exchange) -> bool {
    let http3 = Http3Server::of(&x.plan, x.routing.server);
    http3.is_some_and(|http3| http3.serves(x.connection.protocol.get()))
}
