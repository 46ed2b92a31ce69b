//! Which directives hold in a block: its own, and those of the blocks around it that it inherits.

use std::collections::HashSet;

use tidegate_core::written::{WrittenBlock, WrittenLine};

/// What directives are about, in the order in which a request meets them.
pub(super) const TOPICS: [&str; 4] = ["rewrite", "access", "cache", "handler"];

/// Prefixes of the directives of gateways.
const GATEWAYS: [&str; 5] = ["proxy_", "fastcgi_", "scgi_", "uwsgi_", "grpc_"];

/// Returns the topic of a directive; `None` for those that are not shown.
fn topic(name: &str) -> Option<&'static str> {
    Some(match name {
        "rewrite" | "return" | "set" | "if" | "break" | "try_files" => "rewrite",
        "allow"
        | "deny"
        | "satisfy"
        | "limit_req"
        | "limit_conn"
        | "limit_except"
        | "internal"
        | "valid_referers"
        | "secure_link"
        | "client_max_body_size" => "access",
        "expires" | "etag" => "cache",
        "root" | "alias" | "index" | "autoindex" | "random_index" | "stub_status" | "api"
        | "metrics" | "dashboard" | "empty_gif" | "flv" | "mp4" | "dav_methods" | "handler"
        | "wasm" | "perl" | "mirror" => "handler",
        _ if name.starts_with("auth_") => "access",
        _ if name.ends_with("_pass") => "handler",
        _ if GATEWAYS.iter().any(|prefix| name.starts_with(prefix))
            && (name.contains("_cache") && !name.contains("_cache_path")) =>
        {
            "cache"
        }
        _ => return None,
    })
}

/// Whether inner blocks inherit a directive.
fn is_inherited(name: &str) -> bool {
    let own = matches!(
        name,
        "alias"
            | "internal"
            | "limit_except"
            | "try_files"
            | "stub_status"
            | "api"
            | "metrics"
            | "dashboard"
            | "empty_gif"
            | "flv"
            | "mp4"
            | "handler"
            | "wasm"
            | "perl"
    );
    !own && !name.ends_with("_pass")
}

/// Returns the name by which a block replaces what it would inherit.
fn family(name: &str) -> &str {
    match name {
        // They are one list of rules, and so are these.
        "deny" => "allow",
        "alias" => "root",
        _ => name,
    }
}

/// Returns the statements that hold in a block with their topics, those of the outer blocks first. Directives of `rewrite`
/// hold in the block itself, and in the server before a location is chosen.
pub(super) fn lines(block: &WrittenBlock) -> Vec<(&'static str, &WrittenLine)> {
    let mut replaced: HashSet<&str> = HashSet::new();
    let mut by_block = Vec::new();
    for (depth, block) in block.chain().enumerate() {
        let holds = |line: &&WrittenLine| match topic(&line.name) {
            Some("rewrite") => {
                depth == 0 || (block.opening.name == "server" && line.name != "try_files")
            }
            Some(_) => {
                depth == 0 || (is_inherited(&line.name) && !replaced.contains(family(&line.name)))
            }
            None => false,
        };
        let lines: Vec<&WrittenLine> = block.lines.iter().filter(holds).collect();
        replaced.extend(lines.iter().map(|line| family(&line.name)));
        by_block.push(lines);
    }
    let lines = by_block.into_iter().rev().flatten();
    lines.filter_map(|line| Some((topic(&line.name)?, line))).collect()
}
