//! The `$proxy_*` variables.

use tidegate_codec::Known;
use tidegate_core::Exchange;
use tidegate_core::variables::Variable;

use crate::common::state::GatewayState;

pub(super) const VARIABLES: &[Variable] = &[
    Variable::replaceable("proxy_host", "Host and port of `proxy_pass`.", |x, out| {
        text(x, out, |state| &state.host)
    }),
    Variable::replaceable(
        "proxy_port",
        "Port of `proxy_pass`, or the default port of its scheme.",
        |x, out| text(x, out, |state| &state.port),
    ),
    Variable::fixed(
        "proxy_add_x_forwarded_for",
        "`X-Forwarded-For` fields of the request with `$remote_addr` behind them.",
        add_x_forwarded_for,
    ),
    // nginx's internal variables, without a value here; their names are reserved all the same.
    Variable::fixed(
        "proxy_internal_body_length",
        "Length of the body that is sent to the origin.",
        |_, _| false,
    ),
    Variable::fixed(
        "proxy_internal_chunked",
        "Value for the `Transfer-Encoding` field towards the origin.",
        |_, _| false,
    ),
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

/// Writes the client's `X-Forwarded-For` values with the client's address appended.
fn add_x_forwarded_for(x: &mut Exchange, out: &mut Vec<u8>) -> bool {
    for value in x.request.head.headers.all(Known::XForwardedFor) {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(x.client_text().as_bytes());
    true
}
