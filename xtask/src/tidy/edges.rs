//! Which crate of the workspace may depend on which: the one table, checked against cargo's own
//! view of the manifests. Dependencies point downward only.

use serde_json::Value;

use super::Violation;

/// One row: a crate and the crates of this workspace that it may name.
pub(super) struct Row {
    pub name: &'static str,
    pub may_depend_on: &'static [&'static str],
    /// Libraries from outside that it must not name, by their name or its first word.
    pub never: &'static [&'static str],
}

/// A crate without I/O: what would bring a runtime in. It knows no TLS either.
const NO_RUNTIME: &[&str] = &["tokio", "mio", "async", "futures", "smol", "hyper", "rustls", "aws"];

/// The library of TLS and what it stands on: `tidegate-tls` alone names them.
const TLS_LIBRARY: &[&str] = &["tokio-rustls", "rustls", "aws"];

/// From the top of the house down: a row names only rows below it.
pub(super) const TABLE: &[Row] = &[
    // What applications are made of: nothing but the server.
    Row { name: "tidegate-faults", may_depend_on: &["tidegate"], never: &["tokio"] },
    Row { name: "tidegate-example", may_depend_on: &["tidegate"], never: &["tokio"] },
    // Components know the interface of WebAssembly, and no server.
    Row { name: "tidegate-faults-wasm", may_depend_on: &[], never: &["tokio"] },
    Row { name: "tidegate-example-wasm", may_depend_on: &[], never: &["tokio"] },
    Row {
        name: "tidegate",
        may_depend_on: &[
            "tidegate-modules",
            "tidegate-front",
            "tidegate-upstream",
            "tidegate-plan",
            "tidegate-tls",
            "tidegate-core",
            "tidegate-cache",
            "tidegate-rt",
            "tidegate-os",
            "tidegate-codec",
            "tidegate-conf",
            "tidegate-handler",
        ],
        never: TLS_LIBRARY,
    },
    Row { name: "tidegate-testkit", may_depend_on: &["tidegate-rt", "tidegate-conf"], never: &[] },
    Row { name: "tidegate-bench", may_depend_on: &[], never: &[] },
    // The fuzz smoke calls the plain fuzz functions of these.
    Row {
        name: "xtask",
        may_depend_on: &[
            "tidegate-conf",
            "tidegate-codec",
            "tidegate-cache",
            "tidegate-modules",
            "tidegate-os",
        ],
        never: &["tokio"],
    },
    Row {
        name: "tidegate-modules",
        may_depend_on: &[
            "tidegate-gateway",
            "tidegate-plan",
            // For its module of TLS, which stands in the list with all others.
            "tidegate-front",
            "tidegate-core",
            "tidegate-upstream",
            "tidegate-tls",
            "tidegate-cache",
            "tidegate-codec",
            "tidegate-conf",
            "tidegate-rt",
            "tidegate-os",
            "tidegate-handler",
            "tidegate-wasm",
        ],
        never: TLS_LIBRARY,
    },
    // What passes requests on, and knows none of the other modules.
    Row {
        name: "tidegate-gateway",
        may_depend_on: &[
            "tidegate-plan",
            "tidegate-core",
            "tidegate-upstream",
            "tidegate-tls",
            "tidegate-cache",
            "tidegate-codec",
            "tidegate-conf",
            "tidegate-rt",
            "tidegate-os",
        ],
        never: TLS_LIBRARY,
    },
    // Handlers that are components: it runs them, and knows neither the configuration nor exchanges.
    Row {
        name: "tidegate-wasm",
        may_depend_on: &["tidegate-handler", "tidegate-codec", "tidegate-rt"],
        never: TLS_LIBRARY,
    },
    // What application code sees; it blocks, and needs no runtime for that.
    Row { name: "tidegate-handler", may_depend_on: &["tidegate-codec"], never: NO_RUNTIME },
    Row {
        name: "tidegate-front",
        may_depend_on: &[
            "tidegate-plan",
            "tidegate-core",
            "tidegate-tls",
            "tidegate-codec",
            "tidegate-conf",
            "tidegate-rt",
            "tidegate-os",
        ],
        never: TLS_LIBRARY,
    },
    Row {
        name: "tidegate-upstream",
        may_depend_on: &[
            "tidegate-core",
            "tidegate-tls",
            "tidegate-codec",
            "tidegate-rt",
            "tidegate-os",
        ],
        never: TLS_LIBRARY,
    },
    // Sockets, bytes and settings as values: it serves whatever stands on TLS.
    Row {
        name: "tidegate-tls",
        may_depend_on: &["tidegate-conf", "tidegate-rt", "tidegate-os"],
        never: &[],
    },
    // From a configuration to what the engine runs.
    Row {
        name: "tidegate-plan",
        may_depend_on: &[
            "tidegate-core",
            "tidegate-codec",
            "tidegate-conf",
            "tidegate-rt",
            "tidegate-os",
        ],
        never: TLS_LIBRARY,
    },
    Row {
        name: "tidegate-core",
        may_depend_on: &["tidegate-codec", "tidegate-conf", "tidegate-rt", "tidegate-os"],
        never: TLS_LIBRARY,
    },
    Row {
        name: "tidegate-cache",
        may_depend_on: &["tidegate-rt", "tidegate-os"],
        never: TLS_LIBRARY,
    },
    Row { name: "tidegate-rt", may_depend_on: &["tidegate-os"], never: TLS_LIBRARY },
    Row { name: "tidegate-os", may_depend_on: &[], never: &["tokio", "rustls", "aws"] },
    Row { name: "tidegate-codec", may_depend_on: &[], never: NO_RUNTIME },
    Row { name: "tidegate-conf", may_depend_on: &[], never: NO_RUNTIME },
];

/// The harness: every crate may use it in its tests, none in its product.
const TEST_ONLY: &str = "tidegate-testkit";

/// `metadata` is the output of `cargo metadata --no-deps --format-version 1`.
pub(super) fn check(metadata: &str, table: &[Row]) -> Result<Vec<Violation>, String> {
    let metadata: Value =
        serde_json::from_str(metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let members: Vec<&str> =
        packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut violations = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest).trim_start_matches('/');
        let mut refuse = |reason: String| violations.push(Violation::new(manifest, 0, reason));
        let Some(row) = table.iter().find(|row| row.name == name) else {
            refuse(format!("crate `{name}` has no row in xtask/src/tidy/edges.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = dependency["name"].as_str().unwrap_or_default();
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            if let Some(reason) = refusal(row, to, kind, members.contains(&to)) {
                refuse(reason);
            }
        }
    }
    Ok(violations)
}

fn refusal(row: &Row, to: &str, kind: &str, is_member: bool) -> Option<String> {
    if !is_member {
        let first_word = to.split('-').next().unwrap_or(to);
        let named = |never: &&str| [first_word, to].contains(never);
        let forbidden = kind != "dev" && row.never.iter().any(named);
        return forbidden.then(|| format!("`{}` must not depend on `{to}`", row.name));
    }
    if kind == "dev" && to == TEST_ONLY || row.may_depend_on.contains(&to) {
        return None;
    }
    Some(format!(
        "`{}` may not depend on `{to}` ({kind}); allowed: {}",
        row.name,
        if row.may_depend_on.is_empty() { "none".to_owned() } else { row.may_depend_on.join(", ") }
    ))
}
