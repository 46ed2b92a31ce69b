//! The order of the phases, and the effect of each step in each phase.

use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_core::client::Socketless;
use tidegate_core::phases;

use crate::tests::probe::trace;
use crate::tests::{Bench, TestResponse, wait};

/// Formats status and text of a response and the trace of its handlers; a built-in page has no text here.
fn shown(reply: &TestResponse) -> String {
    let is_own = reply.field("Content-Type") == "text/html";
    let text = if is_own { "" } else { reply.text() };
    format!("{} {text}; {}", reply.status, trace(&reply.x)).replace(" ;", ";").trim_end().to_owned()
}

/// Checks the response to `GET target` of a server with this block, with the trace of its handlers.
fn check(server: &str, target: &str, expected: &str) {
    let reply = Bench::new(&format!("server {{ {server} }}")).get(target);
    assert_eq!(shown(&reply), expected, "{server} {target}");
}

/// Like [`check`] without the trace.
fn check_response(server: &str, target: &str, expected: &str) {
    let reply = Bench::new(&format!("server {{ {server} }}")).get(target);
    assert_eq!(shown(&reply).split(';').next().unwrap(), expected, "{server} {target}");
}

const PHASES: [&str; 8] =
    ["postread", "srewrite", "rewrite", "preaccess", "access", "precontent", "own", "content"];

#[test]
fn phases_run_in_their_order_and_handlers_as_written() {
    let of_server = "do srewrite decline; do postread decline; do postread next;";
    let of_location = "do content decline; do content respond end; do own decline; do precontent next; \
        do access decline; do access next; do preaccess decline; do rewrite next; do rewrite decline;";
    check(
        &format!("{of_server} location / {{ {of_location} }}"),
        "/",
        "200 end; postread decline, postread next, srewrite decline, rewrite next, rewrite decline, \
         preaccess decline, access decline, access next, precontent next, own decline, content decline, \
         content respond end",
    );
}

/// The effect of each step in every phase, at once and after a wait.
#[test]
fn every_step_means_the_same_in_every_phase() {
    let steps = [
        ("decline", "200 end"),
        ("next", "200 end"),
        ("status 403", "403"),
        ("status 204", "204"),
        ("respond early", "200 early"),
        ("close", "0"),
        ("jump /j?a", "200 jumped a"),
        ("named @n", "200 named"),
    ];
    for phase in PHASES {
        for (step, expected) in steps {
            for wait in ["", "wait "] {
                let handler = format!("do {phase} once {wait}{step};");
                let (outer, inner) = match phase {
                    "postread" | "srewrite" => (&handler[..], ""),
                    _ => ("", &handler[..]),
                };
                let server = format!(
                    "{outer} location / {{ {inner} do content respond end; }}
                     location /j {{ do own respond \"jumped $args\"; }} location @n {{ do own respond named; }}"
                );
                // `next` of the location's own handler is 404: the other content handlers do not run.
                let expected = if (phase, step) == ("own", "next") { "404" } else { expected };
                check_response(&server, "/", expected);
            }
        }
    }
}

#[test]
fn a_request_that_all_handlers_decline_is_404_and_a_directory_403() {
    check("location / { do content decline; }", "/a", "404; content decline");
    check("location / { do content next; }", "/a/", "403; content next");
    check("", "/a", "404;");
    let bench = Bench::new("server { root /srv; }");
    assert_eq!(bench.get("/d/").status, 403);
    let log = bench.read("logs/error.log");
    assert!(
        log.contains("directory index of \"/srv/d/\" is forbidden, client: 192.0.2.7"),
        "{log}"
    );
}

#[test]
fn satisfy_all_refuses_with_the_first_and_any_allows_with_the_first() {
    for (satisfy, handlers, expected) in [
        ("all", "decline,decline", "200 in; access decline, access decline"),
        ("all", "next,status 403", "403; access next, access status 403"),
        ("all", "status 403,next", "403; access status 403"),
        ("all", "status 401,status 403", "401; access status 401"),
        ("any", "decline,decline", "200 in; access decline, access decline"),
        ("any", "next,status 403", "200 in; access next"),
        ("any", "status 403,next,status 401", "200 in; access status 403, access next"),
        ("any", "status 403,decline", "403; access status 403, access decline"),
        // 401 takes precedence: a client that a password would allow is asked for it.
        ("any", "status 401,status 403", "401; access status 401, access status 403"),
        ("any", "status 403,status 401", "401; access status 403, access status 401"),
        ("any", "wait status 403,wait next", "200 in; access wait status 403, access wait next"),
        // Other statuses end the request at once.
        ("any", "status 500,next", "500; access status 500"),
        ("any", "status 403,close,next", "0; access status 403, access close"),
        ("any", "respond page,next", "200 page; access respond page"),
    ] {
        let handlers: String =
            handlers.split(',').map(|action| format!("do access {action};")).collect();
        let server =
            format!("location / {{ satisfy {satisfy}; {handlers} do content respond in; }}");
        let reply = Bench::new(&format!("server {{ {server} }}")).get("/");
        assert_eq!(shown(&reply).replace(", content respond in", ""), expected, "{server}");
    }
}

/// `satisfy any`: the challenge of the module that refused is removed.
#[test]
fn an_allowed_request_gets_no_challenge() {
    let bench = Bench::new(
        "server { satisfy any;
           location /in { do access field WWW-Authenticate Basic; do access status 401; do access next;
                          do content respond in; }
           location /out { do access field WWW-Authenticate Basic; do access status 401; } }",
    );
    for (target, status, field) in [("/in", 200, "-"), ("/out", 401, "Basic")] {
        let reply = bench.get(target);
        assert_eq!((reply.status, reply.field("WWW-Authenticate")), (status, field.to_owned()));
    }
}

/// A client that has closed its connection.
struct Gone;

impl Socketless for Gone {
    fn poll_closed(&self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

#[test]
fn auth_delay_holds_401_back_and_ends_with_the_client() {
    let bench = Bench::new(
        "error_log {dir}/log info;
         server { auth_delay 1ms; location / { do access status 401; }
                  location /any { satisfy any; do access status 401; do access status 403; }
                  location /403 { do access status 403; } location /late { do content status 401; }
                  location /gone { auth_delay 1h; do access status 401; } }",
    );
    let count = || bench.read("log").matches("delaying unauthorized request").count();
    // Only statuses of the access phase are delayed.
    for (target, status, delayed) in
        [("/", 401, 1), ("/any", 401, 2), ("/403", 403, 2), ("/late", 401, 2)]
    {
        assert_eq!((bench.get(target).status, count()), (status, delayed), "{target}");
    }
    let mut x = bench.received("GET /gone HTTP/1.1\r\nHost: h\r\n\r\n");
    x.client = Rc::new(Gone);
    let reply = bench.run(x);
    assert_eq!((reply.status, reply.x.disposition.logged_status()), (0, 499));
    assert!(bench.read("log").contains("client prematurely closed connection, client:"));
}

#[test]
fn a_changed_path_is_looked_up_again_unless_it_stays() {
    let server = |action: &str| {
        format!(
            "do srewrite decline;
             location /a {{ {action} do content respond \"a $uri $args\"; }}
             location /b {{ do rewrite decline; do content respond \"b $uri $args\"; }}"
        )
    };
    for (action, expected) in [
        (
            "do rewrite path /b/x?n;",
            "200 b /b/x n; srewrite decline, rewrite path /b/x?n, rewrite decline, ",
        ),
        ("do rewrite stay /b/x;", "200 a /b/x q; srewrite decline, rewrite stay /b/x, "),
        (
            "do rewrite path /b?n; do rewrite stay /c;",
            "200 a /c n; srewrite decline, rewrite path /b?n, rewrite stay /c, ",
        ),
        (
            "do rewrite path /b?n; do rewrite settle;",
            "200 a /b n; srewrite decline, rewrite path /b?n, rewrite settle, ",
        ),
        // After the rewrites, a changed path has no effect.
        ("do preaccess path /b?n;", "200 a /b n; srewrite decline, preaccess path /b?n, "),
    ] {
        let name = &expected[4..5];
        let expected = format!("{expected}content respond {name} $uri $args");
        check(&server(action), "/a?q", &expected);
    }
    // The server's rewrites precede the choice of the location.
    check_response(
        "do srewrite path /b; location /a { } location /b { do own respond b; }",
        "/a",
        "200 b",
    );
}

/// `if`: the chosen block takes effect with the next phase.
#[test]
fn a_change_of_location_takes_effect_with_the_next_phase() {
    check(
        "location / { do rewrite enter 0; do rewrite decline; do preaccess status 403; do content respond outer;
                      if { do rewrite status 402; do preaccess decline; do content respond inner; } }",
        "/",
        "200 inner; rewrite enter 0, rewrite decline, preaccess decline, content respond inner",
    );
}

/// nginx's limit: ten rewrites and internal redirects in all.
#[test]
fn the_eleventh_rewrite_or_redirect_is_a_cycle() {
    let cases = [
        ("location / { do rewrite path $uri/x; }", "processing \"/a", 11),
        ("location / { do own jump $uri/x; }", "internally redirecting to \"/a", 11),
        (
            "location / { do own named @n; } location @n { do own named @n; }",
            "redirect to named location \"@n\"",
            11,
        ),
        // They count together: a rewrite and a redirect each time.
        (
            "location / { do rewrite path /b; } location /b { do own jump /; }",
            "processing \"/b\"",
            11,
        ),
        (
            "error_page 404 /e; recursive_error_pages on; location / { do own status 404; }",
            "internally redirecting to \"/e\"",
            11,
        ),
    ];
    for (server, what, handlers) in cases {
        let bench = Bench::new(&format!("server {{ {server} }}"));
        let reply = bench.get("/a");
        assert_eq!(
            (reply.status, trace(&reply.x).split(", ").count()),
            (500, handlers),
            "{server}"
        );
        let log = bench.read("logs/error.log");
        let line = format!("rewrite or internal redirection cycle while {what}");
        assert_eq!(log.matches(&line).count(), 1, "{server}: {log}");
    }
    // The response is the built-in page: `error_page` would be one more redirect.
    for (page, recursive) in [("/e", "off"), ("/e", "on"), ("@n", "on"), ("http://x/", "on")] {
        let bench = Bench::new(&format!(
            "error_page 500 {page}; recursive_error_pages {recursive};
             server {{ location / {{ do own jump $uri/x; }} location /e {{ do own respond page; }}
                       location @n {{ do own respond named; }} }}"
        ));
        let reply = bench.get("/a");
        let text = reply.text();
        assert!(
            reply.status == 500 && text.contains("500 Internal Server Error"),
            "{page}: {text}"
        );
        assert_eq!(reply.field("Location"), "-");
        assert_eq!(bench.read("logs/error.log").matches("redirection cycle").count(), 1, "{page}");
    }
    // The tenth is allowed.
    let chain: String =
        (0..10).map(|n| format!("location /{n}/ {{ do own jump /{}/; }}", n + 1)).collect();
    check_response(&format!("{chain} location /10/ {{ do own respond end; }}"), "/0/", "200 end");
    let longer = chain.replace("jump /10/", "jump /9b/");
    let more = "location /9b/ { do own jump /10/; } location /10/ { do own respond end; }";
    check_response(&format!("{longer} {more}"), "/0/", "500");
}

#[test]
fn a_named_location_keeps_the_path_and_must_exist() {
    check(
        "do srewrite decline; location / { do own named @n; }
         location @n { do rewrite decline; do access decline; do own respond \"$where $uri $args\"; }",
        "/a?b",
        "200 @n /a b; srewrite decline, own named @n, rewrite decline, access decline, own respond $where $uri $args",
    );
    // Of several named locations of one name the first is used.
    let twice = "location @n { do own respond first; } location @n { do own respond second; }";
    check_response(&format!("location / {{ do own named @n; }} {twice}"), "/", "200 first");
    let bench = Bench::new("server { location / { do own named @other; } location @n { } }");
    assert_eq!(bench.get("/").status, 500);
    assert!(
        bench.read("logs/error.log").contains("could not find named location \"@other\", client")
    );
}

#[test]
fn entering_handlers_run_first_in_every_server_and_once() {
    let bench = Bench::new(
        "error_page 414 /page;
         server { do postread decline; location / { do own wait jump /page; }
             location /page { do own respond page; } }
         server { server_name b; location / { do entering decline; do entering wait next; do own respond b; } }",
    );
    let entered = "entering decline, entering wait next";
    let page = shown(&bench.get("/"));
    assert_eq!(
        page,
        format!("200 page; {entered}, postread decline, own wait jump /page, own respond page")
    );
    let other = bench.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n");
    assert_eq!(shown(&other), format!("200 b; {entered}, own respond b"));
    // What they wait for is left out where a request is refused.
    let refused = shown(&bench.refuse(bench.exchange(), 414));
    assert_eq!(refused, format!("414 page; {entered}, own respond page"));
}

#[test]
fn a_request_with_an_invalid_line_has_no_named_location() {
    let bench = Bench::new(
        "error_page 400 @n; error_page 414 /page;
         server { location @n { do own respond named; } location /page { do own respond page; } }",
    );
    let refused = |status| shown(&bench.refuse(bench.exchange(), status));
    assert_eq!(refused(400), "500;");
    let line = "empty URI in redirect to named location \"@n\"";
    assert!(bench.read("logs/error.log").contains(line));
    assert_eq!(refused(414), "414 page; own respond page");
    assert_eq!(refused(431), "431;");
}

#[test]
fn internal_locations_are_for_redirects_and_error_pages() {
    let server = "error_page 404 /i/page; error_page 403 @n;
        location /i { internal; do own respond inside; } location @n { internal; do own respond named; }
        location /jump { do own jump /i; } location /403 { do own status 403; } location /404 { do own status 404; }";
    for (target, expected) in [
        ("/i", "404 inside"),
        ("/jump", "200 inside"),
        ("/403", "403 named"),
        ("/404", "404 inside"),
    ] {
        check_response(server, target, expected);
    }
    check_response("location /i { internal; do own respond inside; }", "/i", "404");
}

#[test]
fn limit_except_is_another_location_for_other_methods() {
    let bench = Bench::new(
        "server { location / { limit_except GET DELETE { do access status 403; } do own respond mine; } }",
    );
    for (method, expected) in
        [("GET", 200), ("HEAD", 200), ("DELETE", 200), ("POST", 403), ("PUT", 403), ("ODD", 403)]
    {
        let reply = bench.send(&format!("{method} / HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!(reply.status, expected, "{method}");
    }
}

#[test]
fn client_max_body_size_refuses_a_larger_announced_body() {
    let bench = Bench::new(
        "server { client_max_body_size 4; location / { do own respond taken; }
                  location /any { client_max_body_size 0; do own respond any; }
                  location /page { error_page 413 =202 /any; do own respond never; } }",
    );
    for (target, body, expected) in [
        ("/", "1234", "200 taken"),
        ("/", "12345", "413"),
        ("/any", "12345", "200 any"),
        ("/page", "12345", "202 any"),
    ] {
        let reply = bench.send(&format!("POST {target} HTTP/1.1\r\nHost: h\r\n\r\n{body}"));
        assert_eq!(shown(&reply).split(';').next().unwrap(), expected, "{target} {body}");
    }
    let log = bench.read("logs/error.log");
    assert_eq!(log.matches("client intended to send too large body: 5 bytes").count(), 2, "{log}");
}

#[test]
fn filters_run_in_their_order_and_may_replace_the_response() {
    for (filters, target, expected) in [
        ("filter add F 1; filter add F 2;", "/", "200 text; F: 1|2"),
        ("filter add F 1; filter instead 404; filter add F 2;", "/", "404; F: 1|2"),
        // The page is another response, with the filters of its own location.
        (
            "error_page 404 /e; filter add F 1; filter instead 404; filter add F 2;",
            "/",
            "404 page; F: e",
        ),
        ("error_page 404 =200 /e; filter instead 404;", "/", "200 page; F: e"),
        ("filter add F 1; filter instead 444;", "/", "0; F: 1"),
        ("filter instead 204;", "/", "204; F: -"),
        ("filter instead 404;", "/e", "200 page; F: e"),
    ] {
        let bench = Bench::new(&format!(
            "server {{ location / {{ {filters} do own respond text; }}
                       location /e {{ filter add F e; do own respond page; }} }}"
        ));
        let reply = bench.get(target);
        let response = shown(&reply).split(';').next().unwrap().to_owned();
        assert_eq!(format!("{response}; F: {}", reply.field("F")), expected, "{filters}");
    }
}

#[test]
fn preserved_fields_survive_redirects_and_replace_a_type() {
    let bench = Bench::new(
        "server { location / { do rewrite carry X-A 1; do rewrite field X-B 1; do own jump /b; }
                  location /b { do own respond b; }
                  location /type { do rewrite carry Content-Type a/b; do own respond t; }
                  location /err { do rewrite carry Content-Type a/b; do rewrite carry X-A 1; do own status 404; } }",
    );
    for (target, expected) in [
        ("/", "200 text/plain 1 -"),
        ("/type", "200 a/b - -"),
        // The type belongs to a body that is not sent.
        ("/err", "404 text/html 1 -"),
    ] {
        let reply = bench.get(target);
        let fields = ["Content-Type", "X-A", "X-B"].map(|name| reply.field(name)).join(" ");
        assert_eq!(format!("{} {fields}", reply.status), expected, "{target}");
    }
}

#[test]
fn trailers_are_made_after_the_body_where_they_are_expected() {
    let bench = Bench::new(
        "server { location / { trailer X-A $uri; trailer X-B 2; do own respond t; }
                  location /yes { filter trailers on; trailer X-A $uri; trailer X-B 2; do own respond t; } }",
    );
    assert!(bench.get("/").trailers.is_none());
    let trailers = bench.get("/yes").trailers.unwrap();
    let fields: Vec<_> = trailers.iter().map(|(_, name, value)| (name, value)).collect();
    assert_eq!(fields, [(&b"X-A"[..], &b"/yes"[..]), (b"X-B", b"2")]);
}

#[test]
fn post_action_is_a_request_of_its_own_after_the_response() {
    for (action, expected) in [
        (
            "/p?x",
            "own send-as 202, content respond first, own respond after $uri $args $request_method",
        ),
        ("@p", "own send-as 202, content respond first, own respond named"),
        (
            "$arg_to",
            "own send-as 202, content respond first, own respond after $uri $args $request_method",
        ),
        ("off", "own send-as 202, content respond first"),
    ] {
        let bench = Bench::new(&format!(
            "server {{ location / {{ post_action {action}; do own send-as 202; do content respond first; }}
                       location /p {{ log \"$uri $args\"; do own respond \"after $uri $args $request_method\"; }}
                       location @p {{ do own respond named; }} }}"
        ));
        let mut reply = bench.send("POST /a?to=/p HTTP/1.1\r\nHost: h\r\n\r\n");
        wait(phases::post_action(&mut reply.x));
        assert_eq!(
            (trace(&reply.x), reply.x.disposition.logged_status()),
            (expected.to_owned(), 202),
            "{action}"
        );
    }
}

#[test]
fn post_action_does_not_end_with_the_client() {
    let bench = Bench::new(
        "server { location / { post_action /done; do content respond first; }
                  location /done { auth_delay 1ms; do access status 401; } }",
    );
    let mut reply = bench.get("/");
    reply.x.client = Rc::new(Gone);
    wait(phases::post_action(&mut reply.x));
    assert_eq!(reply.x.disposition.logged_status(), 200);
}
