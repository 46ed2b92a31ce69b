//! What the caller wants: an issuer, and certificates of it.

use std::fmt::Write as _;

use aws_lc_rs::digest;

use crate::identifier::Identifier;
use crate::jws::ExternalAccount;
use crate::key::{Key, KeyKind};
use crate::limits::IDENTIFIERS_MAX;
use crate::message::ChallengeKind;

/// An issuer: a server, an account there, and how orders are made (nginx's `acme_issuer`).
#[derive(Clone, Debug)]
pub struct Config {
    /// The URL of the directory (`uri`).
    pub directory: String,
    /// The key of the account (`account_key`).
    pub account_key: AccountKeySource,
    /// URLs at which the account's owner can be reached, such as `mailto:admin@example.com` (`contact`).
    pub contacts: Vec<String>,
    /// The binding to an account outside of ACME (`external_account_key`).
    pub external_account: Option<ExternalAccount>,
    /// Says whether the owner agrees to the terms of service (`accept_terms_of_service`).
    pub terms_agreed: bool,
    /// How names are validated (`challenge`).
    pub challenge: ChallengeKind,
    /// The common name of the issuer of the topmost certificate, among several chains (`preferred_chain`).
    pub preferred_chain: Option<String>,
    /// The profile of the certificates (`profile`).
    pub profile: Option<Profile>,
    /// Says whether requests have a common name (`common_name_in_csr`).
    pub common_name: bool,
}

/// Where the key of an account is from.
#[derive(Clone, Debug)]
pub enum AccountKeySource {
    /// The client makes one, and keeps it in its files.
    Generate(KeyKind),
    /// The caller has one.
    Given(Key),
}

/// A profile: a kind of certificates that the server offers by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The name.
    pub name: String,
    /// Without the profile, nothing is ordered (`require`). Otherwise the server's default is taken.
    pub required: bool,
}

/// A certificate that is wanted (nginx's `acme_certificate`). Two with the same names and kind of key are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    names: Vec<Identifier>,
    key: KeyKind,
    stem: String,
}

impl Wanted {
    /// Makes the wish of names and a kind of key. Repeated names are dropped; the first one stays first.
    ///
    /// `None` without names, or with more than [`IDENTIFIERS_MAX`].
    pub fn new(names: &[Identifier], key: KeyKind) -> Option<Wanted> {
        let mut unique: Vec<Identifier> = Vec::new();
        for name in names {
            if !unique.contains(name) {
                unique.push(name.clone());
            }
            if unique.len() > IDENTIFIERS_MAX {
                return None;
            }
        }
        let stem = stem(&unique, key)?;
        Some(Wanted { names: unique, key, stem })
    }

    /// Returns the names.
    pub fn names(&self) -> &[Identifier] {
        &self.names
    }

    /// Returns the kind of the certificate's key.
    pub fn key(&self) -> KeyKind {
        self.key
    }

    /// Returns the beginning of the names of the certificate's files: its first name, the kind of its key, and a hash of
    /// all names in whatever order.
    pub fn stem(&self) -> &str {
        &self.stem
    }
}

fn stem(names: &[Identifier], key: KeyKind) -> Option<String> {
    /// The beginning of a name that is shown; the hash distinguishes the rest. A file name has at most 255 bytes.
    const SHOWN_MAX: usize = 100;
    let mut sorted: Vec<String> = names.iter().map(ToString::to_string).collect();
    let shown: String = sorted.first()?.chars().take(SHOWN_MAX).collect();
    sorted.sort_unstable();
    let hash = digest::digest(&digest::SHA256, sorted.join(" ").as_bytes());
    let mut stem = format!("{shown}-{key}-").replace([':', '*'], "_");
    for byte in hash.as_ref().iter().take(8) {
        write!(stem, "{byte:02x}").ok()?;
    }
    Some(stem)
}

#[cfg(test)]
mod tests {
    use super::Wanted;
    use crate::identifier::Identifier;
    use crate::key::KeyKind;

    #[test]
    fn names_of_files_depend_on_the_set_of_names_and_the_kind_of_key() {
        let stem = |names: &[&str], key| {
            let names: Vec<_> =
                names.iter().filter_map(|name| Identifier::parse(name).ok()).collect();
            Wanted::new(&names, key).map(|wanted| wanted.stem().to_owned()).unwrap_or_default()
        };
        let first = stem(&["a.test", "b.test"], KeyKind::Ecdsa256);
        assert!(first.starts_with("a.test-ecdsa_256-"), "{first}");
        assert_eq!(first, stem(&["a.test", "b.test", "A.test"], KeyKind::Ecdsa256));
        let swapped = stem(&["b.test", "a.test"], KeyKind::Ecdsa256);
        assert_eq!(first[first.len() - 16..], swapped[swapped.len() - 16..]);
        assert_ne!(first, stem(&["a.test", "b.test"], KeyKind::Rsa2048));
        assert_ne!(first, stem(&["a.test"], KeyKind::Ecdsa256));
        let address = stem(&["2001:db8::1"], KeyKind::Rsa2048);
        assert!(address.starts_with("2001_db8__1-rsa_2048-"), "{address}");
        let long = format!("{}test", "a.".repeat(120));
        assert_eq!(stem(&[&long], KeyKind::Ecdsa256).len(), 100 + 27);
        assert_eq!(stem(&[], KeyKind::Ecdsa256), "");
        let many: Vec<String> = (0..101).map(|number| format!("a{number}.test")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(stem(&many, KeyKind::Ecdsa256), "");
    }
}
