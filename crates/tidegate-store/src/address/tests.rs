//! URLs, and what is wrong in them.

use super::{Address, HOSTS_MAX, Sentinel};

#[test]
fn urls_are_read() {
    let table = [
        ("redis://one", "redis://one:6379/0", None, None),
        ("redis://one:7/3", "redis://one:7/3", None, None),
        ("rediss://[::1]:7,b/", "rediss://[::1]:7,b:6379/0", None, None),
        ("redis://:pw@h", "redis://h:6379/0", None, Some("pw")),
        ("redis://u:p%2F%40:x@h/1", "redis://h:6379/1", Some("u"), Some("p/@:x")),
        ("redis://u:a@b@h", "redis://h:6379/0", Some("u"), Some("a@b")),
    ];
    for (url, shown, user, password) in table {
        let address = Address::parse(url).unwrap_or_else(|reason| panic!("{url}: {reason}"));
        assert_eq!(address.to_string(), shown, "{url}");
        let login = &address.login;
        assert_eq!((login.user.as_deref(), login.password.as_deref()), (user, password));
        assert!(!format!("{address:?}").contains("pw"));
    }
}

#[test]
fn sentinels_have_another_port() {
    let sentinel = || Sentinel::parse("m").expect("a name");
    let address = Address::parse_sentinels("redis://u:pw@one,[::1]:7/2", sentinel());
    let shown = address.map(|address| address.to_string());
    assert_eq!(shown.as_deref(), Ok("redis://one:26379,[::1]:7/2 sentinel=m"));
    assert_eq!(Address::parse_sentinels("redis://", sentinel()), Err("no host"));
}

#[test]
fn sentinels_have_a_login_of_their_own() {
    for (text, user, password) in
        [("m", None, None), (":pw@m", None, Some("pw")), ("u:p%40:%25@m", Some("u"), Some("p@:%"))]
    {
        let sentinel = Sentinel::parse(text).expect("a name");
        let address = Address::parse_sentinels("redis://e:secret@one", sentinel).expect("a URL");
        let shown = "redis://one:26379/0 sentinel=m";
        assert_eq!((address.to_string(), format!("{address:?}")), (shown.into(), shown.into()));
        assert_eq!(address.login.user.as_deref(), Some("e"));
        let login = address.sentinel.expect("Sentinels").login;
        assert_eq!((login.user.as_deref(), login.password.as_deref()), (user, password));
    }
    for (text, reason) in [
        ("pw@m", "expected `USER:PASSWORD@`"),
        (":pw@", "the name by which Sentinels know the engine is missing"),
        ("", "the name by which Sentinels know the engine is missing"),
        (":%4@m", "`%` without two digits in user or password"),
    ] {
        assert_eq!(Sentinel::parse(text).err(), Some(reason), "{text}");
    }
}

#[test]
fn errors() {
    let many = format!("redis://{}", vec!["h"; HOSTS_MAX + 1].join(","));
    let table = [
        ("http://h", "expected a URL that begins with `redis://` or `rediss://`"),
        ("redis://", "no host"),
        ("redis://a,,b", "no host"),
        ("redis://:7", "no host"),
        ("redis://h:0", "invalid port"),
        ("redis://h:70000", "invalid port"),
        ("redis://h/x", "the database behind `/` is a number"),
        ("redis://h/1/2", "the database behind `/` is a number"),
        ("redis://::1", "write an IPv6 address in brackets"),
        ("redis://[::1", "`[` without `]`"),
        ("redis://[x]", "no IPv6 address in the brackets"),
        ("redis://[::1]x", "expected `:PORT` behind the address"),
        ("redis://pw@h", "expected `USER:PASSWORD@`"),
        ("redis://u:%4@h", "`%` without two digits in user or password"),
        ("redis://u:%ff@h", "user or password are not UTF-8"),
        (&many, "more than 16 hosts"),
    ];
    for (url, reason) in table {
        assert_eq!(Address::parse(url), Err(reason), "{url}");
    }
}
