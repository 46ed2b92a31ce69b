//! `flv` against files in a directory.

use super::start;
use crate::testing::Bench;

#[test]
fn a_start_cuts_and_puts_a_header_in_front() {
    let bench = Bench::with_files(
        "server { listen 80; root {dir}; location / { flv; } }",
        &[("v.flv", "0123456789")],
    );
    let reply = bench.get("/v.flv?start=4");
    assert_eq!(reply.status, 200);
    assert_eq!(&reply.body[..4], b"FLV\x01");
    assert_eq!(&reply.body[13..], b"456789");
    for whole in ["/v.flv", "/v.flv?start=10", "/v.flv?start=x", "/v.flv?start=0"] {
        assert_eq!(bench.get(whole).body, b"0123456789", "{whole}");
    }
    assert_eq!(bench.get("/none.flv?start=4").status, 404);
}

#[test]
fn the_argument_is_found_among_others() {
    assert_eq!(start(b"a=1&start=12&b"), Some(12));
    assert_eq!(start(b"restart=12"), None);
    assert_eq!(start(b"start=-1"), None);
}
