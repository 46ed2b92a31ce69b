//! Tests of the resources of worker threads.

use tidegate_core::client::Address;

use super::*;

#[test]
fn masks_repeat_and_auto_goes_round() {
    let masks = Affinity::Masks(vec![0b01, 0b10]);
    let found: Vec<_> = (0..3).map(|position| pin(Some(&masks), position)).collect();
    assert_eq!(found, [Some(vec![1]), Some(vec![2]), Some(vec![2])]);
    assert_eq!(pin(None, 0), None);

    let cpus = thread_cpus().unwrap();
    let auto = Affinity::Auto(None);
    let first = pin(Some(&auto), 0).unwrap();
    assert_eq!(pin(Some(&auto), cpus.len()).unwrap(), first);
    assert_eq!(first.iter().map(|word| word.count_ones()).sum::<u32>(), 1);
    // A mask without any processor of this machine pins nothing.
    assert_eq!(pin(Some(&Affinity::Auto(Some(0))), 0), None);
}

#[test]
fn a_reuseport_address_has_a_socket_for_each_thread() {
    let socket = || tidegate_os::socket::socketpair().unwrap().0;
    let place = ListenerKey { address: Address::Unix("/s".into()), datagram: false };
    let listening =
        Listening { place, sockets: vec![socket().into(), socket().into()], is_supervisors: false };
    let given = |position| sockets(&[&listening], position).remove(0);
    for (position, own) in [(0, 0), (1, 1), (2, 0)] {
        assert!(Arc::ptr_eq(&given(position).socket, &listening.sockets[own]), "{position}");
    }
    #[cfg(unix)]
    assert_ne!(given(0).identity, given(1).identity);
}
