//! Signatures against the examples that AWS has published for S3; credentials, paths and error codes.

use proptest::prelude::*;

use super::{
    Credentials, CredentialsError, ERROR_BYTES_MAX, PROFILE_DEFAULT, Request, authorization,
    encode_path, error_code, payload_hash,
};

const TIME: &str = "20130524T000000Z";
const HOST: (&str, &str) = ("host", "examplebucket.s3.amazonaws.com");

/// The keys of the examples.
fn example() -> Credentials {
    Credentials::new("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None)
}

fn signature(
    (method, path, query): (&str, &str, &str),
    payload: &[u8],
    fields: &[(&str, &str)],
    credentials: &Credentials,
) -> String {
    let payload_hash = payload_hash(payload);
    let mut signed = vec![HOST, ("x-amz-content-sha256", &payload_hash), ("x-amz-date", TIME)];
    signed.extend_from_slice(fields);
    let request = Request {
        method,
        path: &encode_path(path),
        query,
        fields: &signed,
        payload_hash: &payload_hash,
        region: "us-east-1",
        time: TIME,
    };
    let value = authorization(&request, credentials);
    value.rsplit_once("Signature=").expect("a signature").1.to_owned()
}

#[test]
fn the_published_examples_of_s3() {
    type Fields = &'static [(&'static str, &'static str)];
    type Row = ((&'static str, &'static str, &'static str), &'static [u8], Fields, &'static str);
    let table: [Row; 4] = [
        (
            ("GET", "/test.txt", ""),
            b"",
            &[("range", "bytes=0-9")],
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            ("PUT", "/test$file.text", ""),
            b"Welcome to Amazon S3.",
            &[
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ],
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            ("GET", "/", "lifecycle="),
            b"",
            &[],
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            ("GET", "/", "max-keys=2&prefix=J"),
            b"",
            &[],
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ];
    for (line, payload, fields, expected) in table {
        assert_eq!(signature(line, payload, fields, &example()), expected, "{line:?}");
    }
}

#[test]
fn the_value_names_key_scope_and_fields() {
    let hash = payload_hash(b"");
    let fields = [("x-amz-date", TIME), HOST];
    let request = Request {
        method: "GET",
        path: "/",
        query: "",
        fields: &fields,
        payload_hash: &hash,
        region: "eu-central-1",
        time: TIME,
    };
    let value = authorization(&request, &example());
    let expected = "AWS4-HMAC-SHA256 \
        Credential=AKIAIOSFODNN7EXAMPLE/20130524/eu-central-1/s3/aws4_request,\
        SignedHeaders=host;x-amz-date,Signature=";
    assert_eq!(value.get(..expected.len()), Some(expected));
}

#[test]
fn credentials_files() {
    const FILE: &str = "# keys\n[default]\naws_access_key_id = AK\naws_secret_access_key=S/K+=\n\
        [ other ]\n; no\nAWS_ACCESS_KEY_ID=B\r\naws_secret_access_key =  T\naws_session_token = U\n\
        [none]\n[half]\naws_access_key_id=A\n[bad]\naws_access_key_id=A/B\naws_secret_access_key=C\n";
    let table = [
        (PROFILE_DEFAULT, Ok(Credentials::new("AK", "S/K+=", None))),
        ("other", Ok(Credentials::new("B", "T", Some("U")))),
        ("none", Err(CredentialsError::NoAccessKey)),
        ("half", Err(CredentialsError::NoSecretKey)),
        ("bad", Err(CredentialsError::InvalidKey)),
        ("missing", Err(CredentialsError::NoProfile)),
    ];
    for (profile, expected) in table {
        assert_eq!(Credentials::parse(FILE, profile), expected, "{profile}");
    }
    assert_eq!(format!("{:?}", example()), "Credentials");
}

#[test]
fn error_codes() {
    let late = [vec![b' '; ERROR_BYTES_MAX], b"<Code>NoSuchKey</Code>".to_vec()].concat();
    let long = [b"<Code>".to_vec(), vec![b'a'; 100], b"</Code>".to_vec()].concat();
    let table: [(&[u8], Option<&str>); 7] = [
        (b"<Error><Code>NoSuchKey</Code><Message>x</Message></Error>", Some("NoSuchKey")),
        (b"<Code>A</Code><Code>B</Code>", Some("A")),
        (b"<Code></Code>", None),
        (b"<Code>&lol9;</Code>", None),
        (b"<Code>NoSuchKey", None),
        (&late, None),
        (&long, None),
    ];
    for (text, expected) in table {
        assert_eq!(error_code(text), expected, "{}", String::from_utf8_lossy(text));
    }
}

proptest! {
    /// The order of the fields does not matter, and everything that is signed does.
    #[test]
    fn a_signature_depends_on_all_of_the_request(
        method in prop::sample::select(vec!["GET", "PUT"]),
        path in "/[a-z$ %]{0,20}",
        value in "[a-z0-9]{1,10}",
        payload in prop::collection::vec(any::<u8>(), 0..64),
        secret in "[A-Za-z0-9/+]{1,40}",
    ) {
        let credentials = Credentials::new("AK", &secret, None);
        let fields = [("x-amz-a", value.as_str()), ("if-none-match", "*")];
        let swapped = [fields[1], fields[0]];
        let line = (method, path.as_str(), "");
        let own = signature(line, &payload, &fields, &credentials);
        prop_assert_eq!(&own, &signature(line, &payload, &swapped, &credentials));
        let longer = format!("{path}x");
        let more = [payload.clone(), vec![0]].concat();
        let other_value = format!("{value}x");
        let others = [
            signature((method, &longer, ""), &payload, &fields, &credentials),
            signature((method, &path, "a="), &payload, &fields, &credentials),
            signature(line, &more, &fields, &credentials),
            signature(line, &payload, &[("x-amz-a", &other_value), fields[1]], &credentials),
            signature(line, &payload, &fields[..1], &credentials),
            signature(line, &payload, &fields, &Credentials::new("AK", &format!("{secret}x"), None)),
        ];
        for other in others {
            prop_assert_ne!(&own, &other);
        }
    }

    /// Paths consist of what a request line may have, and decode to what they were.
    #[test]
    fn encoded_paths_decode_to_themselves(path in "\\PC{0,40}") {
        let encoded = encode_path(&path);
        prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_graphic()));
        let mut decoded = Vec::new();
        let mut rest = encoded.as_bytes();
        while let [first, others @ ..] = rest {
            rest = others;
            if *first != b'%' {
                decoded.push(*first);
                continue;
            }
            let digits = std::str::from_utf8(&rest[..2]).expect("digits");
            decoded.push(u8::from_str_radix(digits, 16).expect("a number"));
            rest = &rest[2..];
        }
        prop_assert_eq!(decoded, path.as_bytes());
    }

    /// No file and no error text makes it panic.
    #[test]
    fn any_text_is_read(text in any::<String>(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Credentials::parse(&text, PROFILE_DEFAULT);
        let _ = error_code(&bytes);
    }
}
