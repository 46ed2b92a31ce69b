//! Packets as SCGI and uwsgi servers read them.

use proptest::prelude::*;

use super::*;

#[test]
fn a_scgi_request_is_a_netstring() {
    let mut out = Vec::new();
    scgi_pair(b"CONTENT_LENGTH", &mut out, |out| out.push(b'5'));
    scgi_pair(b"SCGI", &mut out, |out| out.push(b'1'));
    scgi_pair(b"X", &mut out, |out| out.extend_from_slice(b"a\0b"));
    scgi_close(&mut out, 0);
    assert_eq!(out, b"30:CONTENT_LENGTH\x005\0SCGI\x001\0X\0a b\0,");
}

#[test]
fn a_packet_that_is_too_large_is_reported() {
    let mut out = Vec::new();
    let start = uwsgi_open(&mut out);
    uwsgi_pair(b"A", &mut out, |out| out.resize(out.len() + 65_530, b'a'));
    assert_eq!(uwsgi_close(&mut out, start, (5, 6)), Ok(()));
    assert_eq!(out[..4], [5, 0xff, 0xff, 6]);
    uwsgi_pair(b"B", &mut out, |_| {});
    assert_eq!(uwsgi_close(&mut out, start, (0, 0)), Err(65_540));
}

proptest! {
    #[test]
    fn uwsgi_pairs_arrive(pairs in prop::collection::vec((
        prop::collection::vec(any::<u8>(), 0..300),
        prop::collection::vec(any::<u8>(), 0..300),
    ), 0..8)) {
        let mut out = Vec::new();
        let start = uwsgi_open(&mut out);
        for (name, value) in &pairs {
            uwsgi_pair(name, &mut out, |out| out.extend_from_slice(value));
        }
        prop_assert_eq!(uwsgi_close(&mut out, start, (0, 0)), Ok(()));
        prop_assert_eq!(usize::from(u16::from_le_bytes([out[1], out[2]])), out.len() - 4);
        let mut rest = &out[4..];
        let mut text = || {
            let (length, more) = rest.split_at(2);
            let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
            let (text, more) = more.split_at(length);
            rest = more;
            text.to_vec()
        };
        for pair in pairs {
            prop_assert_eq!((text(), text()), pair);
        }
        prop_assert!(rest.is_empty());
    }
}
