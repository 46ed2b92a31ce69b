//! The `$proxy_*` variables.

use tidegate_core::Exchange;
use tidegate_core::variables::Variable;
use tidegate_http::Known;

use crate::http::gateway::state::GatewayState;

pub const VARIABLES: &[Variable] = &[
    Variable::fixed("proxy_host", |x, out| text(x, out, |state| &state.host)),
    Variable::fixed("proxy_port", |x, out| text(x, out, |state| &state.port)),
    Variable::fixed("proxy_add_x_forwarded_for", add_x_forwarded_for),
];

fn text(x: &mut Exchange, out: &mut Vec<u8>, of: fn(&GatewayState) -> &[u8]) -> bool {
    match x.extensions.of::<GatewayState>() {
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
