//! `ssl_preread`: the ClientHello of a TLS client, read before its bytes are passed on unchanged.
//!
//! ```nginx
//! map $ssl_preread_server_name $backend { a.example.com 192.0.2.1:443; default 192.0.2.2:443; }
//! server { listen 443; ssl_preread on; proxy_pass $backend; }
//! ```

use tidegate_codec::client_hello::{self, ClientHello, ParsedHello, version_name};
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::session::read_more;
use tidegate_core::variables::Variable;
use tidegate_core::{Exchange, Phase, Step};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

/// `ngx_stream_ssl_preread_module`.
pub(crate) struct SslPreread;

/// The directive of one block.
#[derive(Default)]
pub(crate) struct Conf {
    on: Option<bool>,
}

impl Module for SslPreread {
    type Conf = Conf;
    const NAME: &'static str = "ssl_preread";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "ssl_preread",
        Contexts::STREAM_AND_SERVER,
        Arity::FLAG,
        "off",
        "Whether the first message of TLS clients is read before the session is passed on.",
        |conf: &mut Conf, args| once(&mut conf.on, args.flag(0)?, args),
    )]];
    const SESSION_VARIABLES: &'static [Variable] = &[
        Variable::fixed(
            "ssl_preread_protocol",
            "Highest version of TLS that the client offers.",
            |x, out| put(x, out, |hello| version_name(hello.version).as_bytes().to_vec()),
        ),
        Variable::fixed(
            "ssl_preread_server_name",
            "Server name that the client requests (SNI).",
            |x, out| put(x, out, |hello| hello.server_name.clone()),
        ),
        Variable::fixed(
            "ssl_preread_alpn_protocols",
            "Protocols that the client offers by ALPN, joined by `,`.",
            |x, out| put(x, out, |hello| hello.alpn.join(&b',')),
        ),
    ];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.on = child.on.or(parent.on);
    }

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        if conf.on.unwrap_or(false) {
            server.handler(Phase::Precontent, Box::new(|x| Step::Wait(Box::pin(read_hello(x)))));
        }
        Ok(())
    }
}

/// Reads until the ClientHello is complete, or turns out not to be one.
///
/// Invariant: nothing is taken from the session's input, which the content handler passes on. Of datagrams only the
/// first is parsed. Bounded by `preread_buffer_size` and `preread_timeout` (in `read_more`); dropped there, the
/// session keeps what was received. Sources: `ssl_preread`, RFC 8446 section 4.1.2, RFC 6066 section 3.
async fn read_hello(x: &mut Exchange) -> Step<'static> {
    loop {
        let Some(session) = x.session() else { return Step::Decline };
        match client_hello::parse(&session.input) {
            Ok(ParsedHello::Complete(hello)) => {
                // The server is chosen by this name.
                let host = tidegate_codec::request::parse_host(&hello.server_name);
                x.request.host = host.map_or_else(Vec::new, |host| host.as_bytes().to_vec());
                x.modules.extensions.insert(hello);
                return Step::Decline;
            }
            Err(client_hello::NotHello) => return Step::Decline,
            Ok(ParsedHello::Partial) if session.is_datagram() => return Step::Decline,
            Ok(ParsedHello::Partial) => {
                if let Err(step) = read_more(x).await {
                    return step;
                }
            }
        }
    }
}

fn put(x: &mut Exchange, out: &mut Vec<u8>, value: fn(&ClientHello) -> Vec<u8>) -> bool {
    match x.modules.extensions.of::<ClientHello>() {
        Some(hello) => {
            out.extend_from_slice(&value(hello));
            true
        }
        None => false,
    }
}
