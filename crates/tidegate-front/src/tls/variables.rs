//! `$ssl_*`.

use std::fmt::Write as _;

use tidegate_core::Exchange;
use tidegate_core::client::TlsInfo;
use tidegate_core::variables::Variable;

use super::{ciphers, curves};

pub(super) const VARIABLES: &[Variable] = &[
    Variable::fixed("ssl_protocol", |x, out| put(x, out, |tls| Some(tls.protocol))),
    Variable::fixed("ssl_cipher", |x, out| put(x, out, |tls| Some(tls.cipher))),
    Variable::fixed("ssl_curve", |x, out| put(x, out, |tls| Some(tls.curve))),
    Variable::fixed("ssl_ciphers", |x, out| {
        put_list(x, out, |tls| &tls.offered_ciphers, ciphers::name)
    }),
    Variable::fixed("ssl_curves", |x, out| {
        put_list(x, out, |tls| &tls.offered_groups, curves::name)
    }),
    Variable::fixed("ssl_session_reused", |x, out| {
        put(x, out, |tls| Some(if tls.session_reused { "r" } else { "." }))
    }),
    Variable::fixed("ssl_server_name", |x, out| put(x, out, |tls| tls.server_name.as_deref())),
    Variable::fixed("ssl_alpn_protocol", |x, out| put(x, out, |tls| tls.alpn.as_deref())),
    // Without client certificates.
    Variable::fixed("ssl_client_verify", |x, out| put(x, out, |_| Some("NONE"))),
    // The library does not tell session ids, and early data is never accepted.
    Variable::fixed("ssl_session_id", nothing),
    Variable::fixed("ssl_early_data", nothing),
    Variable::fixed("ssl_client_cert", nothing),
    Variable::fixed("ssl_client_raw_cert", nothing),
    Variable::fixed("ssl_client_escaped_cert", nothing),
    Variable::fixed("ssl_client_s_dn", nothing),
    Variable::fixed("ssl_client_i_dn", nothing),
    Variable::fixed("ssl_client_s_dn_legacy", nothing),
    Variable::fixed("ssl_client_i_dn_legacy", nothing),
    Variable::fixed("ssl_client_serial", nothing),
    Variable::fixed("ssl_client_fingerprint", nothing),
    Variable::fixed("ssl_client_v_start", nothing),
    Variable::fixed("ssl_client_v_end", nothing),
    Variable::fixed("ssl_client_v_remain", nothing),
];

/// Names of variables that need the client's lists, which are otherwise not kept.
pub(super) const CIPHERS: &str = "ssl_ciphers";
pub(super) const CURVES: &str = "ssl_curves";

fn nothing(_: &mut Exchange, _: &mut Vec<u8>) -> bool {
    false
}

fn put(x: &mut Exchange, out: &mut Vec<u8>, value: fn(&TlsInfo) -> Option<&str>) -> bool {
    let value = x.connection.tls.as_deref().and_then(value).filter(|text| !text.is_empty());
    value.map(|text| out.extend_from_slice(text.as_bytes())).is_some()
}

/// A list as nginx shows it: names where OpenSSL has some, else numbers, with colons between.
fn put_list(
    x: &mut Exchange,
    out: &mut Vec<u8>,
    list: fn(&TlsInfo) -> &[u16],
    name: fn(u16) -> Option<&'static str>,
) -> bool {
    let Some(tls) = x.connection.tls.as_deref() else { return false };
    let mut text = String::new();
    for number in list(tls) {
        let separator = if text.is_empty() { "" } else { ":" };
        let _ = match name(*number) {
            Some(name) => write!(text, "{separator}{name}"),
            None => write!(text, "{separator}0x{number:04x}"),
        };
    }
    out.extend_from_slice(text.as_bytes());
    !text.is_empty()
}
