//! Tests of the messages between master and worker.

use std::io::{Read, Seek, Write};

use tidegate_os::socket::socketpair;

use super::*;

#[test]
fn a_handover_arrives_complete() {
    let (here, there) = socketpair().unwrap();
    let mut log = tempfile::tempfile().unwrap();
    log.write_all(b"a log").unwrap();
    let listening = || {
        let (one, two) = socketpair().unwrap();
        let address = Address::Inet("127.0.0.1:80".parse().unwrap());
        let place = ListenerKey { address, datagram: true };
        let unix = ListenerKey { address: Address::Unix("/run/s".into()), datagram: false };
        let none = Listening { place: unix, sockets: Vec::new(), is_supervisors: false };
        vec![
            Listening { place, sockets: vec![one.into(), two.into()], is_supervisors: false },
            none,
        ]
    };
    let credentials = Credentials { user_name: "nobody".into(), uid: 65534, gid: 65534 };
    let rights = Rights {
        credentials: Some(credentials),
        groups: Vec::new(),
        sends_from_anywhere: true,
        files_max: Some(0),
        core_bytes_max: None,
        priority: Some(-5),
        directory: Some("/tmp".into()),
    };
    let origin = Origin {
        prefix: "/p/".into(),
        file: "/p/nginx.conf".into(),
        error_log: "stderr".into(),
        directives: "daemon off;".into(),
    };
    let bundle = Bundle { files: vec![("/p/nginx.conf".into(), b"x;"[..].into())], globs: vec![] };
    let findings = Findings {
        machine: Machine { privileged: true, host_name: "here".into(), ipv6: true },
        names: vec![("a".into(), vec!["::1".parse().unwrap()]), ("b".into(), vec![])],
        contents: vec![(PathBuf::from("/p/key"), vec![0, 255])],
    };
    let handover = Handover {
        generation: 7,
        origin: origin.clone(),
        rights: rights.clone(),
        bundle: bundle.clone(),
        findings: findings.clone(),
        logs: vec![("/p/error.log".into(), log)],
        listening: listening(),
    };
    ToWorker::Serve(Box::new(handover)).send(&here).unwrap();
    let Some(ToWorker::Serve(mut got)) = ToWorker::receive(&there).unwrap() else {
        panic!("another message arrived");
    };
    assert_eq!((got.generation, &got.origin, &got.rights), (7, &origin, &rights));
    assert_eq!((&got.bundle, &got.findings), (&bundle, &findings));
    let (path, file) = &mut got.logs[0];
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!((path.as_path(), text.as_str()), (Path::new("/p/error.log"), "a log"));
    let found: Vec<_> =
        got.listening.iter().map(|one| (one.place.clone(), one.sockets.len())).collect();
    let expected: Vec<_> =
        listening().iter().map(|one| (one.place.clone(), one.sockets.len())).collect();
    assert_eq!(found, expected);
}

#[test]
fn replies_arrive_and_the_end_is_seen() {
    let (here, there) = socketpair().unwrap();
    let messages =
        [ToMaster::Ready(1), ToMaster::Failed(2, "no memory".into()), ToMaster::Retired(1)];
    for message in &messages {
        message.send(&here).unwrap();
        assert_eq!(ToMaster::receive(&there).unwrap().as_ref(), Some(message));
    }
    drop(here);
    assert_eq!(ToMaster::receive(&there).unwrap(), None);
}

#[test]
fn foreign_bytes_are_refused() {
    for bytes in [&b""[..], b"\0", b"\x01", b"\x01abc", &[SERVE; 64], &[REOPEN, 1, 0, 0, 0]] {
        let (here, there) = socketpair().unwrap();
        pass::send_with_fds(&here, bytes, &[]).unwrap();
        assert!(ToWorker::receive(&there).is_err(), "{bytes:?}");
    }
}
