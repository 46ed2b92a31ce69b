//! The PROXY header that precedes a handshake.

use tidegate_rt::net::Stream;
use tidegate_upstream::ConnectError;

use super::write_header;

#[test]
fn a_header_that_cannot_be_written_is_a_failure_of_the_server() {
    let work = async {
        let (ours, theirs) = Stream::pair().unwrap();
        let mut header = b"PROXY TCP4 ".to_vec();
        write_header(&ours, &mut header).await.unwrap();
        assert!(header.is_empty());
        drop(theirs);
        write_header(&ours, &mut header).await.unwrap();
        let mut header = b"PROXY TCP4 ".to_vec();
        write_header(&ours, &mut header).await.unwrap_err()
    };
    let error = tidegate_rt::block_on(work).unwrap();
    assert!(matches!(error, ConnectError::Header(_)), "{error}");
    assert_eq!(error.action(), "connecting to upstream");
    assert!(error.to_string().starts_with("send() failed ("), "{error}");
}
