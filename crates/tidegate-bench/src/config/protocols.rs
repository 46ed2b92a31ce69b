//! The configuration of the suite protocols: one worker; HTTP/2 plain and by TLS, HTTP/3, and HTTP/2 to the origin.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::OnceLock;

use super::fairness::Port;
use super::{FIXED_BODY, GENERATION, Setup, temporary, user};
use crate::h2::client::ECHO;
use crate::pattern;

/// Addresses beside the server's own, and the parts of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// HTTP/2 by prior knowledge.
    pub plain: Port,
    /// TLS with a certificate of ECDSA.
    pub ecdsa: Port,
    /// TLS with a certificate of RSA.
    pub rsa: Port,
    /// The origin that takes HTTP/2.
    pub origin: Port,
    pub part: Part,
    pub form: Form,
    /// HTTP/3, where a case needs it.
    pub quic: Option<Quic>,
}

/// A listener of HTTP/3, with the certificate of ECDSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quic {
    pub port: Port,
    /// `quic_gso on`; without it the server's default.
    pub gso: bool,
    /// Two workers at first, then four, then two, by the number of the configuration; else one.
    pub several: bool,
}

/// The function that a case needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// `return` and files.
    Front,
    /// The same with timeouts of two seconds for clients that do not read.
    Impatient,
    /// A proxy by `proxy_http_version 2`.
    Proxy,
    /// A proxy by `grpc_pass`.
    Grpc,
}

/// How HTTP/2 is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `http2 on`, since nginx 1.25.1.
    Directive,
    /// A parameter of `listen`, before.
    Listen,
    /// Not at all: there is TLS alone.
    Absent,
}

/// A file beside the small and the large one: name and size.
pub(crate) const MEDIUM_FILE: (&str, u64) = ("medium.bin", 16 * 1024);
/// The location with the short text.
pub(crate) const TINY: &str = "/return";
/// The name in both certificates.
pub(crate) const NAME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Certificate and key, made once for all servers.
pub(crate) struct Pair {
    pub certificate: String,
    key: String,
}

/// The text of nginx.conf.
pub(crate) fn generate(setup: &Setup<'_>, places: Places) -> String {
    let Places { plain, ecdsa, rsa, origin, part, form, quic } = places;
    let directory = setup.directory.display();
    let (listen, user, number) = (setup.listen, user(setup), setup.generation);
    let (connections, temporary) = (setup.worker_connections, temporary(setup));
    let descriptors = match setup.privileged {
        true => format!("worker_rlimit_nofile {};\n", connections * 2 + 512),
        false => String::new(),
    };
    let watchdog = match setup.watchdog {
        true => format!("loop_watchdog {}ms;\n", super::LONG_TURN_MILLIS),
        false => String::new(),
    };
    let (directive, parameter) = match form {
        Form::Directive => ("        http2 on;\n", ""),
        Form::Listen => ("", " http2"),
        Form::Absent => ("", ""),
    };
    let patience = match part {
        Part::Impatient => "    send_timeout 2s;\n    client_body_timeout 2s;\n",
        _ => "",
    };
    let upstream = match part {
        Part::Front | Part::Impatient => String::new(),
        Part::Proxy | Part::Grpc => {
            format!(
                "    upstream origin {{\n        server {origin};\n        keepalive 64;\n    }}\n"
            )
        }
    };
    let locations = format!(
        "        root {directory}/html;\n\
         \x20       location = {TINY} {{ return 200 \"{FIXED_BODY}\"; }}\n\
         \x20       location = {GENERATION} {{ return 200 \"{number}\"; }}\n{}",
        passed(part)
    );
    let tls = |port: Port, kind: &str| {
        format!(
            "    server {{\n        listen {port} ssl{parameter};\n{directive}\
             \x20       ssl_certificate {directory}/{kind}.pem;\n\
             \x20       ssl_certificate_key {directory}/{kind}.key;\n{locations}    }}\n"
        )
    };
    let (ecdsa, rsa) = (tls(ecdsa, ECDSA), tls(rsa, RSA));
    let http3 = quic.map_or(String::new(), |quic| http3(setup, quic, &locations));
    let workers = quic.filter(|quic| quic.several).map_or(1, |_| workers(number));
    format!(
        "daemon off;\n{user}worker_processes {workers};\n{descriptors}{watchdog}pid {directory}/server.pid;\n\
         error_log {directory}/error.log warn;\n\
         events {{\n    worker_connections {connections};\n}}\n\
         http {{\n    access_log off;\n{temporary}    sendfile on;\n    tcp_nopush on;\n\
         \x20   open_file_cache max=1000;\n    keepalive_requests 1000000000;\n    keepalive_time 1h;\n\
         \x20   ssl_protocols TLSv1.2 TLSv1.3;\n{patience}{upstream}\
         \x20   server {{\n        listen {listen};\n{locations}    }}\n\
         \x20   server {{\n        listen {plain}{parameter};\n{directive}{locations}    }}\n\
         {ecdsa}{rsa}{http3}}}\n"
    )
}

/// The server of HTTP/3. All servers do the same cryptography: the group is X25519, as over TCP.
fn http3(setup: &Setup<'_>, quic: Quic, locations: &str) -> String {
    let Quic { port, gso, several } = quic;
    let directory = setup.directory.display();
    // Several workers have a socket each.
    let reuseport = if several { " reuseport" } else { "" };
    let gso = if gso { "        quic_gso on;\n" } else { "" };
    format!(
        "    server {{\n        listen {port} quic{reuseport};\n{gso}\
         \x20       ssl_certificate {directory}/{ECDSA}.pem;\n\
         \x20       ssl_certificate_key {directory}/{ECDSA}.key;\n\
         \x20       ssl_ecdh_curve X25519;\n{locations}    }}\n"
    )
}

/// The workers of a configuration of [`Quic::several`]: 2, then 4, then 2 again.
fn workers(generation: u32) -> u32 {
    match generation {
        0..MORE_WORKERS_FROM | FEWER_WORKERS_FROM.. => 2,
        _ => 4,
    }
}

/// The locations of the origin.
fn passed(part: Part) -> String {
    match part {
        Part::Front | Part::Impatient => String::new(),
        Part::Proxy => ["/bytes", "/slow"]
            .map(|path| {
                // What a slow client does not take is held back at the origin, not written to a file.
                format!(
                    "        location {path} {{ proxy_pass http://origin; proxy_http_version 2; \
                     proxy_max_temp_file_size 0; }}\n"
                )
            })
            .concat(),
        Part::Grpc => format!("        location = {ECHO} {{ grpc_pass grpc://origin; }}\n"),
    }
}

/// Writes the files that are served, below the prefix.
///
/// # Errors
/// Those of the disk, and of making certificates.
pub(crate) fn prepare(directory: &Path) -> io::Result<()> {
    let (name, bytes) = MEDIUM_FILE;
    let body = pattern::body(format!("/{name}").as_bytes(), bytes);
    fs::write(directory.join("html").join(name), body)?;
    for (pair, kind) in [(ecdsa()?, ECDSA), (rsa()?, RSA)] {
        fs::write(directory.join(kind).with_extension("pem"), &pair.certificate)?;
        fs::write(directory.join(kind).with_extension("key"), &pair.key)?;
    }
    Ok(())
}

/// The certificate of P-256.
///
/// # Errors
/// It cannot be made.
pub(crate) fn ecdsa() -> io::Result<&'static Pair> {
    static PAIR: OnceLock<Result<Pair, String>> = OnceLock::new();
    made(&PAIR, rcgen::KeyPair::generate)
}

/// The certificate of RSA, 2048 bits.
///
/// # Errors
/// It cannot be made.
pub(crate) fn rsa() -> io::Result<&'static Pair> {
    static PAIR: OnceLock<Result<Pair, String>> = OnceLock::new();
    made(&PAIR, || {
        rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048)
    })
}

fn made(
    place: &'static OnceLock<Result<Pair, String>>,
    key: impl FnOnce() -> Result<rcgen::KeyPair, rcgen::Error>,
) -> io::Result<&'static Pair> {
    let make = || -> Result<Pair, rcgen::Error> {
        let key = key()?;
        let certificate = rcgen::CertificateParams::new([NAME.to_string()])?.self_signed(&key)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    };
    let made = place.get_or_init(|| make().map_err(|error| error.to_string()));
    made.as_ref().map_err(|error| io::Error::other(error.as_str()))
}

/// Numbers of the configurations with four workers: from the first to before the second.
const MORE_WORKERS_FROM: u32 = 9;
const FEWER_WORKERS_FROM: u32 = 17;
const ECDSA: &str = "ecdsa";
const RSA: &str = "rsa";
