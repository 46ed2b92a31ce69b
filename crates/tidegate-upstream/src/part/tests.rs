//! Requests for parts.

use std::net::{Ipv4Addr, SocketAddr};

use tidegate_rt::net::Addr;

use super::*;

const START: &str = "GET /a?b HTTP/1.1\r\n";

fn request(method: &str, head: &str) -> OriginRequest {
    let address = Addr::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 80)));
    OriginRequest {
        group: Arc::new(Group::transient("origin", vec![address], tidegate_rt::clock::now())),
        choice: Choice::default(),
        method: Method::of(method.as_bytes()),
        target: 4..8,
        head: head.as_bytes().to_vec().into(),
        payload: RequestPayload::None,
        local: None,
        paced: true,
        interim: None,
        reuse: ConnectionReuse::AsGroup,
        upgrade: true,
        location_tag: 7,
        tls: None,
        wire: Wire::Http,
    }
}

#[test]
fn a_part_is_requested_like_the_complete_object() {
    let check = |fields: &str, last: Option<u64>, expected: &str| {
        let whole = request("GET", &format!("{START}{fields}\r\n"));
        let part =
            PartRequest::of(&whole).expect("can be sent again").part(5, last, Some(b"\"e\""));
        assert_eq!(String::from_utf8_lossy(part.head.text()), format!("{START}{expected}\r\n"));
        assert_eq!(part.target_text(), b"/a?b");
        assert!(!part.upgrade && !part.paced && part.location_tag == 7);
    };
    check("Host: a\r\n", None, "Host: a\r\nRange: bytes=5-\r\nIf-Range: \"e\"\r\n");
    check("", Some(9), "Range: bytes=5-9\r\nIf-Range: \"e\"\r\n");
    check(
        "A: 1\r\nIF-NONE-MATCH: \"x\"\r\nIf-Modified-Since: now\r\nB: 2\r\n",
        None,
        "A: 1\r\nB: 2\r\nRange: bytes=5-\r\nIf-Range: \"e\"\r\n",
    );
}

#[test]
fn unrepeatable_requests_have_no_parts() {
    let check = |what: &str, request: &OriginRequest, expected: bool| {
        assert_eq!(PartRequest::of(request).is_some(), expected, "{what}");
    };
    let plain = format!("{START}Host: a\r\n\r\n");
    check("plain", &request("GET", &plain), true);
    check("not a GET", &request("POST", &plain), false);
    check("a range", &request("GET", &format!("{START}range: bytes=0-1\r\n\r\n")), false);
    check("another field", &request("GET", &format!("{START}Ranges: 1\r\n\r\n")), true);
    let mut sent = request("GET", &plain);
    sent.payload = RequestPayload::Bytes(Bytes::from_static(b"x"));
    check("a body at hand", &sent, true);
    sent.payload = RequestPayload::Stream { body: Box::default(), chunked: false, keep_max: 0 };
    check("a body as it comes", &sent, false);
}

#[test]
fn a_server_that_is_excluded_is_not_chosen() {
    let whole = request("GET", &format!("{START}\r\n"));
    let mut rest = PartRequest::of(&whole).expect("can be sent again");
    assert_eq!(rest.servers(), 1);
    let only = whole.group.view(tidegate_rt::clock::now())[0].peer.clone();
    rest.exclude(&only);
    let mut part = rest.part(1, None, None);
    assert!(part.group.choose(&mut part.choice, tidegate_rt::clock::now()).is_none());
}
