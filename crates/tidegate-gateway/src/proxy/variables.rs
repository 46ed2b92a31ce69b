//! The `$proxy_*` variables.

use tidegate_core::Exchange;
use tidegate_core::variables::Variable;
use tidegate_http::Known;

use crate::common::state::GatewayState;

pub(super) const VARIABLES: &[Variable] = &[
    Variable::replaceable("proxy_host", |x, out| text(x, out, |state| &state.host)),
    Variable::replaceable("proxy_port", |x, out| text(x, out, |state| &state.port)),
    Variable::fixed("proxy_add_x_forwarded_for", add_x_forwarded_for),
    // nginx's own notes, which have no value outside of it: their names are taken all the same.
    Variable::fixed("proxy_internal_body_length", |_, _| false),
    Variable::fixed("proxy_internal_chunked", |_, _| false),
    Variable::fixed("grpc_internal_trailers", |_, _| false),
];

fn text(x: &mut Exchange, out: &mut Vec<u8>, of: fn(&GatewayState) -> &[u8]) -> bool {
    match x.modules.extensions.of::<GatewayState>() {
        Some(state) => {
            out.extend_from_slice(of(state));
            true
        }
        None => false,
    }
}

/// The client's `X-Forwarded-For` values with the client's address behind them.
fn add_x_forwarded_for(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    for value in x.request.head.headers.all(Known::XForwardedFor) {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(x.client_text().as_bytes());
    true
}
