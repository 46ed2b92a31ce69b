//! Identifiers of a certificate: DNS names (RFC 8555 section 9.7.7) and IP addresses (RFC 8738).

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;

/// A name or an address that a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identifier {
    /// A DNS name, in lower case and without a dot at its end.
    Dns(String),
    /// An IP address.
    Ip(IpAddr),
}

/// The reason why a text is no identifier of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentifierError {
    /// The text is neither a DNS name in ASCII nor an IP address.
    Invalid(String),
    /// A name with `*`: neither http-01 nor tls-alpn-01 can validate it (RFC 8555 section 7.1.3).
    Wildcard(String),
}

impl Identifier {
    /// Parses a DNS name or an IP address. Names with other letters than those of ASCII have to be written in their
    /// encoded form (`xn--…`).
    ///
    /// # Errors
    /// The text is neither, or it has a wildcard.
    pub fn parse(text: &str) -> Result<Identifier, IdentifierError> {
        if let Ok(address) = text.parse() {
            return Ok(Identifier::Ip(address));
        }
        if text.contains('*') {
            return Err(IdentifierError::Wildcard(text.to_owned()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        // A last label of digits would be an address (RFC 3696 section 2).
        let last = name.rsplit('.').next().unwrap_or(name);
        let is_name = name.len() <= 253
            && name.split('.').all(is_label)
            && !last.bytes().all(|byte| byte.is_ascii_digit());
        match is_name {
            true => Ok(Identifier::Dns(name.to_ascii_lowercase())),
            false => Err(IdentifierError::Invalid(text.to_owned())),
        }
    }

    /// As [`Identifier::parse`], with names such as `*.example.com` (RFC 8555 section 7.1.3), which dns-01 alone validates.
    ///
    /// # Errors
    /// The text is none of them.
    pub fn parse_wildcard(text: &str) -> Result<Identifier, IdentifierError> {
        let Some(name) = text.strip_prefix("*.") else { return Identifier::parse(text) };
        match Identifier::parse(name)? {
            Identifier::Dns(name) => Ok(Identifier::Dns(format!("*.{name}"))),
            Identifier::Ip(_) => Err(IdentifierError::Invalid(text.to_owned())),
        }
    }

    /// Returns the type of the identifier in messages: `dns` or `ip`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Identifier::Dns(_) => "dns",
            Identifier::Ip(_) => "ip",
        }
    }

    /// Returns the name by which a server that validates tls-alpn-01 asks for this identifier: the name itself, or the
    /// reverse name of the address (RFC 8738 section 6).
    pub fn server_name(&self) -> String {
        match self {
            Identifier::Dns(name) => name.clone(),
            Identifier::Ip(IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            Identifier::Ip(IpAddr::V6(address)) => {
                let mut name = String::with_capacity(72);
                for byte in address.octets().iter().rev() {
                    let (low, high) = (byte & 15, byte >> 4);
                    name.push_str(&format!("{low:x}.{high:x}."));
                }
                name + "ip6.arpa"
            }
        }
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identifier::Dns(name) => f.write_str(name),
            Identifier::Ip(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for IdentifierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdentifierError::Invalid(text) => {
                write!(f, "\"{text}\" is neither a DNS name in ASCII nor an IP address")
            }
            IdentifierError::Wildcard(text) => {
                write!(f, "\"{text}\": http-01 and tls-alpn-01 validate no names with a wildcard")
            }
        }
    }
}

impl std::error::Error for IdentifierError {}

fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len())
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}
