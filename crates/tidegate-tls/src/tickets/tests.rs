//! Tickets by key files and by random keys.

use std::sync::Arc;
use std::time::Duration;

use super::{RandomKeys, TicketKey, TicketKeys, Tickets};

const TIMEOUT: Duration = Duration::from_secs(300);

fn file_key(seed: u8) -> TicketKey {
    TicketKey::from_file(&[seed; 80]).expect("80 bytes")
}

fn tickets(keys: Vec<TicketKey>) -> Tickets {
    Tickets { keys: TicketKeys::Files(keys), timeout: TIMEOUT, context: [7; 16] }
}

#[test]
fn tickets_by_key_files() {
    assert!(TicketKey::from_file(&[0; 48]).is_some());
    assert!(TicketKey::from_file(&[0; 64]).is_none());
    let old = tickets(vec![file_key(1)]);
    let rotated = tickets(vec![file_key(2), file_key(1)]);
    let new = tickets(vec![file_key(2)]);
    let ticket = old.encrypt_at(b"session", 1000).expect("encrypted");
    assert_ne!(old.encrypt_at(b"session", 1000).as_ref(), Some(&ticket), "a salt of its own");
    assert_eq!(old.decrypt_at(&ticket, 1300).as_deref(), Some(&b"session"[..]));
    assert_eq!(rotated.decrypt_at(&ticket, 1000).as_deref(), Some(&b"session"[..]));
    assert_eq!(new.decrypt_at(&ticket, 1000), None, "another key");
    assert_eq!(old.decrypt_at(&ticket, 1301), None, "too old");
    let unknown = Tickets { context: [8; 16], ..tickets(vec![file_key(1)]) };
    assert_eq!(unknown.decrypt_at(&ticket, 1000), None, "another server");
    for place in 0..ticket.len() {
        let mut broken = ticket.clone();
        broken[place] ^= 1;
        assert_eq!(old.decrypt_at(&broken, 1000), None, "changed byte {place}");
        assert_eq!(old.decrypt_at(&ticket[..place], 1000), None, "cut at {place}");
    }
}

#[test]
fn random_ticket_keys_are_replaced_in_time() {
    let keys = Arc::new(RandomKeys::new(TIMEOUT));
    let tickets = Tickets { keys: TicketKeys::Random(keys), timeout: TIMEOUT, context: [0; 16] };
    let name = |now| tickets.encrypt_at(b"s", now).expect("encrypted")[..16].to_vec();
    let first = name(1000);
    assert_eq!(name(1299), first);
    let ticket = tickets.encrypt_at(b"s", 1299).expect("encrypted");
    assert_ne!(name(1300), first, "replaced");
    assert!(tickets.decrypt_at(&ticket, 1599).is_some(), "the last key still decrypts");
    assert!(tickets.decrypt_at(&ticket, 1600).is_none(), "too old");
}

proptest::proptest! {
    #[test]
    fn any_ticket_is_read(ticket in proptest::collection::vec(0u8..=255, 0..200)) {
        let tickets = tickets(vec![file_key(1)]);
        proptest::prop_assert_eq!(tickets.decrypt_at(&ticket, 5), None);
    }
}
