//! The path that an index leads to.
use crate::testing::Bench;

#[test]
fn the_first_file_that_exists_is_redirected_to() {
    let show = "return 200 \"$uri?$args\";";
    let bench = Bench::with_files(
        &format!(
            r#"
            root {{dir}}/html;
            server {{
                server_name me;
                location / {{ }}
                location /many/ {{ index no.html a.html b.html; }}
                location /var/ {{ index $server_name.html; }}
                location /abs/ {{ index no.html /show; }}
                location /loop/ {{ index /loop/; }}
                location /none/ {{ index no.html; }}
                location /alias/ {{ alias {{dir}}/html/many/; index a.html; }}
                location ~ \.html$ {{ {show} }}
                location /show {{ {show} }}
            }}
            "#
        ),
        &[
            ("html/index.html", ""),
            ("html/many/a.html", ""),
            ("html/many/b.html", ""),
            ("html/var/me.html", ""),
            ("html/none/", ""),
        ],
    );
    for (target, status, text) in [
        ("/?q", 200, "/index.html?q"),
        ("/many/", 200, "/many/a.html?"),
        ("/var/", 200, "/var/me.html?"),
        ("/alias/", 200, "/alias/a.html?"),
        ("/loop/", 500, ""),
        ("/none/", 403, ""),
        ("/missing/", 404, ""),
    ] {
        let reply = bench.get(target);
        let found = if reply.status == 200 { reply.text() } else { "" };
        assert_eq!((reply.status, found), (status, text), "{target}");
    }
    let log = bench.read("logs/error.log");
    assert!(log.contains("html/missing/index.html\" is not found (2: No such file"), "{log}");
    assert!(log.contains("directory index of \""), "{log}");
}

#[test]
fn an_absolute_name_leads_away() {
    let bench = Bench::with_files(
        "server { root {dir}; location /abs/ { index no /show; } location /show { return 200 $uri; } }",
        &[("abs/", "")],
    );
    assert_eq!(bench.text("/abs/"), "/show");
}

#[test]
fn errors_and_warnings() {
    assert_eq!(
        Bench::errors("server { index \"\"; }"),
        ["index \"\" in \"index\" directive is invalid"]
    );
    let bench = Bench::new("server { index /a b; location / { } }");
    assert_eq!(bench.warnings, ["only the last index in \"index\" directive should be absolute"]);
}
