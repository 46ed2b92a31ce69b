//! Problem documents, whole and strange.

use super::{Problem, ProblemKind};

/// The document of RFC 8555 section 6.7.1, shortened.
const COMPOUND: &str = r#"{"type":"urn:ietf:params:acme:error:malformed",
    "detail":"Some of the identifiers requested were rejected",
    "subproblems":[
        {"type":"urn:ietf:params:acme:error:malformed","detail":"Invalid underscore in DNS name \"_example.org\"",
         "identifier":{"type":"dns","value":"_example.org"}},
        {"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"This CA will not issue for \"example.net\"",
         "identifier":{"type":"dns","value":"example.net"},"subproblems":[{"type":"x"}]}]}"#;

#[test]
fn problems_of_bodies() {
    let problem = Problem::of_body(COMPOUND.as_bytes());
    assert_eq!(problem.kind, ProblemKind::Other);
    assert_eq!(
        problem.to_string(),
        "malformed: Some of the identifiers requested were rejected; _example.org: malformed: Invalid underscore in \
         DNS name \"_example.org\"; example.net: rejectedIdentifier: This CA will not issue for \"example.net\""
    );
    assert!(problem.subproblems[1].1.subproblems.is_empty());
    let cases: [(&str, ProblemKind, &str); 9] = [
        (
            r#"{"type":"urn:ietf:params:acme:error:badNonce","detail":"used"}"#,
            ProblemKind::BadNonce,
            "badNonce: used",
        ),
        (
            r#"{"type":"urn:ietf:params:acme:error:rateLimited"}"#,
            ProblemKind::RateLimited,
            "rateLimited",
        ),
        (r#"{"type":"badNonce"}"#, ProblemKind::Other, "badNonce"),
        (r#"{"type":7,"detail":["x"],"subproblems":{}}"#, ProblemKind::Other, "no reason given"),
        (r#"{"detail":"a\nb\u001b[0m"}"#, ProblemKind::Other, "a b [0m"),
        (r#"{"subproblems":[1,null,{}]}"#, ProblemKind::Other, "no reason given; : : "),
        ("<html>502", ProblemKind::Other, "<html>502"),
        ("[]", ProblemKind::Other, "[]"),
        ("", ProblemKind::Other, "no reason given"),
    ];
    for (body, kind, text) in cases {
        let problem = Problem::of_body(body.as_bytes());
        assert_eq!((problem.kind, problem.to_string().as_str()), (kind, text), "{body}");
    }
}

#[test]
fn problems_are_limited() {
    let parts = vec![r#"{"type":"x","identifier":{"value":"a"}}"#; 1000].join(",");
    let body = format!(r#"{{"detail":"{}","subproblems":[{parts}]}}"#, "d".repeat(9000));
    let problem = Problem::of_body(body.as_bytes());
    assert_eq!((problem.subproblems.len(), problem.detail.chars().count()), (100, 513));
    assert!(problem.to_string().ends_with("; and 95 more"));
}
