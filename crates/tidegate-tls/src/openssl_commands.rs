//! OpenSSL's configuration commands (its manual page `SSL_CONF_cmd(3)`) in `*_ssl_conf_command`: those that
//! have a meaning for another library. The caller reads the files and lists.

use tidegate_conf::{Args, Diagnostic, Word};

use crate::cipher_suites;

/// Advice for directives that name protocols before TLS 1.2.
pub const OLD_PROTOCOLS: &str = "the TLS library begins at TLS 1.2 (RFC 8996); remove the name: peers that have \
                                 nothing newer cannot connect";

/// The setting of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The versions that remain: TLS 1.2 and TLS 1.3.
    Protocols(bool, bool),
    /// The value is a list in the format of `ssl_ciphers`.
    CipherList,
    /// Suites of TLS 1.3 by their numbers (IANA registry "TLS Cipher Suites").
    Suites(Vec<u16>),
    /// The value is a list in the format of `ssl_ecdh_curve`.
    Groups,
    /// The value is a file.
    Certificate,
    /// The value is a file.
    PrivateKey,
    /// Whether sessions are resumed by tickets.
    SessionTickets(bool),
    /// Whether the server's order of cipher suites takes precedence.
    ServerPreference(bool),
    /// A setting without effect: it concerns features that do not exist here.
    Nothing,
}

/// The reason why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandError {
    /// OpenSSL refuses it as well.
    Invalid,
    /// OpenSSL has it, and the library does not.
    NotAvailable,
}

/// Options about weaknesses, old protocols and modes that the library does not have.
const WITHOUT_MEANING: &[&str] = &[
    "EmptyFragments",
    "Bugs",
    "Compression",
    "NoResumptionOnRenegotiation",
    "DHSingle",
    "ECDHSingle",
    "UnsafeLegacyRenegotiation",
    "UnsafeLegacyServerConnect",
    "EncryptThenMac",
    "NoRenegotiation",
    "AllowNoDHEKEX",
    "PrioritizeChaCha",
    "MiddleboxCompat",
    "AntiReplay",
    "ExtendedMasterSecret",
    "CANames",
    "KTLS",
    "StrictCertCheck",
    "TxCertificateCompression",
    "RxCertificateCompression",
    "KTLSTxZerocopySendfile",
    "IgnoreUnexpectedEOF",
];

/// Parses the arguments of a `*_ssl_conf_command`: the settings, each with the word of the value.
///
/// # Errors
/// At the value, in nginx's words.
pub fn of_directive(args: &Args<'_>) -> Result<Vec<(Command, Word)>, Diagnostic> {
    let (name, value) = (args.text(0)?, args.text(1)?);
    match parse(name, value) {
        Ok(commands) => {
            Ok(commands.into_iter().map(|command| (command, args.word(1).clone())).collect())
        }
        Err(CommandError::Invalid) => {
            Err(args.error(1, format!("SSL_CONF_cmd(\"{name}\", \"{value}\") failed")))
        }
        Err(CommandError::NotAvailable) => {
            let message = format!("\"{} {name} {value}\" is not supported yet", args.name());
            Err(args.error(1, message).label("the TLS library is not OpenSSL"))
        }
    }
}

/// Parses a command; `Options` gives as many as it lists.
///
/// # Errors
/// It is unknown, or needs a feature that is not available.
fn parse(name: &str, value: &str) -> Result<Vec<Command>, CommandError> {
    let one = |command| Ok(vec![command]);
    match name.to_ascii_lowercase().as_str() {
        "minprotocol" => match value {
            "TLSv1.3" => one(Command::Protocols(false, true)),
            // TLS 1.2 is the oldest version of the library: a lower minimum has no effect.
            "None" | "SSLv3" | "TLSv1" | "TLSv1.1" | "TLSv1.2" => one(Command::Nothing),
            _ => Err(CommandError::Invalid),
        },
        "maxprotocol" => match value {
            "TLSv1.2" => one(Command::Protocols(true, false)),
            "None" | "TLSv1.3" => one(Command::Nothing),
            // Such a maximum would leave no version.
            "SSLv3" | "TLSv1" | "TLSv1.1" => Err(CommandError::NotAvailable),
            _ => Err(CommandError::Invalid),
        },
        "cipherstring" => one(Command::CipherList),
        "ciphersuites" => {
            let suites = value.split(':').filter(|suite| !suite.is_empty());
            let suites = suites.map(cipher_suites::tls13).collect::<Option<Vec<_>>>();
            match suites {
                None => Err(CommandError::Invalid),
                Some(suites) if suites.iter().all(Option::is_none) => {
                    Err(CommandError::NotAvailable)
                }
                Some(suites) => one(Command::Suites(suites.into_iter().flatten().collect())),
            }
        }
        "curves" | "groups" => one(Command::Groups),
        "certificate" => one(Command::Certificate),
        "privatekey" => one(Command::PrivateKey),
        "options" => value.split(',').map(|flag| option(flag.trim())).collect(),
        "signaturealgorithms"
        | "clientsignaturealgorithms"
        | "protocol"
        | "dhparameters"
        | "recordpadding"
        | "numtickets"
        | "chaincapath"
        | "chaincafile"
        | "verifycapath"
        | "verifycafile"
        | "requestcafile"
        | "clientcafile"
        | "clientcapath"
        | "verifymode"
        | "ecdhparameters"
        | "serverinfofile" => Err(CommandError::NotAvailable),
        _ => Err(CommandError::Invalid),
    }
}

fn option(flag: &str) -> Result<Command, CommandError> {
    let (on, name) = match flag.strip_prefix('-') {
        Some(name) => (false, name),
        None => (true, flag.strip_prefix('+').unwrap_or(flag)),
    };
    if name.eq_ignore_ascii_case("SessionTicket") {
        return Ok(Command::SessionTickets(on));
    }
    if name.eq_ignore_ascii_case("ServerPreference") {
        return Ok(Command::ServerPreference(on));
    }
    match WITHOUT_MEANING.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        true => Ok(Command::Nothing),
        false => Err(CommandError::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, CommandError, parse};

    #[test]
    fn reads_commands() {
        let one = |command| Ok(vec![command]);
        for (name, value, expected) in [
            ("MinProtocol", "TLSv1.3", one(Command::Protocols(false, true))),
            ("minprotocol", "TLSv1", one(Command::Nothing)),
            ("MaxProtocol", "TLSv1.2", one(Command::Protocols(true, false))),
            ("MaxProtocol", "TLSv1.1", Err(CommandError::NotAvailable)),
            ("MaxProtocol", "foo", Err(CommandError::Invalid)),
            (
                "Ciphersuites",
                "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_CCM_SHA256:TLS_AES_128_GCM_SHA256",
                one(Command::Suites(vec![0x1303, 0x1301])),
            ),
            ("Ciphersuites", "TLS_AES_128_CCM_SHA256", Err(CommandError::NotAvailable)),
            ("Ciphersuites", "foo", Err(CommandError::Invalid)),
            (
                "Options",
                "-SessionTicket, ServerPreference,KTLS",
                Ok(vec![
                    Command::SessionTickets(false),
                    Command::ServerPreference(true),
                    Command::Nothing,
                ]),
            ),
            ("Options", "foo", Err(CommandError::Invalid)),
            ("Groups", "X25519", one(Command::Groups)),
            ("SignatureAlgorithms", "ed25519", Err(CommandError::NotAvailable)),
            ("foo", "bar", Err(CommandError::Invalid)),
        ] {
            assert_eq!(parse(name, value), expected, "{name} {value}");
        }
    }
}
