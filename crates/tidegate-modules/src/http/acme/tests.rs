//! Names, URLs, files, and responses to validations.

use tidegate_acme::{Challenge, ChallengeKind, Change, Identifier};
use tidegate_conf::{FsLoader, Parser, SourceMap, Span, Word};

use super::certificates::{Certificates, Part, ServerCertificate};
use super::challenges::Challenges;
use super::https::Url;
use super::names;
use super::store::{self, Store};
use crate::testing::Bench;

fn parsed(names: &[&str]) -> Result<Vec<String>, String> {
    parsed_for(names, ChallengeKind::Http01)
}

fn parsed_for(names: &[&str], by: ChallengeKind) -> Result<Vec<String>, String> {
    let file = SourceMap::new().add_fragment("test", Vec::new()).expect("a file");
    let span = Span { file, start: 0, end: 0 };
    let word = |name: &&str| Word { bytes: name.as_bytes().to_vec(), span, quoted: false };
    let words: Vec<Word> = names.iter().map(word).collect();
    let parsed = names::parse(&words, "host.test", by).map_err(|found| found.message)?;
    Ok(parsed.iter().map(ToString::to_string).collect())
}

#[test]
fn names_of_servers_become_names_of_certificates() {
    for (names, expected) in [
        (&["A.test", "b.test", "a.TEST"][..], &["a.test", "b.test"][..]),
        (&[".a.test"], &["a.test", "www.a.test"]),
        (&["", "$hostname"], &["host.test"]),
        (
            &["192.0.2.1", "2001:db8::1", "[2001:db8::2]"],
            &["192.0.2.1", "2001:db8::1", "2001:db8::2"],
        ),
        (&[], &[]),
    ] {
        assert_eq!(
            parsed(names).as_deref(),
            Ok(&*expected.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        );
    }
    for name in ["*.a.test", "www.a.*", "~a", "_", "a..test", ".*", "ä.test", "-a.test"] {
        let refused = parsed(&[name]).expect_err(name);
        assert_eq!(refused, format!("invalid server name \"{name}\" for a certificate"));
    }
    let many: Vec<String> = (0..101).map(|number| format!("a{number}.test")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(parsed(&many).expect_err("many"), "a certificate has at most 100 names");
}

#[test]
fn urls_of_servers_have_https_a_host_and_no_user() {
    for url in ["https://a", "https://a:1/b?c#d", "https://[::1]:2/", "https://[::1]"] {
        assert!(Url::parse(url).is_ok(), "{url}");
    }
    for url in
        ["", "http://a/", "https://", "https:///a", "https://u@a/", "https://a:x/", "https://a b/"]
    {
        assert!(Url::parse(url).is_err(), "{url}");
    }
}

#[test]
fn directives_are_compiled_and_mistakes_named() {
    let issuer = "uri https://a/dir; ssl_verify off; state_path off;";
    let server = "server { server_name a.test; acme_certificate x; ssl_certificate $acme_certificate; \
                  ssl_certificate_key $acme_certificate_key; }";
    Bench::new(&format!("acme_issuer x {{ {issuer} }} {server}"));
    Bench::new(&format!("acme_issuer unused {{ {issuer} }}"));
    for (config, expected) in [
        (format!("acme_issuer y {{ {issuer} }} {server}"), "issuer \"x\" is missing"),
        (
            format!("acme_issuer x {{ ssl_verify off; }} {server}"),
            "\"uri\" is missing in acme_issuer \"x\"",
        ),
        (
            format!("acme_issuer x {{ {issuer} challenge dns-01; }}"),
            "\"challenge dns-01\" needs \"exec=PROGRAM\"",
        ),
        (format!("acme_issuer x {{ {issuer} account_key ecdsa:1; }}"), "unsupported curve \"1\""),
        (format!("acme_issuer x {{ {issuer} account_key rsa:1; }}"), "unsupported key size \"1\""),
        (format!("acme_issuer x {{ {issuer} account_key absent; }}"), "cannot load account key"),
        (format!("acme_issuer x {{ {issuer} server; }}"), "not allowed here"),
        ("uri https://a/;".to_owned(), "not allowed here"),
        ("acme_shared_zone zone=a;".to_owned(), "invalid zone size \"\""),
        ("acme_shared_zone zone=a:4k;".to_owned(), "zone \"a\" is too small"),
    ] {
        let errors = Bench::errors(&config);
        assert!(errors.iter().any(|error| error.contains(expected)), "{config}: {errors:?}");
    }
}

#[test]
fn a_validation_is_responded_to_before_the_rules_of_a_server() {
    let challenges = Challenges::default();
    let challenge = Challenge {
        kind: ChallengeKind::Http01,
        identifier: Identifier::parse("a.test").expect("name"),
        token: "token".to_owned(),
        key_authorization: "token.proof".to_owned(),
    };
    let bench = Bench::new("server { return 301 /elsewhere; }");
    let status = |target: &str, method: &str| {
        let mut x = bench.received(&format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        match challenges.respond(&mut x) {
            tidegate_core::Step::Respond(tidegate_core::Body::Bytes(body)) => body.to_vec(),
            _ => Vec::new(),
        }
    };
    let path = challenge.path();
    assert_eq!(status(&path, "GET"), b"");
    challenges.present(&challenge).expect("presented");
    assert_eq!(status(&path, "GET"), b"token.proof");
    assert_eq!(status("/.well-known/acme-challenge/%74oken", "GET"), b"token.proof");
    assert_eq!(status(&path, "POST"), b"");
    assert_eq!(status("/.well-known/acme-challenge/other", "GET"), b"");
    assert_eq!(status("/token", "GET"), b"");
    challenges.withdraw(&challenge);
    assert_eq!(status(&path, "GET"), b"");
    let handshake = Challenge { kind: ChallengeKind::TlsAlpn01, ..challenge };
    challenges.present(&handshake).expect("a certificate");
    assert_eq!(format!("{:?}", challenges.handshakes), "HandshakeChallenges(1)");
    challenges.withdraw(&handshake);
    assert_eq!(format!("{:?}", challenges.handshakes), "HandshakeChallenges(0)");
}

#[test]
fn files_are_replaced_as_a_whole_and_the_directory_has_one_owner() {
    let top = tempfile::tempdir().expect("a directory");
    let directory = top.path().join("state");
    let lock = store::lock(&directory).expect("a lock");
    assert!(lock.is_some());
    assert!(store::lock(&directory).expect("no error").is_none());
    let store = Store::Directory(directory.clone());
    let pair = b"KEY\n-----BEGIN CERTIFICATE-----\nx";
    let change = |contents: Option<&[u8]>| Change {
        file: "a.pem".to_owned(),
        contents: contents.map(<[u8]>::to_vec),
    };
    store.store(change(Some(pair))).expect("stored");
    assert_eq!(store.read_pair("a").as_deref(), Some(&pair[..]));
    assert_eq!(
        store.read("a.crt").expect("read").as_deref(),
        Some(&b"-----BEGIN CERTIFICATE-----\nx"[..])
    );
    store.store(change(None)).expect("removed");
    store.store(change(None)).expect("absent already");
    assert_eq!(store.read_pair("a"), None);
    assert_eq!(store.read("a.pem").expect("absent"), None);
    std::fs::create_dir(directory.join("a.pem")).expect("a directory in its place");
    assert!(store.read("a.pem").is_err(), "not taken for absent");
    assert!(store.store(change(Some(pair))).is_err());
    assert!(!directory.join("a.pem.new").exists());
    drop(lock);
    assert!(store::lock(&directory).expect("a lock").is_some());
}

#[test]
fn a_certificate_is_in_use_from_its_file_and_a_damaged_one_is_not() {
    let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).expect("made");
    let (key, chain) = (made.signing_key.serialize_pem(), made.cert.pem());
    let certificates = std::sync::Arc::new(Certificates::default());
    let own = ServerCertificate::new(certificates.clone(), "stem");
    let value = |part| {
        let mut out = Vec::new();
        own.append(part, &mut out).then_some(out)
    };
    for damaged in ["", "x", &*key, &*chain] {
        certificates.install_file("stem", damaged.as_bytes());
        assert!(!certificates.has("stem"));
    }
    assert_eq!(value(Part::Chain), None);
    certificates.install_file("stem", format!("{key}{chain}").as_bytes());
    assert_eq!(value(Part::Chain), Some(format!("data:{chain}").into_bytes()));
    assert_eq!(value(Part::Key), Some(format!("data:{key}").into_bytes()));
    certificates.install_file("stem", b"damaged");
    assert_eq!(value(Part::Chain), Some(format!("data:{chain}").into_bytes()));
}

/// Returns the listeners of a configuration, each with `+` for HTTPS and `~` for HTTP/3.
fn listeners(config: &str) -> Vec<String> {
    let bench = Bench::new(config);
    let exchange = bench.exchange();
    let listeners = exchange.plan.listeners.iter();
    let shown = |listener: &tidegate_core::listen::ListenerPlan| {
        let mark = |tls| match (listener.quic, tls) {
            (true, _) => "~",
            (false, true) => "+",
            (false, false) => "",
        };
        let own = format!("{}{}", listener.address.text(), mark(listener.tls));
        let local = listener.by_local.iter();
        let local = local.map(|local| format!("{}{}", local.address, mark(local.tls)));
        std::iter::once(own).chain(local).collect::<Vec<_>>().join(" ")
    };
    listeners.map(shown).collect()
}

#[test]
fn one_line_stands_for_listeners_certificate_and_redirect() {
    let auto = "acme auto uri=https://a/ state_path=off;";
    for (rules, expected) in [
        ("", "0.0.0.0:443+ 0.0.0.0:443~ 0.0.0.0:80 [::]:443+ [::]:443~ [::]:80"),
        ("listen 80;", "0.0.0.0:443+ 0.0.0.0:443~ 0.0.0.0:80"),
        (
            "listen 80 default_server; listen [::]:80;",
            "0.0.0.0:443+ 0.0.0.0:443~ 0.0.0.0:80 [::]:443+ [::]:443~ [::]:80",
        ),
        ("listen 127.0.0.1;", "127.0.0.1:443+ 127.0.0.1:443~ 127.0.0.1:80"),
        ("listen 8080;", "0.0.0.0:443+ 0.0.0.0:443~ 0.0.0.0:8080 [::]:443+ [::]:443~"),
        ("listen 443 ssl;", "0.0.0.0:443+ 0.0.0.0:443~ 0.0.0.0:80 [::]:80"),
        ("listen 8443 ssl;", "0.0.0.0:80 0.0.0.0:8443+ [::]:80"),
        ("listen 8080; listen 8443 ssl;", "0.0.0.0:8080 0.0.0.0:8443+"),
        ("listen 80; listen 443 ssl proxy_protocol;", "0.0.0.0:443+ 0.0.0.0:80"),
        ("listen 80; listen 443 ssl; listen 8443 quic;", "0.0.0.0:443+ 0.0.0.0:80 0.0.0.0:8443~"),
        ("listen 80; http3 off;", "0.0.0.0:443+ 0.0.0.0:80"),
        ("listen 80; ssl_protocols TLSv1.2;", "0.0.0.0:443+ 0.0.0.0:80"),
        ("listen 80; ssl_protocols TLSv1.1;", "0.0.0.0:443+ 0.0.0.0:443~ 0.0.0.0:80"),
    ] {
        for config in [
            format!("server {{ server_name a.test; {rules} {auto} }}"),
            format!("{auto} server {{ server_name a.test; {rules} }}"),
        ] {
            let mut found = listeners(&config);
            found.sort_unstable();
            assert_eq!(found.join(" "), expected, "{config}");
        }
    }
    let plain = Bench::new(&format!("server {{ server_name a.test; {auto} return 200 body; }}"));
    let redirected = plain.get("/path?args");
    let place = redirected.field("Location");
    assert_eq!(redirected.status, 301);
    assert!(place.starts_with("https://") && place.ends_with("/path?args"), "{place}");
    let own =
        Bench::new(&format!("server {{ listen 80; server_name a.test; {auto} return 200 body; }}"));
    assert_eq!(own.text("/path"), "body");
}

#[test]
fn one_line_listens_to_ipv6_where_the_machine_has_it() {
    for (ipv6, expected) in [(true, "443 [::]:443 80 [::]:80 443 [::]:443"), (false, "443 80 443")]
    {
        let text = b"server { server_name a.test; acme auto; }";
        let statements = Parser::new(&FsLoader, "").parse_fragment("test", text);
        let expanded = super::auto::expand(&statements, ipv6, &mut Vec::new()).expect("a form");
        let server = expanded.last().expect("a server").children();
        let listens = server.iter().filter(|statement| statement.name.bytes == b"listen");
        let found = listens.map(|listen| listen.args[0].display()).collect::<Vec<_>>();
        assert_eq!(found.join(" "), expected);
        assert!(server.iter().any(|statement| statement.name.bytes == b"http3_alt_svc"));
    }
}

#[test]
fn one_line_is_for_the_servers_that_it_can_be_for() {
    let auto = "acme auto uri=https://a/ state_path=off;";
    let cases = [
        // Others are left as they are.
        "server { listen 80; } server { listen 80; server_name *.a.test ~b _ localhost 192.0.2.1; }",
        "server { listen 80; server_name a.test; acme off; }",
        "server { listen 1 ssl; server_name a.test; ssl_reject_handshake on; }",
    ];
    for servers in cases {
        let found = listeners(&format!("{auto} {servers}"));
        assert!(found.iter().all(|listener| !listener.contains(":443")), "{servers}: {found:?}");
    }
    for (config, expected) in [
        (
            format!("server {{ server_name *.a.test; {auto} }}"),
            "invalid server name \"*.a.test\" for a certificate",
        ),
        (format!("server {{ {auto} }}"), "no identifiers in \"acme_certificate\""),
        ("server { acme on; }".to_owned(), "invalid parameter \"on\""),
        ("server { acme auto uri=http://a/; }".to_owned(), "invalid parameter \"uri=http://a/\""),
        ("server { acme auto urj=a; }".to_owned(), "invalid parameter \"urj=a\""),
        ("server { acme auto issuer=a contact=b; }".to_owned(), "invalid parameter \"issuer=a\""),
        (
            "server { server_name a.test; acme auto issuer=x; }".to_owned(),
            "issuer \"x\" is missing",
        ),
        (
            format!("server {{ server_name a.test; {auto} {auto} }}"),
            "\"acme\" directive is duplicate",
        ),
        (
            format!(
                "server {{ server_name a.test; {auto} }} server {{ server_name b.test; acme auto uri=https://a/ contact=b; }}"
            ),
            "\"acme auto\" with other parameters for the same server of ACME",
        ),
        ("server { location / { acme auto; } }".to_owned(), "not allowed here"),
    ] {
        let errors = Bench::errors(&config);
        assert!(errors.iter().any(|error| error.contains(expected)), "{config}: {errors:?}");
    }
}

#[test]
fn records_are_set_by_a_program_within_its_time() {
    let by = ChallengeKind::Dns01;
    assert_eq!(parsed_for(&["*.a.test"], by), Ok(vec!["*.a.test".to_owned()]));
    for name in ["192.0.2.1", "a.*", "*.*.a.test"] {
        assert!(parsed_for(&[name], by).is_err(), "{name}");
    }
    let issuer = "uri https://a/dir; ssl_verify off; state_path off;";
    let conf = |challenge: &str| format!("acme_issuer x {{ {issuer} challenge {challenge}; }}");
    Bench::new(&conf("dns-01 exec=/bin/true timeout=5s"));
    for (challenge, expected) in [
        ("dns-01 exec=true", "invalid parameter \"exec=true\""),
        ("dns-01 exec=/absent", "\"/absent\" is no program that can be run"),
        ("dns-01 exec=/bin/true timeout=0", "invalid parameter \"timeout=0\""),
        ("http-01 exec=/bin/true", "invalid parameter \"exec=/bin/true\""),
    ] {
        let errors = Bench::errors(&conf(challenge));
        assert!(errors.iter().any(|error| error.contains(expected)), "{challenge}: {errors:?}");
    }
    let challenge = Challenge {
        kind: by,
        identifier: Identifier::parse("a.test").expect("name"),
        token: "token".to_owned(),
        key_authorization: "token.proof".to_owned(),
    };
    let run = |script: &str, seconds| {
        use std::os::unix::fs::PermissionsExt;
        let top = tempfile::tempdir().expect("a directory");
        let path = top.path().join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("mode");
        let time_max = std::time::Duration::from_secs(seconds);
        let program = super::dns::DnsProgram { path, time_max };
        let list = [challenge.clone()];
        tidegate_rt::block_on(program.run(super::dns::Action::Set, &list)).expect("a loop")
    };
    let check = "[ \"$1 $2\" = 'set _acme-challenge.a.test' ] && [ ${#3} = 43 ]";
    assert_eq!(run(check, 20), Ok(()));
    let failed = run("exit 3", 20).expect_err("it fails");
    assert!(failed.ends_with("has failed (exit status: 3)"), "{failed}");
    let late = run("exec sleep 20", 1).expect_err("it is late");
    assert!(late.ends_with("has not ended within 1 s"), "{late}");
}
