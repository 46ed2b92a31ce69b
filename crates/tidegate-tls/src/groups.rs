//! Key exchange groups under OpenSSL's names.

#[cfg(test)]
mod tests;

use std::{error, fmt};

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group;

/// The groups of a list (`ssl_ecdh_curve`): the available ones in the order of the list, and the names of
/// others that OpenSSL has. The caller decides whether these are an error.
#[derive(Debug)]
pub struct Groups {
    /// The preferred first.
    pub(crate) groups: Vec<&'static dyn SupportedKxGroup>,
    /// Names that OpenSSL has and this server has not.
    pub unavailable: Vec<String>,
}

/// A name in a list of groups that neither OpenSSL nor this server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownGroup(String);

impl fmt::Display for UnknownGroup {
    /// Writes OpenSSL's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group '{}' cannot be set", self.0)
    }
}

impl error::Error for UnknownGroup {}

impl Groups {
    /// Returns whether the list leaves no group.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

impl Default for Groups {
    /// Returns all groups of nginx's default (`auto`), in the order of preference.
    fn default() -> Groups {
        let groups = vec![
            kx_group::X25519MLKEM768,
            kx_group::X25519,
            kx_group::SECP256R1,
            kx_group::SECP384R1,
        ];
        Groups { groups, unavailable: Vec::new() }
    }
}

/// Parses `ssl_ecdh_curve`: names separated by `:`, or `auto`.
///
/// # Errors
/// The first name that is unknown.
pub fn parse(list: &str) -> Result<Groups, UnknownGroup> {
    if list == "auto" {
        return Ok(Groups::default());
    }
    let mut found = Groups { groups: Vec::new(), unavailable: Vec::new() };
    for name in list.split(':') {
        let group = match name.to_ascii_lowercase().as_str() {
            "x25519mlkem768" => kx_group::X25519MLKEM768,
            "secp256r1mlkem768" => kx_group::SECP256R1MLKEM768,
            "mlkem768" => kx_group::MLKEM768,
            "x25519" => kx_group::X25519,
            "prime256v1" | "secp256r1" | "p-256" => kx_group::SECP256R1,
            "secp384r1" | "p-384" => kx_group::SECP384R1,
            "secp521r1" | "p-521" | "x448" | "secp224r1" | "p-224" | "secp256k1" | "ffdhe2048"
            | "ffdhe3072" | "ffdhe4096" | "brainpoolp256r1" | "brainpoolp384r1"
            | "brainpoolp512r1" | "mlkem512" | "mlkem1024" | "secp384r1mlkem1024" => {
                found.unavailable.push(name.to_owned());
                continue;
            }
            _ => return Err(UnknownGroup(name.to_owned())),
        };
        if !found.groups.iter().any(|known| known.name() == group.name()) {
            found.groups.push(group);
        }
    }
    Ok(found)
}

/// Returns OpenSSL's name of a group by its number (IANA registry "TLS Supported Groups").
pub fn name(number: u16) -> Option<&'static str> {
    Some(match number {
        0x0017 => "prime256v1",
        0x0018 => "secp384r1",
        0x0019 => "secp521r1",
        0x001d => "X25519",
        0x001e => "X448",
        0x0100 => "ffdhe2048",
        0x0101 => "ffdhe3072",
        0x0102 => "ffdhe4096",
        0x0103 => "ffdhe6144",
        0x0104 => "ffdhe8192",
        0x0200 => "MLKEM512",
        0x0201 => "MLKEM768",
        0x0202 => "MLKEM1024",
        0x11eb => "SecP256r1MLKEM768",
        0x11ec => "X25519MLKEM768",
        0x11ed => "SecP384r1MLKEM1024",
        _ => return None,
    })
}
