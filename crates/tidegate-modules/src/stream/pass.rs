//! `pass`: hands the connection to another listening address of the configuration, of `http` or `stream`.
//!
//! ```nginx
//! server { listen 443; ssl_preread on; pass 127.0.0.1:8443; }
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::{error, fmt};

use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_core::client::Address;
use tidegate_core::session::PassTo;
use tidegate_core::{Exchange, Level, Step, Template};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;
use tidegate_upstream::resolve::{self, HostPort, HostPortError};

/// `ngx_stream_pass_module`.
pub(crate) struct Pass;

/// The directive of one server.
#[derive(Default)]
pub(crate) struct Conf {
    to: Option<Word>,
}

impl Module for Pass {
    type Conf = Conf;
    const NAME: &'static str = "stream_pass";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "pass",
        Contexts::STREAM_SERVER,
        Arity::ONE,
        "",
        "Listening address of the configuration that the connection is given to.",
        |conf: &mut Conf, args| once(&mut conf.to, args.word(0).clone(), args),
    )]];

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        let Some(word) = &conf.to else { return Ok(()) };
        let template = server.plan.template(word)?;
        if let Some(text) = template.literal() {
            read(text).map_err(|what| {
                let message = format!("{what} in \"{}\" of the \"pass\" directive", word.display());
                Diagnostic::emerg(message).at(word.span)
            })?;
        }
        server.content(Box::new(move |x| pass(x, &template)));
        Ok(())
    }
}

fn pass(x: &mut Exchange, template: &Template) -> Step<'static> {
    let text = template.value(x);
    match read(&text) {
        Ok(address) => {
            x.modules.extensions.insert(PassTo(address));
            Step::Decline
        }
        Err(what) => {
            let text = String::from_utf8_lossy(&text).into_owned();
            x.log(Level::Error, format_args!("{what} in pass \"{text}\""));
            Step::Status(500)
        }
    }
}

/// Why a text is no target of `pass`.
#[derive(Debug)]
enum PassError {
    /// The address is invalid or has no port.
    Address(HostPortError),
    /// A name is written in place of an address.
    Name,
}

impl From<HostPortError> for PassError {
    fn from(error: HostPortError) -> PassError {
        PassError::Address(error)
    }
}

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PassError::Address(error) => error.fmt(f),
            PassError::Name => f.write_str("invalid address"),
        }
    }
}

impl error::Error for PassError {}

/// Reads an address with a port, or a Unix socket's path. A bare port is any address's.
fn read(text: &[u8]) -> Result<Address, PassError> {
    let text = std::str::from_utf8(text).map_err(|_| HostPortError::InvalidHost)?;
    if let Ok(port) = text.parse::<u16>() {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
        return Ok(Address::Inet(any));
    }
    match resolve::parse(text, 0)? {
        HostPort::Unix(path) => Ok(Address::Unix(path)),
        HostPort::Inet { port: None, .. } => Err(HostPortError::NoPort.into()),
        HostPort::Inet { literal: Some(address), .. } => Ok(Address::Inet(address)),
        HostPort::Inet { .. } => Err(PassError::Name),
    }
}
