//! Responses to a bare status: `error_page` in all its forms, built-in pages, this server's own redirects.

use tidegate_codec::Known;
use tidegate_core::error_page::{
    PRODUCT, PRODUCT_WITH_VERSION, redirect_headers, split_args, write_server_field,
};

use crate::tests::Bench;

/// Checks the response to `GET target`: status, `Location`, and the text where a handler made it, else `page`.
fn check(server: &str, target: &str, expected: &str) {
    check_method("GET", server, target, expected);
}

fn check_method(method: &str, server: &str, target: &str, expected: &str) {
    let bench = Bench::new(&format!("server {{ {server} }}"));
    let reply = bench.send(&format!("{method} {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
    let text = match &reply.field("Content-Type")[..] {
        "text/html" => "page",
        _ => reply.text(),
    };
    let shown = format!("{} {} {text}", reply.status, reply.field("Location"));
    assert_eq!(shown.trim_end(), expected, "{method} {server} {target}");
}

/// Locations with a status each, and locations of error pages.
const LOCATIONS: &str = "
    location /404 { do own status 404; }
    location /403 { do own status 403; }
    location /503 { do own status 503; }
    location /e   { do own respond \"e $uri $args $request_method\"; }
    location @n   { do own respond \"n $uri $args $request_method\"; }
    location /bad { do own status 500; }";

#[test]
fn an_error_page_has_the_status_it_is_for_or_another() {
    for (pages, target, expected) in [
        ("error_page 404 /e;", "/404?q", "404 - e /e  GET"),
        ("error_page 404 /e?a=1;", "/404?q", "404 - e /e a=1 GET"),
        ("error_page 404 /e$uri;", "/404", "404 - e /e/404  GET"),
        ("error_page 404 =200 /e;", "/404", "200 - e /e  GET"),
        ("error_page 404 =403 /e;", "/404", "403 - e /e  GET"),
        ("error_page 404 = /e;", "/404", "200 - e /e  GET"),
        ("error_page 404 @n;", "/404?q", "404 - n /404 q GET"),
        ("error_page 404 =201 @n;", "/404?q", "201 - n /404 q GET"),
        // Several statuses, and the first of several pages.
        ("error_page 503 404 /e;", "/404", "404 - e /e  GET"),
        ("error_page 503 /x; error_page 404 /e; error_page 404 /bad;", "/404", "404 - e /e  GET"),
        ("error_page 503 /e;", "/404", "404 - page"),
        // A URL is a redirect.
        ("error_page 404 http://a/$uri;", "/404", "302 http://a//404 page"),
        ("error_page 404 =301 http://a/;", "/404", "301 http://a/ page"),
        ("error_page 404 =303 http://a/;", "/404", "303 http://a/ page"),
        ("error_page 404 =307 a;", "/404", "307 a page"),
        ("error_page 404 =308 a;", "/404", "308 a page"),
        ("error_page 404 =200 http://a/;", "/404", "302 http://a/ page"),
        ("error_page 404 =304 http://a/;", "/404", "302 http://a/ page"),
        // A page that is missing as well.
        ("error_page 404 /absent;", "/404", "404 - page"),
        ("error_page 404 =200 /absent;", "/404", "404 - page"),
    ] {
        check(&format!("{pages} {LOCATIONS}"), target, expected);
    }
}

#[test]
fn a_path_is_requested_with_get_and_a_named_location_with_the_requests_method() {
    for (method, page, expected) in [
        ("POST", "/e", "404 - e /e  GET"),
        ("DELETE", "/e", "404 - e /e  GET"),
        ("HEAD", "/e", "404 - e /e  HEAD"),
        ("POST", "@n", "404 - n /404  POST"),
    ] {
        check_method(method, &format!("error_page 404 {page}; {LOCATIONS}"), "/404", expected);
    }
}

#[test]
fn an_error_of_an_error_page_has_a_page_under_recursive_error_pages() {
    let pages = "error_page 404 /bad; error_page 500 /e;";
    for (settings, target, expected) in [
        ("", "/404", "500 - page"),
        ("recursive_error_pages on;", "/404", "500 - e /e  GET"),
        // The location of the first error decides, not that of its page.
        (
            "location = /404x { recursive_error_pages on; do own status 404; }",
            "/404x",
            "500 - e /e  GET",
        ),
        ("location = /bad { recursive_error_pages on; do own status 500; }", "/404", "500 - page"),
    ] {
        check(&format!("{pages} {settings} {LOCATIONS}"), target, expected);
    }
}

#[test]
fn error_pages_are_inherited_as_a_whole() {
    for (inner, expected) in [
        ("", "404 - e /e  GET"),
        ("error_page 503 /e;", "404 - page"),
        ("error_page 404 =202 @n;", "202 - n /l  GET"),
    ] {
        let server =
            format!("error_page 404 /e; {LOCATIONS} location /l {{ {inner} do own status 404; }}");
        check(&server, "/l", expected);
    }
}

/// Statuses below 300 are no errors, and some close the connection without a response.
#[test]
fn statuses_that_have_no_page() {
    for (status, expected) in [
        (200, "200 -"),
        (204, "204 -"),
        (299, "299 -"),
        (304, "304 -"),
        (300, "300 -"),
        (399, "399 -"),
        (400, "400 - page"),
        (404, "404 - page"),
        (429, "429 - page"),
        // nginx's own statuses are sent as 400.
        (494, "400 - page"),
        (495, "400 - page"),
        (496, "400 - page"),
        (497, "400 - page"),
        (507, "507 - page"),
        (408, "0 -"),
        (444, "0 -"),
        (499, "0 -"),
    ] {
        check(&format!("location / {{ do own status {status}; }}"), "/", expected);
    }
    let page = "error_page 408 444 495 /e; location /e { do own respond e; }";
    for (status, expected) in [(408, "0 -"), (444, "0 -"), (495, "400 - e")] {
        check(&format!("{page} location / {{ do own status {status}; }}"), "/", expected);
    }
}

#[test]
fn some_statuses_end_the_connection() {
    let is_kept = |status: u16| {
        let server =
            "server { location / { filter add X-C $sent_http_connection; do own status STATUS; } }";
        let reply = Bench::new(&server.replace("STATUS", &status.to_string())).get("/");
        reply.field("X-C") == "keep-alive"
    };
    for status in [400, 413, 414, 494, 495, 496, 497, 500, 501, 505] {
        assert!(!is_kept(status), "{status}");
    }
    for status in [301, 401, 403, 404, 405, 412, 416, 429, 502, 503, 504] {
        assert!(is_kept(status), "{status}");
    }
}

/// Fields that a status requires are kept for its error page; the others are removed.
#[test]
fn an_error_page_keeps_the_fields_that_its_status_requires() {
    for (status, field, kept) in [
        (401, "WWW-Authenticate", true),
        (416, "Content-Range", true),
        (301, "Location", true),
        (308, "Location", true),
        (403, "WWW-Authenticate", false),
        (404, "Location", false),
        (401, "X-Other", false),
    ] {
        let bench = Bench::new(&format!(
            "server {{ error_page {status} /e; location /e {{ do own respond e; }}
               location / {{ do rewrite field {field} value; do own status {status}; }} }}"
        ));
        let reply = bench.get("/");
        let expected = if kept { "value" } else { "-" };
        assert_eq!((reply.status, reply.field(field)), (status, expected.to_owned()), "{field}");
    }
}

/// A built-in page loses the fields that describe another body and keeps the rest.
#[test]
fn a_built_in_page_has_no_fields_of_another_body() {
    let fields = ["ETag", "Last-Modified", "Accept-Ranges", "Content-Encoding", "X-Own"];
    let set: String = fields.iter().map(|name| format!("do rewrite field {name} v;")).collect();
    let bench = Bench::new(&format!("server {{ location / {{ {set} do own status 404; }} }}"));
    let reply = bench.get("/");
    assert_eq!(fields.map(|name| reply.field(name)), ["-", "-", "-", "-", "v"]);
    assert_eq!(reply.field("Content-Type"), "text/html");
}

#[test]
fn pages_name_the_product_as_server_tokens_says() {
    let with_version = PRODUCT_WITH_VERSION;
    for (tokens, product) in [
        ("", with_version),
        ("server_tokens on;", with_version),
        ("server_tokens build;", with_version),
        ("server_tokens off;", PRODUCT),
        ("server_tokens mine;", "mine"),
        ("server_tokens my-$arg_t;", "my-v"),
        ("server_tokens $arg_off;", PRODUCT),
        ("server_tokens $arg_on;", with_version),
        ("server_tokens \"\";", ""),
    ] {
        let bench =
            Bench::new(&format!("server {{ {tokens} location / {{ do own status 404; }} }}"));
        let mut reply = bench.get("/?t=v&off=off&on=on");
        let shown = format!("<hr><center>{product}</center>");
        assert!(reply.text().contains(&shown), "{tokens}: {}", reply.text());
        let (mut field, line) = (Vec::new(), format!("Server: {product}\r\n"));
        write_server_field(&mut reply.x, &mut field);
        let line = if product.is_empty() { "" } else { &line };
        assert_eq!(String::from_utf8_lossy(&field), line, "{tokens}");
    }
}

#[test]
fn internet_explorer_gets_padded_pages_and_refreshes() {
    let server = "msie_refresh on; location /404 { do own status 404; }
        location /301 { do rewrite field Location \"http://a/?<\\\"' é\"; do own status 301; }
        location /plain { msie_padding off; msie_refresh off; do rewrite field Location /b; do own status 301; }";
    let bench = Bench::new(&format!("server {{ {server} }}"));
    let (ie, opera) = ("User-Agent: Mozilla (MSIE 6.0)", "User-Agent: MSIE 6.0 Opera 7");
    let padded =
        |reply: &crate::tests::TestResponse| reply.text().contains("a padding to disable MSIE");
    assert!(padded(&bench.get_with("/404", &[ie])));
    assert!(!padded(&bench.get_with("/404", &[opera])) && !padded(&bench.get("/404")));
    let reply = bench.get_with("/301", &[ie]);
    let page = "<html><head><meta http-equiv=\"Refresh\" content=\"0; URL=http://a/?%3C%22%27%20%C3%A9\"></head><body></body></html>\r\n";
    assert_eq!((reply.status, reply.text(), reply.field("Location")), (200, page, "-".to_owned()));
    for (target, agent) in [("/301", opera), ("/plain", ie)] {
        let reply = bench.get_with(target, &[agent]);
        assert_eq!((reply.status, reply.field("Location") == "-"), (301, false), "{target}");
        assert!(!padded(&reply));
    }
}

#[test]
fn arguments_are_split_off_at_the_first_mark() {
    for (target, path, args) in [
        ("/a", "/a", ""),
        ("/a?b", "/a", "b"),
        ("/a?b?c", "/a", "b?c"),
        ("/a?", "/a", ""),
        ("?", "", ""),
        ("", "", ""),
    ] {
        let split = split_args(target.into());
        assert_eq!(split, (path.into(), args.into()), "{target}");
    }
}

/// The host and port of the server's own redirects, from the request, the server's name or the address.
#[test]
fn own_redirects_are_absolute_as_the_directives_say() {
    for (settings, host, expected) in [
        ("", "h", "http://h:8080/d/"),
        ("", "h:99", "http://h:8080/d/"),
        ("", "", "http://192.0.2.1:8080/d/"),
        ("port_in_redirect off;", "h", "http://h/d/"),
        ("server_name_in_redirect on;", "h", "http://name:8080/d/"),
        ("server_name_in_redirect on; port_in_redirect off;", "h", "http://name/d/"),
        ("absolute_redirect off;", "h", "/d/"),
        ("absolute_redirect off; server_name_in_redirect on;", "h", "/d/"),
    ] {
        let bench = Bench::new(&format!("server {{ server_name name other; {settings} }}"));
        let host = if host.is_empty() { String::new() } else { format!("Host: {host}\r\n") };
        let version = if host.is_empty() { "1.0" } else { "1.1" };
        let mut x = bench.received(&format!("GET / HTTP/{version}\r\n{host}\r\n"));
        x.disposition.set_status(200);
        redirect_headers(&mut x, b"/d/");
        let place = x.response.headers.first(Known::Location).unwrap_or_default();
        assert_eq!(
            (String::from_utf8_lossy(place).as_ref(), x.disposition.status()),
            (expected, 0),
            "{settings}"
        );
    }
}
