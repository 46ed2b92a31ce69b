//! Clients' certificates. As in nginx, every handshake is completed first; then the certificate is checked, and
//! requests (or the session) are refused where their server requires a better one.

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::Exchange;
use tidegate_core::client::{CertificateError, ClientCertificate};
use tidegate_core::error_log::Level;
use tidegate_plan::PlanBuilder;
use tidegate_tls::x509::VerifyError;
use tidegate_tls::{ClientTrust, ServerSettings, ShownCertificate, key_files};

use super::conf::{Conf, VerifyClient};
use super::server::TlsServer;

/// Statuses that only nginx uses.
const CERTIFICATE_ERROR: u16 = 495;
const NO_CERTIFICATE: u16 = 496;
const MISDIRECTED: u16 = 421;
/// nginx's default.
const DEPTH_DEFAULT: u64 = 1;

/// Compiles a server's settings for its clients' certificates; `None` if it requests none.
///
/// # Errors
/// The first mistake, in nginx's words.
pub(super) fn compile(
    conf: &Conf,
    plan: &PlanBuilder<'_>,
) -> Result<Option<ClientTrust>, Diagnostic> {
    let verify = conf.verify_client.unwrap_or_default();
    let given = |word: &Option<Word>| word.clone().filter(|word| !word.bytes.is_empty());
    let (own, further) = (given(&conf.client_certificate), given(&conf.trusted_certificate));
    if verify == VerifyClient::Off {
        return Ok(None);
    }
    if own.is_none() && further.is_none() && verify != VerifyClient::OptionalNoCa {
        let message = "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client";
        let place = conf.certificates.first().map(|word| word.span);
        let diagnostic = Diagnostic::emerg(message);
        return Err(match place {
            Some(span) => diagnostic.at(span),
            None => diagnostic,
        });
    }
    let read = |word: Option<Word>| {
        word.map_or(Ok(Vec::new()), |word| key_files::certificates(plan, &word))
    };
    let (announced, silent) = (read(own)?, read(further)?);
    let lists = match given(&conf.crl) {
        Some(word) => key_files::revocation_lists(plan, &word)?,
        None => Vec::new(),
    };
    let depth_max = conf.verify_depth.unwrap_or(DEPTH_DEFAULT);
    let trust = ClientTrust::new(&announced, &silent, &lists, depth_max);
    Ok(Some(trust.with_statuses(conf.ocsp.unwrap_or_default())))
}

/// Returns the certificate that a client has shown in a handshake with these settings, in the form of the request's
/// connection.
pub(super) fn shown(
    certificate: ShownCertificate,
    settings: &ServerSettings,
) -> Option<Box<ClientCertificate>> {
    let judge = settings.clients()?.identity();
    let fault = certificate.fault.map(plain);
    Some(Box::new(ClientCertificate { der: certificate.der, fault, judge }))
}

fn plain(fault: VerifyError) -> CertificateError {
    let (number, text) = fault.words();
    CertificateError { number, text, is_about_trust: fault.is_about_trust() }
}

/// Returns the status of the refusal of a request for its connection's certificate; it has been logged.
pub(crate) fn refusal(x: &mut Exchange) -> Option<u16> {
    x.connection.tls.as_deref()?;
    let action = std::mem::replace(&mut x.progress.action, "reading client request headers");
    let refused = if is_misdirected(x) {
        let text = "client attempted to request the server name different from the one that was \
                    negotiated";
        x.log(Level::Info, format_args!("{text}"));
        Some(MISDIRECTED)
    } else {
        let server = x.plan.server(x.routing.server).extensions.of::<TlsServer>();
        server.and_then(|server| shortcoming(x, server.verify_client))
    };
    x.progress.action = action;
    refused
}

/// Whether the handshake was made with another server than the request is for, where that matters.
fn is_misdirected(x: &Exchange) -> bool {
    let (Some(tls), Some(server)) =
        (x.connection.tls.as_deref(), x.plan.server(x.routing.server).extensions.of::<TlsServer>())
    else {
        return false;
    };
    if server.verify_client == VerifyClient::Off {
        return false;
    }
    let (host, name) = (&x.request.host, tls.server_name.as_deref().unwrap_or_default());
    let other_name =
        tls.server_named && !host.is_empty() && !host.eq_ignore_ascii_case(name.as_bytes());
    // A certificate was shown to the address's default server, which trusts other authorities than this one.
    let clients = server.settings.as_ref().and_then(ServerSettings::clients);
    let judges = (tls.client.as_deref(), clients);
    let other_judge = matches!(judges, (Some(shown), Some(own)) if shown.judge != own.identity());
    other_name || other_judge
}

/// Whether a session is refused for its connection's certificate; it has been logged.
pub(crate) fn session_refusal(x: &Exchange) -> bool {
    let server = x.plan.server(x.routing.server).extensions.of::<TlsServer>();
    server.is_some_and(|server| shortcoming(x, server.verify_client).is_some())
}

fn shortcoming(x: &Exchange, verify: VerifyClient) -> Option<u16> {
    let shown = x.connection.tls.as_deref()?.client.as_deref();
    let fault = shown.and_then(|shown| shown.fault);
    let allowed =
        |fault: CertificateError| verify == VerifyClient::OptionalNoCa && fault.is_about_trust;
    match (verify, fault) {
        (VerifyClient::Off, _) => None,
        (_, Some(fault)) if !allowed(fault) => {
            x.log(Level::Info, format_args!("client SSL certificate verify error: {fault}"));
            Some(CERTIFICATE_ERROR)
        }
        (VerifyClient::On, _) if shown.is_none() => {
            x.log(Level::Info, format_args!("client sent no required SSL certificate"));
            Some(NO_CERTIFICATE)
        }
        _ => None,
    }
}
