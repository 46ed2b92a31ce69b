//! `acme_issuer`, `acme_certificate`: certificates that the server orders and renews itself (ACME, RFC 8555).
//!
//! ```nginx
//! acme_issuer letsencrypt {
//!     uri https://acme-v02.api.letsencrypt.org/directory;
//!     contact admin@example.com;
//!     state_path /var/lib/nginx/acme;
//!     accept_terms_of_service;
//! }
//! server {
//!     listen 443 ssl;
//!     server_name example.com;
//!     acme_certificate letsencrypt;
//!     ssl_certificate $acme_certificate;
//!     ssl_certificate_key $acme_certificate_key;
//! }
//! ```
//!
//! | file | contents |
//! |---|---|
//! | rows | directives |
//! | auto | `acme auto`: what it stands for |
//! | names | the names of a certificate |
//! | issuer | from an `acme_issuer` block to the settings of its run |
//! | plan | issuers with their certificates, for all servers |
//! | issuance | what outlives reloads: the state in memory, and the wish of the current configuration |
//! | run | the task that does the steps of `tidegate-acme` |
//! | https | requests to the ACME server |
//! | store | files and their lock |
//! | certificates | the certificates in use |
//! | dns | the program of dns-01 |
//! | challenges | validations in progress, and responses to them |

mod auto;
mod certificates;
mod challenges;
mod dns;
mod https;
mod issuance;
mod issuer;
mod names;
mod plan;
mod rows;
mod run;
mod store;
#[cfg(test)]
mod tests;

use tidegate_conf::{Contexts, Diagnostic, Directive, Statement};
use tidegate_core::variables::Variable;
use tidegate_core::{Exchange, Phase};
use tidegate_plan::module::{BlockRow, Module};
use tidegate_plan::{LocationBuilder, Machine, PlanBuilder, ServerBuilder};

use certificates::{Part, ServerCertificate};
use plan::Prepared;

/// `ngx_http_acme_module`.
pub(crate) struct Acme;

impl Module for Acme {
    type Conf = rows::Conf;
    const NAME: &'static str = "acme";
    const DIRECTIVES: &'static [&'static [Directive<rows::Conf>]] =
        &[rows::HTTP_ROWS, rows::ISSUER_ROWS, rows::SERVER_ROWS, auto::ROWS];
    const BLOCKS: &'static [BlockRow] =
        &[BlockRow { name: "acme_issuer", within: Contexts::HTTP, opens: Contexts::ACME_ISSUER }];
    const VARIABLES: &'static [Variable] = VARIABLES;

    fn expand(
        http: &[Statement],
        machine: &Machine,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Vec<Statement>> {
        auto::expand(http, machine.ipv6, diagnostics)
    }

    fn prepare_http(_conf: &rows::Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        plan::prepare(plan)
    }

    fn prepare_server(
        _conf: &rows::Conf,
        server: &mut ServerBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        let prepared = server.plan.shared::<Prepared>();
        if let Some(own) = prepared.certificates.get(&server.outline.span) {
            server.server.extensions.insert(own.clone());
        }
        if let Some(challenges) = &prepared.challenges {
            server.server.extensions.insert(challenges.handshakes.clone());
        }
        Ok(())
    }

    fn prepare(
        _conf: &rows::Conf,
        location: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        if !location.context().intersects(Contexts::SERVER) {
            return Ok(());
        }
        if let Some(challenges) = location.plan.shared::<Prepared>().challenges.clone() {
            // Before any rule of a server: redirects, limits and checks must not hide it.
            location.handler(Phase::PostRead, Box::new(move |x| challenges.respond(x)));
        }
        Ok(())
    }
}

const VARIABLES: &[Variable] = &[
    Variable::fixed(
        "acme_certificate",
        "Certificate of the server's `acme_certificate`, for `ssl_certificate`; empty while there is none.",
        |x, out| append(x, Part::Chain, out),
    ),
    Variable::fixed(
        "acme_certificate_key",
        "Private key of the server's `acme_certificate`, for `ssl_certificate_key`; empty while there is none.",
        |x, out| append(x, Part::Key, out),
    ),
];

fn append(x: &mut Exchange, part: Part, out: &mut Vec<u8>) -> bool {
    let plan = x.plan.clone();
    let own = plan.server(x.routing.server).extensions.of::<ServerCertificate>();
    own.is_some_and(|own| own.append(part, out))
}
