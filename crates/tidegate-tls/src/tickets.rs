//! Session tickets: sessions that the client keeps, encrypted by keys of the server (RFC 5077, RFC 8446
//! section 4.6.1).
//!
//! A ticket is `name (16) | salt (32) | AES-256-GCM(time (8) | session)`. Each ticket has its own key,
//! derived from the named key and the salt, so that no nonce is ever used twice, whatever number of servers
//! share a key file. Additional data is the server's context: a ticket of one server is invalid for another
//! one with other certificates.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use rustls::server::ProducesTickets;

use crate::observed;

const NAME_BYTES: usize = 16;
const SALT_BYTES: usize = 32;
const TIME_BYTES: usize = 8;

/// A key for tickets (RFC 5077), with the name at the start of its tickets. It has no `Debug`.
#[derive(Clone)]
pub struct TicketKey {
    name: [u8; NAME_BYTES],
    prk: Prk,
}

impl TicketKey {
    /// Makes a key of the content of an `ssl_session_ticket_key` file; returns `None` unless it has 48 or 80
    /// bytes.
    pub fn from_file(bytes: &[u8]) -> Option<TicketKey> {
        if !matches!(bytes.len(), 48 | 80) {
            return None;
        }
        let (name, secret) = bytes.split_first_chunk::<NAME_BYTES>()?;
        Some(TicketKey { name: *name, prk: extract(secret) })
    }

    fn random() -> Option<TicketKey> {
        let mut name = [0; NAME_BYTES];
        let mut secret = [0; 32];
        aws_lc_rs::rand::fill(&mut name).ok()?;
        aws_lc_rs::rand::fill(&mut secret).ok()?;
        Some(TicketKey { name, prk: extract(&secret) })
    }

    fn ticket_key(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let info = [salt];
        let okm = self.prk.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(okm)))
    }

    fn encrypt(&self, context: &[u8], time_unix_seconds: u64, plain: &[u8]) -> Option<Vec<u8>> {
        let mut salt = [0; SALT_BYTES];
        aws_lc_rs::rand::fill(&mut salt).ok()?;
        let key = self.ticket_key(&salt)?;
        let mut sealed = Vec::with_capacity(TIME_BYTES + plain.len() + 16);
        sealed.extend_from_slice(&time_unix_seconds.to_be_bytes());
        sealed.extend_from_slice(plain);
        key.seal_in_place_append_tag(nonce(), Aad::from(context), &mut sealed).ok()?;
        Some([&self.name[..], &salt, &sealed].concat())
    }

    /// Returns the session and the time when its ticket was made.
    fn decrypt(&self, context: &[u8], ticket: &[u8]) -> Option<(u64, Vec<u8>)> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (salt, sealed) = rest.split_first_chunk::<SALT_BYTES>()?;
        if *name != self.name {
            return None;
        }
        let key = self.ticket_key(salt)?;
        let mut sealed = sealed.to_vec();
        let plain = key.open_in_place(nonce(), Aad::from(context), &mut sealed).ok()?;
        let (time, session) = plain.split_first_chunk::<TIME_BYTES>()?;
        Some((u64::from_be_bytes(*time), session.to_vec()))
    }
}

/// Returns the nonce zero: the key is used for this one ticket only.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

fn extract(secret: &[u8]) -> Prk {
    Salt::new(HKDF_SHA256, b"tidegate session ticket").extract(secret)
}

/// Random keys that are replaced after each session timeout; the last but one still decrypts. They survive
/// reloads.
pub struct RandomKeys {
    timeout: Duration,
    keys: Mutex<Vec<(TicketKey, u64)>>,
}

impl RandomKeys {
    /// Makes keys for sessions that can be resumed for this time.
    pub fn new(timeout: Duration) -> RandomKeys {
        RandomKeys { timeout, keys: Mutex::default() }
    }

    /// Returns the keys in use, the encrypting one first.
    fn current(&self, now_unix_seconds: u64) -> Vec<TicketKey> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let life = self.timeout.as_secs().max(1);
        let fresh = |made: u64| {
            made <= now_unix_seconds.saturating_add(SKEW_SECONDS)
                && now_unix_seconds.saturating_sub(made) < life
        };
        if !keys.first().is_some_and(|(_, made)| fresh(*made)) {
            if let Some(key) = TicketKey::random() {
                keys.insert(0, (key, now_unix_seconds));
            }
            keys.truncate(2);
        }
        keys.iter().map(|(key, _)| key.clone()).collect()
    }
}

/// How far the clock of a ticket's server may be ahead. What is later was made before the clock was set back, and would
/// stay new until then.
pub(crate) const SKEW_SECONDS: u64 = 600;

/// Keys that follow from a secret and the time (`ssl_session_ticket_key derived:`): all servers with the secret have the
/// same ones, without telling each other.
///
/// Time is divided into epochs, whose number is the Unix time divided by the length. The key of an epoch is expanded from
/// the secret and the number (HKDF, RFC 5869). The present epoch's key encrypts; those of the epochs before and behind it
/// decrypt as well, for tickets of the epoch before, and for servers whose clocks differ.
pub struct DerivedKeys {
    prk: Prk,
    /// The length of an epoch in seconds, at least 1.
    epoch: u64,
    /// Keys that were made, by their epochs: those around the present one.
    made: Mutex<BTreeMap<u64, TicketKey>>,
}

/// Shortest secret of derived keys, bytes: that of AES-256.
pub const SECRET_BYTES_MIN: usize = 32;

impl DerivedKeys {
    /// Makes the keys of a secret, which change after this time, at least a second; returns `None` for a secret of less
    /// than [`SECRET_BYTES_MIN`] bytes.
    pub fn new(secret: &[u8], rotate: Duration) -> Option<DerivedKeys> {
        if secret.len() < SECRET_BYTES_MIN {
            return None;
        }
        let prk = Salt::new(HKDF_SHA256, b"tidegate derived ticket keys").extract(secret);
        Some(DerivedKeys { prk, epoch: rotate.as_secs().max(1), made: Mutex::default() })
    }

    /// Returns the key of the epoch at this time.
    fn encrypting(&self, now_unix_seconds: u64) -> Option<TicketKey> {
        self.key(now_unix_seconds / self.epoch, now_unix_seconds)
    }

    /// Returns the keys that decrypt at this time, the encrypting one first.
    fn decrypting(&self, now_unix_seconds: u64) -> impl Iterator<Item = TicketKey> {
        let now = now_unix_seconds / self.epoch;
        let epochs = [Some(now), now.checked_sub(1), now.checked_add(1)];
        epochs.into_iter().flatten().filter_map(move |epoch| self.key(epoch, now_unix_seconds))
    }

    fn key(&self, epoch: u64, now_unix_seconds: u64) -> Option<TicketKey> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = made.get(&epoch) {
            return Some(key.clone());
        }
        let key = self.derive(epoch)?;
        let now = now_unix_seconds / self.epoch;
        made.retain(|known, _| known.abs_diff(now) <= 1);
        made.insert(epoch, key.clone());
        Some(key)
    }

    fn derive(&self, epoch: u64) -> Option<TicketKey> {
        let number = epoch.to_be_bytes();
        let mut name = [0; NAME_BYTES];
        let of_name: [&[u8]; 2] = [b"name", &number];
        self.prk.expand(&of_name, Length(NAME_BYTES)).ok()?.fill(&mut name).ok()?;
        let mut secret = [0; SECRET_BYTES_MIN];
        let of_key: [&[u8]; 2] = [b"key", &number];
        self.prk.expand(&of_key, Length(SECRET_BYTES_MIN)).ok()?.fill(&mut secret).ok()?;
        Some(TicketKey { name, prk: extract(&secret) })
    }
}

/// A number of bytes to expand.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// A key of `ssl_session_ticket_key`.
#[derive(Clone)]
pub enum ConfiguredKey {
    /// A file's.
    File(TicketKey),
    /// Those of a secret.
    Derived(Arc<DerivedKeys>),
}

impl ConfiguredKey {
    fn encrypting(&self, now_unix_seconds: u64) -> Option<TicketKey> {
        match self {
            ConfiguredKey::File(key) => Some(key.clone()),
            ConfiguredKey::Derived(keys) => keys.encrypting(now_unix_seconds),
        }
    }

    fn decrypt(&self, context: &[u8], ticket: &[u8], now: u64) -> Option<(u64, Vec<u8>)> {
        match self {
            ConfiguredKey::File(key) => key.decrypt(context, ticket),
            ConfiguredKey::Derived(keys) => {
                keys.decrypting(now).find_map(|key| key.decrypt(context, ticket))
            }
        }
    }
}

/// The source of a server's keys. Clones are the same keys, so that servers which share them resume each
/// other's sessions.
#[derive(Clone)]
pub enum TicketKeys {
    /// Configured ones: the first encrypts, all decrypt.
    Configured(Vec<ConfiguredKey>),
    /// Random keys, replaced after each session timeout.
    Random(Arc<RandomKeys>),
}

impl fmt::Debug for TicketKeys {
    /// Writes it without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TicketKeys::Configured(_) => "Configured",
            TicketKeys::Random(_) => "Random",
        })
    }
}

/// One server's tickets.
pub(crate) struct Tickets {
    pub(crate) keys: TicketKeys,
    pub(crate) timeout: Duration,
    /// The bytes that separate servers' sessions.
    pub(crate) context: [u8; 16],
}

impl Tickets {
    pub(crate) fn encrypt_at(&self, plain: &[u8], now_unix_seconds: u64) -> Option<Vec<u8>> {
        match &self.keys {
            TicketKeys::Configured(keys) => {
                let key = keys.first()?.encrypting(now_unix_seconds)?;
                key.encrypt(&self.context, now_unix_seconds, plain)
            }
            TicketKeys::Random(keys) => {
                let keys = keys.current(now_unix_seconds);
                keys.first()?.encrypt(&self.context, now_unix_seconds, plain)
            }
        }
    }

    pub(crate) fn decrypt_at(&self, ticket: &[u8], now_unix_seconds: u64) -> Option<Vec<u8>> {
        let (context, now) = (&self.context, now_unix_seconds);
        let (time, session) = match &self.keys {
            TicketKeys::Configured(keys) => {
                keys.iter().find_map(|key| key.decrypt(context, ticket, now))
            }
            TicketKeys::Random(keys) => {
                keys.current(now).iter().find_map(|key| key.decrypt(context, ticket))
            }
        }?;
        let age = now_unix_seconds.saturating_sub(time);
        if time > now_unix_seconds.saturating_add(SKEW_SECONDS) {
            return None;
        }
        (age <= self.timeout.as_secs()).then_some(session)
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        // RFC 8446 section 4.6.1: at most seven days.
        const LIFETIME_MAX: u64 = 7 * 86_400;
        self.timeout.as_secs().min(LIFETIME_MAX) as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        observed::note(|observed| observed.ticket_sent = true);
        self.encrypt_at(plain, tidegate_rt::clock::unix_millis() / 1000)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.decrypt_at(cipher, tidegate_rt::clock::unix_millis() / 1000)
    }
}

impl fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKey").finish_non_exhaustive()
    }
}

impl fmt::Debug for DerivedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DerivedKeys").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl fmt::Debug for RandomKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RandomKeys").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
