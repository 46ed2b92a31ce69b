//! Hashes of every kind, files, and the access modules together.

use proptest::prelude::*;

use super::{find_user, hash};
use crate::testing::Bench;

/// Hashes of `password`, made by C's crypt() and Apache's tools.
const HASHES: &[&str] = &[
    "sa3tHJ3/KuYvI",
    "xOAFZqRz5RduI",
    "_Gl/.K0Ay.aosctsbJ1k",
    "$1$salt$qJH7.N4xYta3aEG/dfqo/0",
    "$1$longersa$BfqifoSPKEu8zFcCU0/VJ/",
    "$apr1$salt$Xxd1irWT9ycqoYxGFn4cb.",
    "$2y$05$abcdefghijklmnopqrstuuWG29KuyeAicPCJODk1zjyGvyQUU2awu",
    "$2a$04$abcdefghijklmnopqrstuughE8Ev8uGFaUgY2cNEySvxngrb/Jzdm",
    "$2b$04$abcdefghijklmnopqrstuughE8Ev8uGFaUgY2cNEySvxngrb/Jzdm",
    "$5$rounds=1000$saltstring$S2dlplsLzofRuJ/frAjtaYev58CdqEN6fUby2laILG1",
    "$5$s$PSEyOUK2.61cifBEF9dRKkFNBHSjVRV95vwjY2WRTZ2",
    "$6$sa.lt$0exQEtccfP7eFPyzOUUd1OgIX0PoK0Pex614jcDreXh1uYe4lwWVPIr6bRP7jrfGxRsIVb/rXt0a5rPpxRcel/",
    "$6$rounds=1234$averyverylongsal$totNK01gH3We1Xe7Ln9ykdglqvqOZ0zBiWnPk0/gi9.u52Jm39sfq9zgTdhJr5e8VmbT0lTbQJGIz4EOGS25w0",
    "$y$j75$abcdefgh$hycRI05iyPwUdPZDaw/SJaABdj2h8B1Bgxi1Z/4Xke0",
    "{PLAIN}password",
    "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
    "{SSHA}yI6cZwQadOA1e+/f+T+H3eCQQhRzYWx0",
];

#[test]
fn passwords_fit_their_hashes_and_no_others() {
    for text in HASHES {
        assert!(hash::is_right(text.as_bytes(), b"password"), "{text}");
        for wrong in ["", "Password", "passwor", "xpassword", text] {
            assert!(!hash::is_right(text.as_bytes(), wrong.as_bytes()), "{text} {wrong}");
        }
    }
    let long = "p$:ä long password over 16";
    assert!(hash::is_right(b"$apr1$abcdefgh$e4ZK8peuDf7wef.LhsXDW.", long.as_bytes()));
}

/// The time of some methods grows with the square of the length, which clients choose.
#[test]
fn a_password_of_over_512_bytes_fits_no_hash() {
    let made = super::md5_crypt::hash(&[b'x'; 513], "$1$salt$").expect("a hash");
    assert!(!hash::is_right(made.as_bytes(), &[b'x'; 513]));
    let made = super::md5_crypt::hash(&[b'x'; 512], "$1$salt$").expect("a hash");
    assert!(hash::is_right(made.as_bytes(), &[b'x'; 512]));
}

#[test]
fn broken_hashes_fit_nothing() {
    let halves = HASHES.iter().filter(|good| !good.starts_with("{PLAIN}"));
    let halves = halves.map(|good| &good[..good.len() / 2]);
    let broken = [
        "",
        "x",
        "password",
        "!!aaaaaaaaaaa",
        "$",
        "$1",
        "$1$",
        "$1$salt",
        "$apr1$",
        "$2y$",
        "$2y$05$short",
        "$2y$99$abcdefghijklmnopqrstuuWG29KuyeAicPCJODk1zjyGvyQUU2awu",
        "$5$",
        "$5$rounds=x$s$h",
        "$6$salt$",
        "$y$",
        "$y$j75$",
        "$7$unknown",
        "_",
        "_Gl/.K0Ay.aosctsbJ1",
        "{SHA}",
        "{SHA}Zm9vCg==",
        "{SHA}_____Mm5Pz8GgiULbPgzG37mj9g=",
        "{SSHA}Zm9vCg==",
        "{SSHA}",
        "{OTHER}password",
        "é234567890123",
    ];
    for text in broken.into_iter().chain(halves) {
        for password in ["password", "1", ""] {
            assert!(!hash::is_right(text.as_bytes(), password.as_bytes()), "{text} {password}");
        }
    }
}

#[test]
fn users_are_found_by_whole_names() {
    let file = b"# c:x\n#d:x\na:one:comment\nab:two\r\nempty:\nnocolon\na:late\nlast:three";
    for (user, expected) in [
        ("a", Some("one")),
        ("ab", Some("two")),
        ("empty", Some("")),
        ("last", Some("three")),
        ("nocolon", None),
        ("c", None),
        ("#d", None),
        ("# c", None),
        ("b", None),
    ] {
        let found = find_user(file, user.as_bytes());
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{user}");
    }
}

/// Sends a request of `user:password` (`-` for none) and returns its challenge.
fn check(bench: &Bench, target: &str, user: &str, expected: u16) -> String {
    let mut encoded = Vec::new();
    tidegate_core::credentials::encode_base64(user.as_bytes(), &mut encoded);
    let field = format!("Authorization: Basic {}", String::from_utf8(encoded).unwrap());
    let fields = if user == "-" { vec![] } else { vec![&field[..]] };
    let reply = bench.get_with(target, &fields);
    assert_eq!(reply.status, expected, "{target} {user}");
    reply.field("WWW-Authenticate")
}

#[test]
fn requests_need_a_user() {
    let bench = Bench::with_files(
        "error_log {dir}/logs/error.log info;
         server { auth_basic \"closed $arg_r\"; auth_basic_user_file users;
         location /off { auth_basic off; }
         location /var { auth_basic $arg_r; auth_basic_user_file {dir}/$arg_f; }
         location /inner { location /inner/page { } }
         location /post { limit_except GET { auth_basic x; auth_basic_user_file users; } auth_basic off; } }
         server { server_name nofile; auth_basic x; }",
        &[("users", "a:{PLAIN}b\nslow:$1$salt$qJH7.N4xYta3aEG/dfqo/0"), ("directory/", "")],
    );
    assert_eq!(check(&bench, "/?r=site", "-", 401), "Basic realm=\"closed site\"");
    assert_eq!(check(&bench, "/", "a:b", 404), "-");
    check(&bench, "/", "a:c", 401);
    check(&bench, "/", "x:b", 401);
    check(&bench, "/", "slow:password", 404);
    check(&bench, "/", "slow:wrong", 401);
    check(&bench, "/inner/page", "-", 401);
    check(&bench, "/off", "-", 404);
    check(&bench, "/var?r=off", "-", 404);
    check(&bench, "/var?r=on&f=users", "a:b", 404);
    check(&bench, "/var?r=on&f=absent", "a:b", 403);
    check(&bench, "/var?r=on&f=directory", "a:b", 500);
    check(&bench, "/post", "-", 404);
    let send = |text: &str| bench.send(text).status;
    assert_eq!(send("DELETE /post HTTP/1.1\r\nHost: a\r\n\r\n"), 401);
    assert_eq!(send("GET / HTTP/1.1\r\nHost: nofile\r\n\r\n"), 404);
    let log = bench.read("logs/error.log");
    for line in [
        "[info]",
        "no user/password was provided for basic authentication, client: ",
        "user \"a\": password mismatch, client: ",
        "user \"x\" was not found in \"",
        "failed (2: No such file",
        "[crit]",
    ] {
        assert!(log.contains(line), "{line} in {log}");
    }
}

#[test]
fn access_modules_work_together() {
    let bench = Bench::with_files(
        "server { auth_basic x; auth_basic_user_file users;
         location /any { satisfy any; deny all; }
         location /either { satisfy any; allow all; }
         location /all { allow all; }
         location /none { deny all; } }",
        &[("users", "a:{PLAIN}b")],
    );
    assert_eq!(check(&bench, "/any", "-", 401), "Basic realm=\"x\"");
    assert_eq!(check(&bench, "/any", "a:b", 404), "-");
    assert_eq!(check(&bench, "/either", "-", 404), "-");
    check(&bench, "/all", "-", 401);
    check(&bench, "/all", "a:b", 404);
    assert_eq!(check(&bench, "/none", "a:b", 403), "-");
}

#[test]
fn refusals_can_be_held_back() {
    let bench = Bench::with_files(
        "error_log {dir}/logs/error.log info; auth_delay 1ms;
         server { auth_basic x; auth_basic_user_file users; location /any { satisfy any; deny all; } }",
        &[("users", "a:{PLAIN}b")],
    );
    check(&bench, "/", "-", 401);
    check(&bench, "/any", "a:c", 401);
    check(&bench, "/any", "a:b", 404);
    let log = bench.read("logs/error.log");
    assert_eq!(log.matches("delaying unauthorized request").count(), 2, "{log}");
}

proptest! {
    /// A hash may be any text: files are written by hand.
    #[test]
    fn any_hash_is_checked(
        kind in prop::sample::select(vec!["", "$", "$1$", "$apr1$", "$2y$04$", "$5$", "$6$", "$y$", "_", "{SHA}", "{SSHA}"]),
        rest in "[ -~]{0,40}",
        password: Vec<u8>,
    ) {
        // A hash with many rounds would take its time.
        prop_assume!(!rest.contains("rounds") && kind != "$y$" || rest.len() < 3);
        hash::is_right(format!("{kind}{rest}").as_bytes(), &password);
    }
}
