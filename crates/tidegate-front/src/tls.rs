//! TLS termination: the `ssl` directives, the choice of a certificate by name, handshakes, sessions. Values go to
//! `tidegate-tls`, which alone names the TLS library.
//!
//! | file | what |
//! |---|---|
//! | conf, trust_rows | directives and how they inherit |
//! | server | from directives to one server's settings |
//! | client | clients' certificates: requested, verified, refused |
//! | keys | certificates and private keys from PEM |
//! | key_log | secrets of connections, written to a file |
//! | chosen | those that variables name, loaded for each handshake |
//! | stapling | OCSP responses for our certificates |
//! | ocsp | whether clients' certificates were revoked, by OCSP |
//! | challenges | validations of ACME by tls-alpn-01 |
//! | handshake | from a socket to a stream and what is known of it |
//! | quic | the same over QUIC |
//! | variables | `$ssl_*` |

mod challenges;
mod chosen;
mod client;
mod conf;
mod figures;
mod handshake;
mod key_log;
mod keys;
mod ocsp;
pub(crate) mod quic;
mod server;
mod shared_zone;
mod stapling;
mod ticket_keys;
mod trust_rows;
mod variables;

use tidegate_core::variables::Variable;
use tidegate_plan::Module;
use tidegate_plan::module::{BlockInfo, Contexts, Diagnostic, Directive};
use tidegate_plan::{PlanBuilder, ServerBuilder};

pub use challenges::HandshakeChallenges;
pub(crate) use chosen::HandshakeOwner;
pub(crate) use client::{refusal, session_refusal};
pub(crate) use handshake::accept;
pub use keys::shown as shown_certificate;
pub(crate) use server::session_handshake_timeout;

/// `ngx_http_ssl_module` and `ngx_stream_ssl_module`: the `ssl_*` directives and variables, and the settings of each
/// server's handshakes.
pub struct Ssl;

impl Module for Ssl {
    type Conf = conf::Conf;
    const NAME: &'static str = "http_ssl";
    const DIRECTIVES: &'static [&'static [Directive<conf::Conf>]] = &[
        conf::CERTIFICATE_ROWS,
        trust_rows::CLIENT_ROWS,
        trust_rows::STAPLING_ROWS,
        trust_rows::OCSP_ROWS,
        conf::PROTOCOL_ROWS,
        conf::SESSION_ROWS,
        key_log::ROWS,
        conf::HTTP_ROWS,
        conf::SESSION_ONLY_ROWS,
    ];
    const VARIABLES: &'static [Variable] = variables::VARIABLES;
    const SESSION_VARIABLES: &'static [Variable] = variables::VARIABLES;

    fn inherit(child: &mut conf::Conf, parent: &conf::Conf, block: BlockInfo<'_>) {
        if block.context.intersects(Contexts::SERVER | Contexts::STREAM_SERVER) {
            conf::inherit(child, parent);
        }
    }

    fn prepare_http(conf: &conf::Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        plan.diagnostics.extend(conf.warnings.iter().cloned());
        server::check_listeners(plan);
        Ok(())
    }

    fn prepare_stream(conf: &conf::Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        Ssl::prepare_http(conf, plan)
    }

    fn prepare_server(
        conf: &conf::Conf,
        server: &mut ServerBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        server.plan.diagnostics.extend(conf.warnings.iter().cloned());
        let settings = server::compile(conf, server.outline, server.plan)?;
        server.plan.show(&settings);
        server.server.extensions.insert(settings);
        Ok(())
    }
}
