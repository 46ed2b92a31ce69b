//! The names of a certificate: those of `acme_certificate`, or else of `server_name`.

use tidegate_acme::{ChallengeKind, IDENTIFIERS_MAX, Identifier};
use tidegate_conf::{Diagnostic, Word};

/// Parses the names. `.example.com` is `example.com` and `www.example.com`; `$hostname` is the machine's name. A
/// wildcard is a name for dns-01.
///
/// # Errors
/// A wildcard, a regular expression, or a text that is no name; too many names.
pub(super) fn parse(
    words: &[Word],
    host_name: &str,
    by: ChallengeKind,
) -> Result<Vec<Identifier>, Diagnostic> {
    let mut names = Vec::new();
    for word in words {
        let text = word.display().to_ascii_lowercase();
        match (text.strip_prefix('.'), &*text) {
            (_, "") => {}
            (_, "$hostname") => names.push(identifier(word, host_name, by)?),
            (Some(name), _) => {
                names.push(identifier(word, name, by)?);
                names.push(identifier(word, &format!("www.{name}"), by)?);
            }
            (None, name) => names.push(identifier(word, name, by)?),
        }
    }
    let mut unique: Vec<Identifier> = Vec::with_capacity(names.len());
    for name in names {
        if !unique.contains(&name) {
            unique.push(name);
        }
        if unique.len() > IDENTIFIERS_MAX {
            let message = format!("a certificate has at most {IDENTIFIERS_MAX} names");
            let span = words.last().map(|word| word.span);
            let found = Diagnostic::emerg(message);
            return Err(span
                .map_or(found.clone(), |span| found.at(span))
                .help("divide the server into several ones"));
        }
    }
    Ok(unique)
}

fn identifier(word: &Word, name: &str, by: ChallengeKind) -> Result<Identifier, Diagnostic> {
    let shown = word.display();
    let refused = |label: &str| {
        let message = format!("invalid server name \"{shown}\" for a certificate");
        Err(Diagnostic::emerg(message).at(word.span).label(label))
    };
    if name.starts_with('~') {
        return refused("a regular expression cannot be validated")
            .map_err(|found| found.help("write the names in `acme_certificate`"));
    }
    let is_dns = by == ChallengeKind::Dns01;
    if name.contains('*') && !is_dns {
        return refused("a wildcard cannot be validated by http-01 or tls-alpn-01")
            .map_err(|found| found.help("write the names in `acme_certificate`"));
    }
    let name = name.trim_start_matches('[').trim_end_matches(']');
    match Identifier::parse_wildcard(name) {
        Ok(Identifier::Ip(_)) if is_dns => refused("dns-01 validates no addresses"),
        Ok(Identifier::Dns(name)) if name == "_" => refused("it is in no DNS"),
        Ok(identifier) => Ok(identifier),
        Err(_) => refused("neither a DNS name in ASCII nor an IP address"),
    }
}
