//! What happens before the first request: PROXY protocol, then TLS.

use std::rc::Rc;
use std::time::Duration;

use tidegate_core::client::{Connection, ProxyProtocol};
use tidegate_core::error_log::Level;
use tidegate_core::plan::Plan;
use tidegate_http::proxy_protocol::{self, ParsedProxy};
use tidegate_rt::net::Stream;
use tidegate_rt::timer::timeout;

use crate::conn::ListenerRef;
use crate::front::Front;
use crate::io::Io;

/// Brings a new connection to the point where HTTP begins, within the default server's
/// `client_header_timeout`: its byte stream, what is known of it, and bytes already received, of which
/// `input` is the first.
pub async fn start(
    front: &Rc<Front>,
    stream: Rc<Stream>,
    mut info: Connection,
    mut input: Vec<u8>,
    listener_ref: ListenerRef,
) -> Option<(Io, Connection, Vec<u8>)> {
    // The one that `listener_ref` belongs to: nothing has been waited for.
    let plan = front.plan();
    let limit = header_timeout(&plan, listener_ref);
    let (tls, with_proxy_protocol) = listener_ref.transport(&plan)?;
    if with_proxy_protocol {
        match timeout(limit, read_proxy_header(&stream, &mut input)).await {
            Ok(Ok(header)) => info.proxy_protocol = Some(Box::new(header)),
            Ok(Err(())) => {
                let log = &plan.main.error_log;
                let text = "broken header while reading PROXY protocol";
                log.write(
                    Level::Error,
                    info.number,
                    &format!("{text}, client: {}", info.peer_text()),
                );
                return None;
            }
            Err(_) => return None,
        }
    }
    if !tls {
        return Some((Io::Plain(stream), info, input));
    }
    crate::tls::accept(plan, stream, info, listener_ref, input, limit).await
}

/// The default server's `client_header_timeout`.
pub fn header_timeout(plan: &Plan, listener_ref: ListenerRef) -> Duration {
    let servers = listener_ref.servers(plan);
    servers.map_or(Duration::ZERO, |servers| {
        plan.server(servers.default).settings.client_header_timeout
    })
}

pub(crate) async fn read_proxy_header(
    stream: &Stream,
    input: &mut Vec<u8>,
) -> Result<ProxyProtocol, ()> {
    loop {
        match proxy_protocol::parse(input).map_err(drop)? {
            ParsedProxy::Partial if input.len() >= proxy_protocol::HEADER_BYTES_MAX => {
                return Err(());
            }
            ParsedProxy::Partial => {}
            ParsedProxy::Complete(header, length) => {
                input.drain(..length);
                let (client, server) = header.addresses.unzip();
                return Ok(ProxyProtocol { client, server, tlvs: header.tlvs });
            }
        }
        input.reserve(512);
        match stream.read_append(input).await {
            Ok(count) if count > 0 => {}
            _ => return Err(()),
        }
    }
}
