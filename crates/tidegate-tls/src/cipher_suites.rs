//! Cipher suites of TLS under OpenSSL's names: lists in its format, and names for variables and logs. Suites
//! are identified by their numbers (IANA registry "TLS Cipher Suites").

#[cfg(test)]
mod tests;

use tidegate_conf::{Diagnostic, Word};

/// An available TLS 1.2 suite, with the words of lists that select it.
struct Row {
    name: &'static str,
    standard: &'static str,
    number: u16,
    /// The strength in bits, for `@STRENGTH`.
    bits: u16,
    aliases: &'static [&'static str],
}

macro_rules! row {
    ($name:literal, $suite:ident, $number:literal, $bits:literal, $($alias:literal)+) => {
        Row {
            name: $name,
            standard: stringify!($suite),
            number: $number,
            bits: $bits,
            aliases: &[$($alias),+],
        }
    };
}

/// The suites in OpenSSL's order of preference.
static ROWS: [Row; 6] = [
    row!("ECDHE-ECDSA-AES256-GCM-SHA384", TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, 0xc02c, 256,
        "aECDSA" "ECDSA" "AES" "AES256" "AESGCM"),
    row!("ECDHE-RSA-AES256-GCM-SHA384", TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, 0xc030, 256,
        "aRSA" "AES" "AES256" "AESGCM"),
    row!("ECDHE-ECDSA-CHACHA20-POLY1305", TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, 0xcca9, 256,
        "aECDSA" "ECDSA" "CHACHA20"),
    row!("ECDHE-RSA-CHACHA20-POLY1305", TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, 0xcca8, 256,
        "aRSA" "CHACHA20"),
    row!("ECDHE-ECDSA-AES128-GCM-SHA256", TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, 0xc02b, 128,
        "aECDSA" "ECDSA" "AES" "AES128" "AESGCM"),
    row!("ECDHE-RSA-AES128-GCM-SHA256", TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, 0xc02f, 128,
        "aRSA" "AES" "AES128" "AESGCM"),
];

/// Words that select every available suite.
const ALL: &[&str] =
    &["ALL", "HIGH", "DEFAULT", "FIPS", "TLSv1.2", "ECDH", "ECDHE", "EECDH", "kECDHE", "kEECDH"];

/// Words that OpenSSL has and that select none of the available suites.
const NONE: &[&str] = &[
    "COMPLEMENTOFALL",
    "COMPLEMENTOFDEFAULT",
    "MEDIUM",
    "LOW",
    "aNULL",
    "eNULL",
    "NULL",
    "kRSA",
    "RSA",
    "kDHE",
    "kEDH",
    "DHE",
    "EDH",
    "DH",
    "ADH",
    "AECDH",
    "kPSK",
    "kECDHEPSK",
    "kDHEPSK",
    "kRSAPSK",
    "PSK",
    "aPSK",
    "aDSS",
    "DSS",
    "SRP",
    "kSRP",
    "aSRP",
    "AESCCM",
    "AESCCM8",
    "ARIA",
    "ARIA128",
    "ARIA256",
    "ARIAGCM",
    "CAMELLIA",
    "CAMELLIA128",
    "CAMELLIA256",
    "3DES",
    "DES",
    "IDEA",
    "SEED",
    "RC4",
    "RC2",
    "MD5",
    "SHA1",
    "SHA",
    "SHA256",
    "SHA384",
    "SSLv3",
    "TLSv1",
    "TLSv1.0",
    "CBC",
];

/// Lists of a single word: the suites of RFC 6460 (Suite B).
const SUITE_B: [(&str, &[u16]); 3] =
    [("SUITEB128", &[0xc02b, 0xc02c]), ("SUITEB128ONLY", &[0xc02b]), ("SUITEB192", &[0xc02c])];

impl Row {
    /// Returns whether one word of a list (without `+`) selects this suite.
    fn is(&self, word: &str) -> bool {
        // These words differ only in ChaCha20, which FIPS does not approve.
        let fips = word != "FIPS" || !self.aliases.contains(&"CHACHA20");
        self.name == word
            || self.standard == word
            || self.aliases.contains(&word)
            || (ALL.contains(&word) && fips)
    }
}

/// Returns the TLS 1.2 suites, by number, of a list in OpenSSL's format (its manual page ciphers(1)): words
/// separated by `:`, `,`, space or `;`; `!` removes for good, `-` removes, `+` moves to the end, `a+b` means
/// both. `@SECLEVEL=n` removes suites weaker than the level, at any position. Words without meaning here are
/// left out, as OpenSSL does with unknown ones.
pub fn tls12(list: &str) -> Vec<u16> {
    if let Some((_, suites)) = SUITE_B.iter().find(|(word, _)| *word == list) {
        return suites.to_vec();
    }
    let mut bits_min = 0;
    let mut active: Vec<usize> = Vec::new();
    let mut killed = [false; ROWS.len()];
    for item in items(list) {
        if item == "@STRENGTH" {
            active.sort_by_key(|index| std::cmp::Reverse(ROWS[*index].bits));
            continue;
        }
        if let Some(level) = item.strip_prefix("@SECLEVEL=") {
            // The bits of security that a level requires (`SSL_CTX_set_security_level(3)`).
            bits_min = match level {
                "5" => 256,
                "4" => 192,
                _ => 0,
            };
            continue;
        }
        let (operator, words) = match item.as_bytes()[0] {
            sign @ (b'!' | b'-' | b'+') => (sign, &item[1..]),
            _ => (b' ', item),
        };
        let meant = |index: usize| words.split('+').all(|word| ROWS[index].is(word));
        match operator {
            b'!' => {
                active.retain(|index| !meant(*index));
                (0..ROWS.len()).filter(|index| meant(*index)).for_each(|i| killed[i] = true);
            }
            b'-' => active.retain(|index| !meant(*index)),
            b'+' => active.sort_by_key(|index| meant(*index)),
            _ => {
                let new = (0..ROWS.len())
                    .filter(|index| meant(*index) && !killed[*index] && !active.contains(index));
                let new: Vec<usize> = new.collect();
                active.extend(new);
            }
        }
    }
    let strong = active.into_iter().filter(|index| ROWS[*index].bits >= bits_min);
    strong.map(|index| ROWS[index].number).collect()
}

/// Makes the diagnostic of a list without a suite for TLS 1.2. It is an error when the list has no suite at
/// all, or when TLS 1.2 is the only version, and otherwise a warning.
pub fn no_suite(word: &Word, tls13: bool) -> Diagnostic {
    let list = word.display();
    let found = match tls13 && names_suites(&list) {
        true => Diagnostic::warn(format!(
            "\"{list}\" names no available cipher suite, TLS 1.2 is not spoken"
        )),
        false => Diagnostic::emerg(format!(
            "SSL_CTX_set_cipher_list(\"{list}\") failed (SSL: no cipher match)"
        )),
    };
    found.at(word.span)
}

/// Returns whether a list selects suites that OpenSSL has, available here or not: a list without any is an
/// error.
pub(crate) fn names_suites(list: &str) -> bool {
    let is_known = |word: &str| {
        NONE.contains(&word)
            || NAMES.iter().any(|(number, name)| number >> 8 != 0x13 && *name == word)
            || ROWS.iter().any(|row| row.is(word))
    };
    let mut chosen = items(list).filter(|item| !item.starts_with(['!', '-', '+', '@']));
    chosen.any(|item| item.split('+').all(is_known)) || !tls12(list).is_empty()
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split([':', ',', ' ', ';']).filter(|item| !item.is_empty())
}

/// Finds a suite of TLS 1.3 by its name: its number where it is available; `None` for an unknown name.
pub(crate) fn tls13(name: &str) -> Option<Option<u16>> {
    let (number, _) = NAMES.iter().find(|(number, known)| number >> 8 == 0x13 && *known == name)?;
    Some((0x1301..=0x1303).contains(number).then_some(*number))
}

/// Returns OpenSSL's name of a suite by its number (IANA registry "TLS Cipher Suites"); `None` for numbers
/// that OpenSSL would not show by name.
pub fn name(number: u16) -> Option<&'static str> {
    let place = NAMES.binary_search_by_key(&number, |(known, _)| *known).ok()?;
    Some(NAMES[place].1)
}

/// Suites that clients offer and OpenSSL 3 has, by number.
static NAMES: &[(u16, &str)] = &[
    (0x000a, "DES-CBC3-SHA"),
    (0x0016, "DHE-RSA-DES-CBC3-SHA"),
    (0x002f, "AES128-SHA"),
    (0x0032, "DHE-DSS-AES128-SHA"),
    (0x0033, "DHE-RSA-AES128-SHA"),
    (0x0034, "ADH-AES128-SHA"),
    (0x0035, "AES256-SHA"),
    (0x0038, "DHE-DSS-AES256-SHA"),
    (0x0039, "DHE-RSA-AES256-SHA"),
    (0x003a, "ADH-AES256-SHA"),
    (0x003c, "AES128-SHA256"),
    (0x003d, "AES256-SHA256"),
    (0x0040, "DHE-DSS-AES128-SHA256"),
    (0x0041, "CAMELLIA128-SHA"),
    (0x0045, "DHE-RSA-CAMELLIA128-SHA"),
    (0x0067, "DHE-RSA-AES128-SHA256"),
    (0x006a, "DHE-DSS-AES256-SHA256"),
    (0x006b, "DHE-RSA-AES256-SHA256"),
    (0x0084, "CAMELLIA256-SHA"),
    (0x0088, "DHE-RSA-CAMELLIA256-SHA"),
    (0x008c, "PSK-AES128-CBC-SHA"),
    (0x008d, "PSK-AES256-CBC-SHA"),
    (0x009c, "AES128-GCM-SHA256"),
    (0x009d, "AES256-GCM-SHA384"),
    (0x009e, "DHE-RSA-AES128-GCM-SHA256"),
    (0x009f, "DHE-RSA-AES256-GCM-SHA384"),
    (0x00a2, "DHE-DSS-AES128-GCM-SHA256"),
    (0x00a3, "DHE-DSS-AES256-GCM-SHA384"),
    (0x00a8, "PSK-AES128-GCM-SHA256"),
    (0x00a9, "PSK-AES256-GCM-SHA384"),
    (0x00ff, "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"),
    (0x1301, "TLS_AES_128_GCM_SHA256"),
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0x1304, "TLS_AES_128_CCM_SHA256"),
    (0x1305, "TLS_AES_128_CCM_8_SHA256"),
    (0xc008, "ECDHE-ECDSA-DES-CBC3-SHA"),
    (0xc009, "ECDHE-ECDSA-AES128-SHA"),
    (0xc00a, "ECDHE-ECDSA-AES256-SHA"),
    (0xc012, "ECDHE-RSA-DES-CBC3-SHA"),
    (0xc013, "ECDHE-RSA-AES128-SHA"),
    (0xc014, "ECDHE-RSA-AES256-SHA"),
    (0xc023, "ECDHE-ECDSA-AES128-SHA256"),
    (0xc024, "ECDHE-ECDSA-AES256-SHA384"),
    (0xc027, "ECDHE-RSA-AES128-SHA256"),
    (0xc028, "ECDHE-RSA-AES256-SHA384"),
    (0xc02b, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (0xc02c, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (0xc02f, "ECDHE-RSA-AES128-GCM-SHA256"),
    (0xc030, "ECDHE-RSA-AES256-GCM-SHA384"),
    (0xc09c, "AES128-CCM"),
    (0xc09d, "AES256-CCM"),
    (0xc09e, "DHE-RSA-AES128-CCM"),
    (0xc09f, "DHE-RSA-AES256-CCM"),
    (0xc0ac, "ECDHE-ECDSA-AES128-CCM"),
    (0xc0ad, "ECDHE-ECDSA-AES256-CCM"),
    (0xcca8, "ECDHE-RSA-CHACHA20-POLY1305"),
    (0xcca9, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (0xccaa, "DHE-RSA-CHACHA20-POLY1305"),
    (0xccab, "PSK-CHACHA20-POLY1305"),
];
