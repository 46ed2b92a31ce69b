//! The manual has an entry for every directive, and its texts are usable.

use std::collections::HashSet;
use std::path::Path;

use tidegate_conf::{Args, Contexts, FsLoader, Parser, Row};
use tidegate_plan::ErasedModule;

use super::entry::{DirectiveOrigin, Entry, all};
use super::{pages, text, variables};

#[test]
fn every_directive_has_a_meaning_and_a_context() {
    for entry in all() {
        let row = &entry.row;
        assert!(row.doc.len() > 10 && row.doc.ends_with('.'), "{}: {:?}", row.name, row.doc);
        assert_ne!(row.contexts.describe(), "nowhere", "{}", row.name);
    }
}

#[test]
fn an_entry_has_the_contexts_and_the_origin_of_a_directive() {
    let entries = all();
    let found = |name: &str| text::directive(name, &entries).unwrap();
    let lock = found("proxy_cache_lock");
    for part in ["http, server, location", "default   off", "ngx_http_proxy_module"] {
        assert!(lock.contains(part), "{lock}");
    }
    // In `http` and in `stream`.
    assert_eq!(found("proxy_pass").matches("contexts").count(), 2);
    assert!(found("wasm").contains("Tidegate's own"));
    let without = "A valid value is accepted and has no effect.";
    assert!(found("aio_write").contains(without) && !found("debug_connection").contains(without));
}

#[test]
fn an_unknown_name_gets_a_suggestion() {
    let entries = all();
    let message = |name: &str| text::directive(name, &entries).unwrap_err().to_string();
    assert_eq!(message("proxy_pas"), "no directive \"proxy_pas\"; did you mean \"proxy_pass\"?");
    assert!(message("qqqqqqqqqqqq").contains("`tidegate help` lists them"));
    let variable = text::variable("remote_adr", &variables::all()).unwrap_err().to_string();
    assert!(variable.contains("did you mean \"remote_addr\"?"), "{variable}");
}

#[test]
fn every_variable_has_a_meaning_and_those_of_a_prefix_share_it() {
    let variables = variables::all();
    for entry in &variables {
        assert!(
            entry.doc.len() > 10 && entry.doc.ends_with('.'),
            "{}: {:?}",
            entry.name,
            entry.doc
        );
    }
    let text = |name: &str| text::variable(name, &variables).unwrap();
    assert!(text("http_x_any").starts_with("$http_NAME\n"));
    assert!(text("http_referer").starts_with("$http_referer\n"));
    assert!(text("remote_addr").contains("http, stream") && text("protocol").contains("  stream"));
    assert!(text("args").contains("another value") && !text("uri").contains("another value"));
}

#[test]
fn no_line_of_the_overview_is_wider_than_a_terminal() {
    let overview = text::overview(&all(), &variables::all());
    assert!(overview.lines().all(|line| line.len() <= 80));
    assert!(overview.contains("worker_processes"));
}

#[test]
fn each_name_of_the_index_has_its_page() {
    let entries = all();
    let pages = pages::all(&entries, &variables::all());
    for entry in &entries {
        assert!(pages.contains(&format!("=== {}.md\n", entry.module)), "{}", entry.module);
        assert!(pages.contains(&format!("\n## `{}`\n", entry.name())), "{}", entry.name());
    }
    assert!(entries.iter().any(|entry| entry.origin == DirectiveOrigin::Plus));
    assert!(pages.contains("\n| `-s signal` | send signal to a master process: "));
    assert!(pages.contains(".TP\n.B \\-s signal\nsend signal to a master process: "));
}

#[test]
fn directives_of_other_modules_name_them() {
    let entries = all();
    let module =
        |name: &str| entries.iter().find(|entry| entry.name() == name).unwrap().provenance();
    assert_eq!(module("more_set_headers"), "the module headers-more");
    assert_eq!(module("geoip2_proxy"), "the module ngx_http_geoip2_module");
    assert_eq!(module("set_md5"), "the module set-misc");
    assert_eq!(module("upstream_list"), "the module set-misc");
    assert_eq!(module("brotli_static"), "the module ngx_brotli");
    assert_eq!(module("set"), "ngx_http_rewrite_module");
    assert_eq!(module("metrics"), "Tidegate's own");
}

/// Written defaults that are no values: they describe what happens without the directive.
const IN_WORDS: [&str; 7] = [
    "listen",
    "types",
    "map_hash_bucket_size",
    "proxy_ssl_name",
    "uwsgi_ssl_name",
    "grpc_ssl_name",
    "userid_service",
];

#[test]
fn each_written_default_is_a_value_that_the_directive_takes() {
    let mut refused = Vec::new();
    for module in tidegate_modules::MODULES {
        for (index, row) in module.rows().into_iter().enumerate() {
            if !row.default.is_empty() && !takes_default(*module, index, &row) {
                refused.push(row.name);
            }
        }
    }
    assert_eq!(refused, IN_WORDS);
}

fn takes_default(module: &dyn ErasedModule, index: usize, row: &Row) -> bool {
    let text = format!("{} {};", row.name, row.default);
    let statements = Parser::new(&FsLoader, "/").parse_fragment("default", text.as_bytes());
    let context = Contexts::all().iter().find(|context| row.contexts.contains(*context));
    let ([statement], Some(context)) = (&statements[..], context) else { return false };
    let args = Args::new(statement, context);
    row.arity.allows(args.len()) && module.set(&mut module.new_conf(), index, &args).is_ok()
}

#[test]
fn each_name_is_in_the_source_in_full() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut source = String::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        read_sources(&entry.unwrap().path().join("src"), &mut source);
    }
    let literals: HashSet<&str> = source.split('"').collect();
    let missing: Vec<_> =
        all().iter().map(Entry::name).filter(|name| !literals.contains(name)).collect();
    assert_eq!(missing, [""; 0]);
}

fn read_sources(directory: &Path, source: &mut String) {
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(&path, source);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            source.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn pages_for_man_hold_the_options_and_all_names_and_no_line_that_roff_takes_for_a_request() {
    let pages = pages::all(&all(), &variables::all());
    let (_, man) = pages.split_once("=== tidegate.8\n").unwrap();
    for part in [".B \\-t\n", "=== tidegate.conf.5\n", ".B proxy_cache_lock\n", ".B $remote_addr\n"]
    {
        assert!(man.contains(part), "{part}");
    }
    const REQUESTS: [&str; 8] = [".TH", ".SH", ".TP", ".B", ".BR", ".br", ".nf", ".fi"];
    for line in man.lines().filter(|line| line.starts_with(['.', '\''])) {
        let request = line.split(' ').next().unwrap_or_default();
        assert!(REQUESTS.contains(&request), "{line}");
    }
}
