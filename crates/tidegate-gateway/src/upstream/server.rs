//! `server`: one server of a group, with fixed addresses or a name that is resolved again and again.

use std::net::IpAddr;
use std::{error, fmt, io};

use tidegate_conf::{Args, Diagnostic, Span};
use tidegate_upstream::peers::ServerName;
use tidegate_upstream::resolve::{self, HostPort, HostPortError};
use tidegate_upstream::{Member, ServerOptions};

use super::Conf;
use super::options::{PORT, knows_no_rank, set_option};

/// One `server` as written.
#[derive(Clone, Debug)]
pub struct ServerConf {
    pub address: String,
    pub options: ServerOptions,
    /// Its name is resolved at run time.
    pub resolve: bool,
    pub service: Option<String>,
    pub span: Span,
}

/// Why a `server` cannot be used. Displayed in nginx's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberError {
    /// The address is invalid or has no port, or the name has no address.
    Address(HostPortError),
    /// `service=` has a server with a port.
    ServicePort,
    /// `service=` has a server with an address in place of a name.
    ServiceAddress,
}

impl MemberError {
    /// The name has no address.
    pub(super) const NOT_FOUND: MemberError = MemberError::Address(HostPortError::NotFound);
}

impl From<HostPortError> for MemberError {
    fn from(error: HostPortError) -> MemberError {
        MemberError::Address(error)
    }
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemberError::Address(error) => error.fmt(f),
            MemberError::ServicePort => f.write_str("service upstream may not have port"),
            MemberError::ServiceAddress => f.write_str("service upstream requires domain name"),
        }
    }
}

impl error::Error for MemberError {}

pub(crate) fn set_server(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let mut server = ServerConf {
        address: args.text(0)?.to_owned(),
        options: ServerOptions::default(),
        resolve: false,
        service: None,
        span: args.word(0).span,
    };
    let read = read_parameters(&mut server, conf, args);
    // Kept even if it is invalid: the group is not reported as empty then.
    conf.servers.push(server);
    read
}

fn read_parameters(
    server: &mut ServerConf,
    conf: &Conf,
    args: &Args<'_>,
) -> Result<(), Diagnostic> {
    for index in 1..args.len() {
        let (name, value) = args.parameter(index)?;
        let invalid = || args.invalid_parameter(index);
        if matches!(name, "backup" | "slow_start") && conf.method.is_some_and(knows_no_rank) {
            let what = format!("balancing method does not support parameter \"{name}\"");
            return Err(args.error(index, what));
        }
        match (name, value) {
            ("resolve", None) => server.resolve = true,
            ("service", Some("")) => return Err(args.error(index, "service is empty")),
            ("service", Some(service)) => server.service = Some(service.to_owned()),
            _ => set_option(&mut server.options, name, value).ok_or_else(invalid)?,
        }
    }
    if let Some(service) = &server.service
        && !server.resolve
    {
        let address = &server.address;
        let what = format!("service upstream \"{address}\" requires \"resolve\" parameter");
        let help = format!("add `resolve`, so that `{service}` is looked up");
        return Err(args.error(0, what).help(help));
    }
    Ok(())
}

impl ServerConf {
    /// Returns whether its addresses come from name servers: a numeric address needs no resolution, whatever its
    /// parameters.
    pub fn is_looked_up(&self) -> bool {
        let host = resolve::parse(&self.address, PORT);
        self.resolve && matches!(host, Ok(HostPort::Inet { literal: None, .. }))
    }

    /// Returns the server while its name is not resolved.
    pub fn unresolved(&self) -> Member {
        let name = ServerName { host: self.address.as_str().into(), port: PORT, service: None };
        Member::named(&self.address, name, self.options.clone())
    }

    /// Returns the server with its addresses; a name that is not resolved later is resolved by `look_up` now. In
    /// `stream` a port must be written.
    ///
    /// # Errors
    /// In nginx's words, without the server.
    pub fn member(
        &self,
        needs_port: bool,
        look_up: impl FnOnce(&str) -> io::Result<Vec<IpAddr>>,
    ) -> Result<Member, MemberError> {
        let host = resolve::parse(&self.address, PORT)?;
        match (&self.service, &host) {
            (Some(_), HostPort::Unix(_) | HostPort::Inet { port: Some(_), .. }) => {
                return Err(MemberError::ServicePort);
            }
            (Some(_), HostPort::Inet { literal: Some(_), .. }) => {
                return Err(MemberError::ServiceAddress);
            }
            _ => {}
        }
        if needs_port && self.service.is_none() && matches!(host, HostPort::Inet { port: None, .. })
        {
            return Err(HostPortError::NoPort.into());
        }
        if let (true, HostPort::Inet { host, port, literal: None }) = (self.resolve, &host) {
            let name = ServerName {
                host: host.to_ascii_lowercase().into(),
                port: port.unwrap_or(PORT),
                service: self.service.as_deref().map(Into::into),
            };
            return Ok(Member::named(&self.address, name, self.options.clone()));
        }
        let addresses = resolve::addresses(&host, PORT, look_up)?;
        Ok(Member::fixed(&self.address, addresses, self.options.clone()))
    }
}
