//! Tests of the mail between threads.

use tidegate_rt::sync::mpsc::error::TryRecvError;

use super::*;

fn packet(number: usize) -> Packet {
    let from = "127.0.0.1:1".parse().unwrap();
    Packet { bytes: number.to_string().into_bytes().into(), from, to: None, ecn: 0 }
}

fn address(port: u16) -> Address {
    Address::Inet(([127, 0, 0, 1], port).into())
}

/// Returns what has arrived.
fn arrived(threads: &mut Threads) -> Vec<String> {
    let next = || threads.mail.try_recv().ok();
    std::iter::from_fn(next).map(|got| String::from_utf8(got.bytes.to_vec()).unwrap()).collect()
}

#[test]
fn packets_reach_the_thread_of_their_address() {
    let mail = PacketMail::default();
    mail.set_count(2);
    let mut zero = mail.join(&address(1), 0);
    let mut one = mail.join(&address(1), 1);
    let mut other = mail.join(&address(2), 1);
    (zero.pass_on)(1, packet(5));
    (one.pass_on)(0, packet(6));
    // No thread has this number.
    (one.pass_on)(7, packet(7));
    assert_eq!([arrived(&mut zero), arrived(&mut one)], [["6"], ["5"]]);
    assert!(arrived(&mut other).is_empty());
    mail.set_count(4);
    assert_eq!(one.count.load(Ordering::Relaxed), 4);
}

#[test]
fn a_full_mailbox_drops_and_a_new_one_replaces_it() {
    let mail = PacketMail::default();
    let sender = mail.join(&address(1), 0);
    let mut old = mail.join(&address(1), 1);
    (0..WAITING_MAX + 9).for_each(|number| (sender.pass_on)(1, packet(number)));
    let got = arrived(&mut old);
    assert_eq!((got.len(), got.last().unwrap()), (WAITING_MAX, &(WAITING_MAX - 1).to_string()));
    let mut new = mail.join(&address(1), 1);
    (sender.pass_on)(1, packet(1));
    assert_eq!(old.mail.try_recv().unwrap_err(), TryRecvError::Disconnected);
    assert_eq!(arrived(&mut new), ["1"]);
    drop(new);
    (sender.pass_on)(1, packet(2));
    // The boxes of threads that have ended are forgotten.
    let _last = mail.join(&address(1), 2);
    let of_address = mail.addresses.lock().unwrap()[&address(1)].clone();
    let numbers: Vec<u16> = of_address.boxes.lock().unwrap().iter().map(|one| one.0).collect();
    assert_eq!(numbers, [0, 2]);
}

#[test]
fn numbers_of_threads_are_unique_and_lead_to_their_position() {
    for (position, wanted, used, expected) in [
        (0, 1, &[][..], 0),
        (3, 4, &[0, 1, 2], 3),
        // A thread of before still serves its connections.
        (2, 4, &[0, 1, 2, 3], 6),
        (2, 4, &[0, 1, 2, 6], 10),
        (0, 1, &[0, 1], 2),
        (300, 301, &[300], 556),
    ] {
        assert_eq!(thread_number(position, wanted, used), expected, "{position} of {wanted}");
    }
}
