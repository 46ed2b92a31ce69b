//! Session tickets: sessions that the client keeps, encrypted by keys of the server (RFC 5077, RFC 8446
//! section 4.6.1).
//!
//! A ticket is `name (16) | salt (32) | AES-256-GCM(time (8) | session)`. Each ticket has its own key,
//! derived from the named key and the salt, so that no nonce is ever used twice, whatever number of servers
//! share a key file. Additional data is the server's context: a ticket of one server is invalid for another
//! one with other certificates.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
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
        let fresh = |made: u64| now_unix_seconds.saturating_sub(made) < life;
        if !keys.first().is_some_and(|(_, made)| fresh(*made)) {
            if let Some(key) = TicketKey::random() {
                keys.insert(0, (key, now_unix_seconds));
            }
            keys.truncate(2);
        }
        keys.iter().map(|(key, _)| key.clone()).collect()
    }
}

/// The source of a server's keys. Clones are the same keys, so that servers which share them resume each
/// other's sessions.
#[derive(Clone)]
pub enum TicketKeys {
    /// Files: the first key encrypts, all decrypt.
    Files(Vec<TicketKey>),
    /// Random keys, replaced after each session timeout.
    Random(Arc<RandomKeys>),
}

impl fmt::Debug for TicketKeys {
    /// Writes it without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TicketKeys::Files(_) => "Files",
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
            TicketKeys::Files(keys) => {
                keys.first()?.encrypt(&self.context, now_unix_seconds, plain)
            }
            TicketKeys::Random(keys) => {
                let keys = keys.current(now_unix_seconds);
                keys.first()?.encrypt(&self.context, now_unix_seconds, plain)
            }
        }
    }

    pub(crate) fn decrypt_at(&self, ticket: &[u8], now_unix_seconds: u64) -> Option<Vec<u8>> {
        let decrypt =
            |keys: &[TicketKey]| keys.iter().find_map(|key| key.decrypt(&self.context, ticket));
        let (time, session) = match &self.keys {
            TicketKeys::Files(keys) => decrypt(keys),
            TicketKeys::Random(keys) => decrypt(&keys.current(now_unix_seconds)),
        }?;
        let age = now_unix_seconds.saturating_sub(time);
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
