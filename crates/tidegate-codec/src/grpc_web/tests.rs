//! Types, bodies and trailers of gRPC-Web.

use proptest::prelude::*;

use super::*;
use crate::headers::Headers;

#[test]
fn types_of_requests() {
    let check = |value: &str, is_text: bool, grpc: &str| {
        let parsed = ContentType::parse(value.as_bytes()).map(|sent| (sent.is_text, sent.grpc()));
        assert_eq!(parsed, Some((is_text, grpc.as_bytes().to_vec())), "{value}");
    };
    check("application/grpc-web", false, "application/grpc");
    check("application/grpc-web+proto", false, "application/grpc+proto");
    check("Application/gRPC-Web+json; a=b", false, "application/grpc+json; a=b");
    check("application/grpc-web-text", true, "application/grpc");
    check("application/grpc-web-text+proto", true, "application/grpc+proto");
    check("application/grpc-web-text; charset=utf-8", true, "application/grpc; charset=utf-8");
    for other in
        ["application/grpc", "application/grpc+proto", "application/grpc-webs", "", "text/plain"]
    {
        assert_eq!(ContentType::parse(other.as_bytes()), None, "{other}");
    }
}

#[test]
fn types_of_responses() {
    let check = |grpc: &str, accept: Option<&str>, sent: &str, expected: Option<&str>| {
        let request = ContentType::parse(sent.as_bytes()).expect("gRPC-Web");
        let is_text = wants_text(accept.map(str::as_bytes), request);
        let made = response_type(grpc.as_bytes(), is_text);
        assert_eq!(made.as_deref(), expected.map(str::as_bytes), "{grpc} {accept:?} {sent}");
    };
    let (web, text) = ("application/grpc-web", "application/grpc-web-text");
    check("application/grpc", None, web, Some(web));
    check("application/grpc+proto", None, text, Some("application/grpc-web-text+proto"));
    check("application/grpc", Some("*/*"), text, Some(text));
    check("application/grpc", Some("application/grpc-web-text"), web, Some(text));
    check("application/grpc", Some("text/html, application/grpc-web+proto"), text, Some(web));
    check("text/html", None, web, None);
    check("application/grpc-web", None, web, None);
}

fn decode(pieces: &[&[u8]], is_text: bool) -> (Vec<u8>, Result<(), WebError>) {
    let (mut decoder, mut body) = (RequestDecoder::new(is_text), Vec::new());
    let mut pieces = pieces.iter();
    let result = pieces.try_for_each(|piece| decoder.decode(piece, &mut body));
    (body, result.and_then(|()| decoder.finish()))
}

#[test]
fn bodies() {
    let check = |pieces: &[&[u8]], is_text: bool, body: &[u8], result: Result<(), WebError>| {
        assert_eq!(decode(pieces, is_text), (body.to_vec(), result), "{pieces:?}");
    };
    let incomplete = Err(WebError::Incomplete);
    check(&[], false, b"", Ok(()));
    check(&[b"\0\0\0\0\0"], false, b"\0\0\0\0\0", Ok(()));
    check(
        &[b"\x01\0\0", b"\0\x02h", b"i\0\0\0\0\x01a"],
        false,
        b"\x01\0\0\0\x02hi\0\0\0\0\x01a",
        Ok(()),
    );
    check(&[b"\0\0\0\0"], false, b"\0\0\0\0", incomplete);
    check(&[b"\0\0\0\0\x02h"], false, b"\0\0\0\0\x02h", incomplete);
    check(&[b"\x80\0\0\0\0"], false, b"\x80\0\0\0\0", Err(WebError::Flags(0x80)));
    check(&[b"\0\0\0\0\0\x02"], false, b"\0\0\0\0\0\x02", Err(WebError::Flags(2)));
    check(&[b"AAAAAAJo", b"aQ=="], true, b"\0\0\0\0\x02hi", Ok(()));
    check(&[b"AA==", b"AAAAAm", b"hp"], true, b"\0\0\0\0\x02hi", Ok(()));
    check(&[b"AAAAAAJoaQ="], true, b"\0\0\0\0\x02h", incomplete);
    check(&[b"AAAAAAJoa"], true, b"\0\0\0\0\x02h", incomplete);
    check(&[b"AAAAAAJo\r\naQ=="], true, b"\0\0\0\0\x02h", Err(WebError::Base64));
    for broken in [&b"="[..], b"A===", b"AA=A", b"AA-A", b"A\xffAA"] {
        check(&[broken], true, b"", Err(WebError::Base64));
    }
}

#[test]
fn trailers_are_a_frame() {
    let mut trailers = Headers::new();
    let mut out = b"x".to_vec();
    write_trailers(&trailers, &mut out);
    assert_eq!(out, b"x\x80\0\0\0\0");
    trailers.push(b"Grpc-Status", b"0");
    trailers.push(b"grpc-message", b"");
    out.clear();
    write_trailers(&trailers, &mut out);
    assert_eq!(out, b"\x80\0\0\0\x20grpc-status: 0\r\ngrpc-message: \r\n"[..].to_vec());
}

/// Frames with these messages.
fn framed(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Vec::new();
    for message in messages {
        body.push(0);
        body.extend_from_slice(&u32::try_from(message.len()).unwrap_or(0).to_be_bytes());
        body.extend_from_slice(message);
    }
    body
}

proptest! {
    #[test]
    fn base64_in_pieces_is_decoded_in_other_pieces(
        messages: Vec<Vec<u8>>,
        written in 1usize..40,
        read in 1usize..40,
    ) {
        let body = framed(&messages);
        let mut text = Vec::new();
        body.chunks(written).for_each(|piece| write_base64(piece, &mut text));
        let pieces: Vec<&[u8]> = text.chunks(read).collect();
        prop_assert_eq!(decode(&pieces, true), (body.clone(), Ok(())));
        let pieces: Vec<&[u8]> = body.chunks(read).collect();
        prop_assert_eq!(decode(&pieces, false), (body, Ok(())));
    }

    #[test]
    fn a_cut_body_is_incomplete(messages: Vec<Vec<u8>>, cut: prop::sample::Index) {
        let body = framed(&messages);
        prop_assume!(!body.is_empty());
        let cut = cut.index(body.len());
        let ends = (0..=messages.len()).map(|count| framed(&messages[..count]).len());
        let expected = match ends.into_iter().any(|end| end == cut) {
            true => Ok(()),
            false => Err(WebError::Incomplete),
        };
        prop_assert_eq!(decode(&[&body[..cut]], false).1, expected);
    }

    #[test]
    fn any_bytes_and_pieces_are_safe(data: Vec<u8>) {
        crate::fuzzing::fuzz_grpc_web(&data);
    }
}
