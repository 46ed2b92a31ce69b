//! Tickets by key files and by random keys.

use std::sync::Arc;
use std::time::Duration;

use super::{ConfiguredKey, DerivedKeys, RandomKeys, TicketKey, TicketKeys, Tickets};

const TIMEOUT: Duration = Duration::from_secs(300);

fn file_key(seed: u8) -> TicketKey {
    TicketKey::from_file(&[seed; 80]).expect("80 bytes")
}

fn tickets(keys: Vec<TicketKey>) -> Tickets {
    configured(keys.into_iter().map(ConfiguredKey::File).collect())
}

fn configured(keys: Vec<ConfiguredKey>) -> Tickets {
    Tickets { keys: TicketKeys::Configured(keys), timeout: TIMEOUT, context: [7; 16] }
}

/// A server with a secret of its own memory, whose keys change each 100 s.
fn derived(secret: u8) -> Tickets {
    let keys = DerivedKeys::new(&[secret; 32], Duration::from_secs(100)).expect("32 bytes");
    configured(vec![ConfiguredKey::Derived(Arc::new(keys))])
}

#[test]
fn servers_with_one_secret_have_the_same_keys() {
    assert!(DerivedKeys::new(&[1; 31], TIMEOUT).is_none(), "a short secret");
    let (one, two, other) = (derived(1), derived(1), derived(2));
    let ticket = one.encrypt_at(b"session", 1050).expect("encrypted");
    assert_eq!(two.decrypt_at(&ticket, 1050).as_deref(), Some(&b"session"[..]));
    assert_eq!(other.decrypt_at(&ticket, 1050), None, "another secret");
    let longer = DerivedKeys::new(&[1; 32], Duration::from_secs(3600)).expect("32 bytes");
    let longer = configured(vec![ConfiguredKey::Derived(Arc::new(longer))]);
    assert_eq!(longer.decrypt_at(&ticket, 1050), None, "another length of epochs");
}

#[test]
fn keys_of_the_epochs_beside_the_present_one_decrypt() {
    // Whatever keys the other server has made before.
    for seen in [None, Some(0), Some(1050), Some(9999)] {
        let (one, two) = (derived(1), derived(1));
        if let Some(seen) = seen {
            two.encrypt_at(b"", seen).expect("encrypted");
        }
        let ticket = one.encrypt_at(b"s", 1050).expect("encrypted");
        for (now, expected) in
            [(899, false), (900, true), (999, true), (1000, true), (1199, true), (1200, false)]
        {
            assert_eq!(two.decrypt_at(&ticket, now).is_some(), expected, "{seen:?} {now}");
        }
        let name = |now| one.encrypt_at(b"s", now).expect("encrypted")[..16].to_vec();
        assert_eq!(name(1000), name(1099));
        assert_ne!(name(1099), name(1100), "the next epoch");
    }
    // The first and the last epoch of all have one neighbour.
    let keys = derived(1);
    for now in [0, u64::MAX] {
        let ticket = keys.encrypt_at(b"s", now).expect("encrypted");
        assert!(keys.decrypt_at(&ticket, now).is_some());
    }
}

#[test]
fn a_secret_and_files_are_in_one_list() {
    let secret = || match &derived(1).keys {
        TicketKeys::Configured(keys) => keys[0].clone(),
        TicketKeys::Random(_) => unreachable!("a secret"),
    };
    let moving = configured(vec![secret(), ConfiguredKey::File(file_key(1))]);
    let ticket = tickets(vec![file_key(1)]).encrypt_at(b"s", 1000).expect("encrypted");
    assert!(moving.decrypt_at(&ticket, 1000).is_some());
    let ticket = moving.encrypt_at(b"s", 1000).expect("encrypted");
    assert!(derived(1).decrypt_at(&ticket, 1000).is_some(), "the first encrypts");
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
fn a_clock_that_was_ahead_leaves_neither_keys_nor_tickets() {
    let keys = Arc::new(RandomKeys::new(TIMEOUT));
    let tickets = Tickets { keys: TicketKeys::Random(keys), timeout: TIMEOUT, context: [0; 16] };
    let name = |now| tickets.encrypt_at(b"s", now).expect("encrypted")[..16].to_vec();
    let (ahead, ticket) = (name(100_000), tickets.encrypt_at(b"s", 100_000).expect("encrypted"));
    assert!(tickets.decrypt_at(&ticket, 99_400).is_some(), "as clocks differ");
    assert_eq!(tickets.decrypt_at(&ticket, 99_399), None);
    assert_ne!(name(1000), ahead);
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
