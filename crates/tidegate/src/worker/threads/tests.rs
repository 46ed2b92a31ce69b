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
    let inode = |socket: &OwnedSocket| tidegate_os::socket::identity(socket);
    let place = ListenerKey { address: Address::Unix("/s".into()), datagram: false };
    let listening = Listening { place, sockets: vec![socket(), socket()], is_supervisors: false };
    let own: Vec<u64> = listening.sockets.iter().map(inode).collect();
    let given: Vec<u64> =
        (0..3).map(|position| inode(&sockets(&[&listening], position).unwrap()[0].1)).collect();
    assert_eq!(given, [own[0], own[1], own[0]]);
}
