//! Each setting of the core module: its default, its inheritance, and the error for a duplicate.

use std::time::Duration;

use tidegate_core::settings::Settings;

use crate::tests::Bench;

/// A directive, its default, two values, and how the settings show it.
struct Row {
    name: &'static str,
    default: &'static str,
    /// As written, and as shown.
    first: (&'static str, &'static str),
    second: (&'static str, &'static str),
    show: fn(&Settings) -> String,
}

const fn row(
    name: &'static str,
    default: &'static str,
    first: (&'static str, &'static str),
    second: (&'static str, &'static str),
    show: fn(&Settings) -> String,
) -> Row {
    Row { name, default, first, second, show }
}

fn seconds(time: Duration) -> String {
    format!("{}", time.as_secs_f64())
}

const ON: (&str, &str) = ("on", "true");
const OFF: (&str, &str) = ("off", "false");

const TIMES: &[Row] = &[
    row("client_body_timeout", "60", ("5s", "5"), ("100ms", "0.1"), |s| {
        seconds(s.client_body_timeout)
    }),
    row("send_timeout", "60", ("5", "5"), ("1m", "60"), |s| seconds(s.send_timeout)),
    row("auth_delay", "0", ("1s", "1"), ("0", "0"), |s| seconds(s.auth_delay)),
    row("keepalive_timeout", "75", ("5", "5"), ("0", "0"), |s| seconds(s.keepalive_timeout.idle)),
    row("keepalive_timeout", "None", ("5 7", "Some(7s)"), ("5", "None"), |s| {
        format!("{:?}", s.keepalive_timeout.field)
    }),
    row("keepalive_min_timeout", "0", ("5", "5"), ("6", "6"), |s| seconds(s.keepalive_min_timeout)),
    row("keepalive_time", "3600", ("5", "5"), ("6", "6"), |s| seconds(s.keepalive_time)),
    row("lingering_time", "30", ("5", "5"), ("6", "6"), |s| seconds(s.lingering_time)),
    row("lingering_timeout", "5", ("7", "7"), ("6", "6"), |s| seconds(s.lingering_timeout)),
    row("resolver_timeout", "30", ("5", "5"), ("6", "6"), |s| seconds(s.resolver_timeout)),
];

const NUMBERS: &[Row] = &[
    row("client_max_body_size", "Some(1048576)", ("5", "Some(5)"), ("0", "None"), |s| {
        format!("{:?}", s.client_max_body_size)
    }),
    row("client_body_buffer_size", "16384", ("5", "5"), ("1k", "1024"), |s| {
        s.body_store.memory_bytes_max.to_string()
    }),
    row("postpone_output", "1460", ("0", "0"), ("1k", "1024"), |s| s.postpone_output.to_string()),
    row("output_buffers", "32768", ("1 5k", "5120"), ("2 1k", "1024"), |s| {
        s.output_buffers.bytes.to_string()
    }),
    row("keepalive_requests", "1000", ("5", "5"), ("0", "0"), |s| s.keepalive_requests.to_string()),
    row("keepalive_disable", "1", ("none", "0"), ("msie6 safari", "3"), |s| {
        s.keepalive_disable.to_string()
    }),
    row("max_ranges", "None", ("0", "Some(0)"), ("5", "Some(5)"), |s| {
        format!("{:?}", s.max_ranges)
    }),
    row("sendfile_max_chunk", "2097152", ("0", "0"), ("1m", "1048576"), |s| {
        s.sendfile_max_chunk.to_string()
    }),
    row("subrequest_output_buffer_size", "4096", ("5", "5"), ("1m", "1048576"), |s| {
        s.subrequest_output_buffer_size.to_string()
    }),
];

const FLAGS: &[Row] = &[
    row("satisfy", "All", ("any", "Any"), ("all", "All"), |s| format!("{:?}", s.satisfy)),
    row("reset_timedout_connection", "false", ON, OFF, |s| s.reset_timedout_connection.to_string()),
    row("absolute_redirect", "true", OFF, ON, |s| s.absolute_redirect.to_string()),
    row("server_name_in_redirect", "false", ON, OFF, |s| s.server_name_in_redirect.to_string()),
    row("port_in_redirect", "true", OFF, ON, |s| s.port_in_redirect.to_string()),
    row("msie_padding", "true", OFF, ON, |s| s.msie_padding.to_string()),
    row("msie_refresh", "false", ON, OFF, |s| s.msie_refresh.to_string()),
    row("log_not_found", "true", OFF, ON, |s| s.log_not_found.to_string()),
    row("log_subrequest", "false", ON, OFF, |s| s.log_subrequest.to_string()),
    row("recursive_error_pages", "false", ON, OFF, |s| s.recursive_error_pages.to_string()),
    row("chunked_transfer_encoding", "true", OFF, ON, |s| s.chunked_transfer_encoding.to_string()),
    row("etag", "true", OFF, ON, |s| s.etag.to_string()),
    row("tcp_nodelay", "true", OFF, ON, |s| s.tcp_nodelay.to_string()),
    row("sendfile", "false", ON, OFF, |s| s.sendfile.to_string()),
];

const TEXTS: &[Row] = &[
    row("lingering_close", "On", ("off", "Off"), ("always", "Always"), |s| {
        format!("{:?}", s.lingering_close)
    }),
    row("if_modified_since", "Exact", ("off", "Off"), ("before", "Before"), |s| {
        format!("{:?}", s.if_modified_since)
    }),
    row("default_type", "text/plain", ("a/b", "a/b"), ("\"\"", ""), |s| {
        String::from_utf8(s.default_type.to_vec()).unwrap()
    }),
    row("resolver", "", ("a b", "a b"), ("c", "c"), |s| s.resolver.join(" ")),
    row("limit_rate", "-", ("5", "5"), ("0", "-"), |s| literal(s.limit_rate.as_ref())),
    row("limit_rate_after", "-", ("5k", "5k"), ("$args", "?"), |s| {
        literal(s.limit_rate_after.as_ref())
    }),
    row("post_action", "-", ("/a", "/a"), ("off", "-"), |s| literal(s.post_action.as_ref())),
    row(
        "client_body_in_file_only",
        "false false",
        ("on", "true false"),
        ("clean", "true true"),
        |s| format!("{} {}", s.body_store.in_file_only, s.body_store.clean),
    ),
    row("client_body_temp_path", "[]", ("/t 1 2", "[1, 2]"), ("/u 3", "[3]"), |s| {
        format!("{:?}", s.body_store.levels)
    }),
];

fn literal(template: Option<&tidegate_core::Template>) -> String {
    let text = |template: &tidegate_core::Template| {
        template.literal().map(|text| String::from_utf8_lossy(text).into_owned())
    };
    template.map_or("-".to_owned(), |template| text(template).unwrap_or("?".to_owned()))
}

/// Returns a location's setting with values at these levels: http, server, the location around it, its own.
fn shown(row: &Row, levels: [&str; 4]) -> String {
    let [http, server, outer, own] = levels.map(|value| match value {
        "" => String::new(),
        value => format!("{} {value};", row.name),
    });
    let bench = Bench::new(&format!(
        "{http} server {{ {server} location / {{ {outer} location /a {{ {own} do own respond a; }} }} }}"
    ));
    (row.show)(bench.get("/a").x.settings())
}

#[test]
fn settings_are_those_of_the_nearest_level() {
    for row in [TIMES, NUMBERS, FLAGS, TEXTS].into_iter().flatten() {
        let ((first, first_shown), (second, second_shown)) = (row.first, row.second);
        for (levels, expected) in [
            (["", "", "", ""], row.default),
            ([first, "", "", ""], first_shown),
            (["", second, "", ""], second_shown),
            ([first, second, "", ""], second_shown),
            ([second, "", first, ""], first_shown),
            ([second, second, "", first], first_shown),
            (["", first, second, ""], second_shown),
        ] {
            assert_eq!(shown(row, levels), expected, "{} {levels:?}", row.name);
        }
    }
}

#[test]
fn duplicates_are_refused() {
    let adds_up = |row: &&Row| row.name == "keepalive_disable";
    for row in [TIMES, NUMBERS, FLAGS, TEXTS].into_iter().flatten().filter(|row| !adds_up(row)) {
        let twice = format!("{0} {1}; {0} {1};", row.name, row.first.0);
        for config in [
            twice.clone(),
            format!("server {{ {twice} }}"),
            format!("server {{ location / {{ {twice} }} }}"),
        ] {
            assert_eq!(
                Bench::errors(&config),
                [format!("\"{}\" directive is duplicate", row.name)],
                "{config}"
            );
        }
    }
    let bench = Bench::new("keepalive_disable msie6; keepalive_disable safari; server { }");
    assert_eq!(bench.get("/").x.settings().keepalive_disable, 3);
}

#[test]
fn invalid_values_are_refused() {
    let table = [
        ("send_timeout x;", "\"send_timeout\" directive invalid value"),
        ("client_body_buffer_size x;", "\"client_body_buffer_size\" directive invalid value"),
        ("client_max_body_size -1;", "\"client_max_body_size\" directive invalid value"),
        (
            "etag maybe;",
            "invalid value \"maybe\" in \"etag\" directive, it must be \"on\" or \"off\"",
        ),
        ("satisfy some;", "invalid value \"some\""),
        ("limit_rate x;", "\"limit_rate\" directive invalid value"),
        ("error_page 200 /e;", "value \"200\" must be between 300 and 599"),
        ("error_page 600 /e;", "value \"600\" must be between 300 and 599"),
        ("error_page 499 /e;", "invalid value \"499\""),
        ("error_page x /e;", "invalid value \"x\""),
        ("error_page 404 =x /e;", "invalid value \"=x\""),
        ("error_page =404 /e;", "invalid value \"=404\""),
        ("error_page 404;", "invalid number of arguments in \"error_page\" directive"),
        ("client_body_temp_path a 11;", "value must be between 1 and 10"),
        ("client_body_temp_path a 5 6;", "\"client_body_temp_path\" directive invalid value"),
        ("large_client_header_buffers 0 1k;", "value must be between 1 and 10000"),
        ("keepalive_disable opera;", "invalid value \"opera\""),
        ("send_lowat x;", "\"send_lowat\" directive invalid value"),
    ];
    let found =
        table.map(|(text, _)| (text, Bench::errors(&format!("{text} server {{ }}")).join("; ")));
    assert_eq!(found, table.map(|(text, expected)| (text, expected.to_owned())));
}

/// Settings of a server block come from `http` or the block.
#[test]
fn servers_have_settings_of_their_own() {
    for (config, expected) in [
        ("", "60 true true false 1000 1024 4 8192"),
        (
            "client_header_timeout 5; merge_slashes off; ignore_invalid_headers off;",
            "5 false false false 1000 1024 4 8192",
        ),
        (
            "underscores_in_headers on; max_headers 7; client_header_buffer_size 2k; large_client_header_buffers 2 1k;",
            "60 true true true 7 2048 2 1024",
        ),
    ] {
        for text in [format!("{config} server {{ }}"), format!("server {{ {config} }}")] {
            let bench = Bench::new(&text);
            let server = &bench.plan.servers()[0].settings;
            let parse = &server.parse;
            let shown = format!(
                "{} {} {} {} {} {} {} {}",
                seconds(server.client_header_timeout),
                server.merge_slashes,
                parse.ignore_invalid_headers,
                parse.underscores_in_headers,
                parse.headers_max,
                parse.header_buffer_bytes,
                parse.large_buffers,
                parse.large_buffer_bytes
            );
            assert_eq!(shown, expected, "{text}");
        }
    }
}

/// Sizes of nginx's pools and tables are checked and change nothing.
#[test]
fn sizes_of_pools_and_tables_are_accepted() {
    let tables = ["server_names_hash", "variables_hash", "types_hash"]
        .map(|table| [format!("{table}_max_size"), format!("{table}_bucket_size")]);
    let tables = tables.into_iter().flatten().map(|name| (name, "64", "number"));
    let pools = ["connection_pool_size", "request_pool_size", "send_lowat"];
    let pools = pools.map(|name| (name.to_owned(), "2k", "value"));
    for (name, size, kind) in tables.chain(pools) {
        Bench::new(&format!("{name} {size}; server {{ }}"));
        let invalid = [format!("\"{name}\" directive invalid {kind}")];
        assert_eq!(Bench::errors(&format!("{name} x;")), invalid);
        let duplicate = [format!("\"{name}\" directive is duplicate")];
        assert_eq!(Bench::errors(&format!("{name} {size}; {name} {size};")), duplicate);
    }
}

#[test]
fn tables_that_are_never_empty_need_a_size() {
    for table in ["variables", "types"] {
        for size in ["max_size", "bucket_size"] {
            let name = format!("{table}_hash_{size}");
            let expected = format!("could not build {table}_hash, you should increase {name}: 0");
            assert_eq!(Bench::errors(&format!("{name} 0;")), [expected]);
        }
    }
    Bench::new("server_names_hash_max_size 0; server { }");
}

/// Each directive of the core's modules is in one table, with its documentation.
#[test]
fn rows_are_documented_and_unique() {
    let mut names = Vec::new();
    for module in <crate::tests::Core as crate::testing::ModuleList>::modules() {
        for row in module.rows().iter().filter(|_| module.name() != "probe") {
            assert!(!row.doc.is_empty(), "{}", row.name);
            names.push(row.name);
        }
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(count > 100 && names.len() == count);
}
