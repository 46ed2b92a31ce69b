//! The allowed dependencies between the crates of the workspace: one table, checked against cargo's
//! metadata. Dependencies point downward only.

use serde_json::Value;

use super::Violation;

/// One row: a crate and the crates of this workspace on which it may depend.
pub(super) struct Row {
    pub name: &'static str,
    pub may_depend_on: &'static [&'static str],
    /// External libraries that it must not name, by their name or its first word.
    pub never: &'static [&'static str],
}

/// Libraries that a crate without I/O must not use: runtimes, and TLS.
const NO_RUNTIME: &[&str] = &["tokio", "mio", "async", "futures", "smol", "hyper", "rustls", "aws"];

/// The same for a crate whose work is to sign or to verify: it has the cryptographic library, but no TLS.
const NO_RUNTIME_BUT_CRYPTOGRAPHY: &[&str] =
    &["tokio", "mio", "async", "futures", "smol", "hyper", "rustls"];

/// The TLS library and its own dependencies: only `tidegate-tls` names them.
const TLS_LIBRARY: &[&str] = &["tokio-rustls", "rustls", "aws"];

/// From the top down: a row names only rows below it.
pub(super) const TABLE: &[Row] = &[
    // Applications depend on the server alone.
    Row { name: "tidegate-faults", may_depend_on: &["tidegate"], never: &["tokio"] },
    Row { name: "tidegate-example", may_depend_on: &["tidegate"], never: &["tokio"] },
    // Components use the WebAssembly interface, and no server.
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
    Row {
        name: "tidegate-testkit",
        may_depend_on: &[
            "tidegate-rt",
            "tidegate-conf",
            "tidegate-h2",
            "tidegate-h3",
            "tidegate-fields",
            "tidegate-codec",
            "tidegate-acme",
        ],
        never: &[],
    },
    // Its load of HTTP/2 is the client's role of that crate, that of HTTP/3 is over QUIC's client; the count of allocations
    // needs unsafe code.
    Row {
        name: "tidegate-bench",
        may_depend_on: &[
            "tidegate-fields",
            "tidegate-h2",
            "tidegate-h3",
            "tidegate-os",
            "tidegate-quic",
            "tidegate-rt",
            "tidegate-tls",
        ],
        never: &[],
    },
    // The fuzz smoke calls the plain fuzz functions of these.
    Row {
        name: "xtask",
        may_depend_on: &[
            "tidegate-conf",
            "tidegate-codec",
            "tidegate-h2",
            "tidegate-h3",
            "tidegate-cache",
            "tidegate-modules",
            "tidegate-os",
            "tidegate-quic",
            "tidegate-acme",
            "tidegate-jose",
            "tidegate-store",
        ],
        never: &["tokio"],
    },
    Row {
        name: "tidegate-modules",
        may_depend_on: &[
            "tidegate-gateway",
            "tidegate-plan",
            // For its TLS module, which is in the list of all modules.
            "tidegate-front",
            "tidegate-core",
            "tidegate-upstream",
            // For `zone_sync_store`.
            "tidegate-store",
            "tidegate-tls",
            // For `acme_issuer`.
            "tidegate-acme",
            // For `auth_jwt`.
            "tidegate-jose",
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
    // Gateways, which use none of the other modules.
    Row {
        name: "tidegate-gateway",
        may_depend_on: &[
            "tidegate-plan",
            "tidegate-core",
            "tidegate-upstream",
            // For `zone_sync_store`.
            "tidegate-store",
            "tidegate-tls",
            "tidegate-cache",
            "tidegate-codec",
            "tidegate-conf",
            "tidegate-rt",
            "tidegate-os",
        ],
        never: TLS_LIBRARY,
    },
    // Runs handlers that are components, and uses neither the configuration nor exchanges.
    Row {
        name: "tidegate-wasm",
        may_depend_on: &["tidegate-handler", "tidegate-codec", "tidegate-rt"],
        never: TLS_LIBRARY,
    },
    // The types of application code, which blocks and needs no runtime.
    Row { name: "tidegate-handler", may_depend_on: &["tidegate-codec"], never: NO_RUNTIME },
    Row {
        name: "tidegate-front",
        may_depend_on: &[
            "tidegate-h2",
            "tidegate-h3",
            "tidegate-fields",
            "tidegate-quic",
            "tidegate-plan",
            "tidegate-core",
            // For `resolver`: the names of OCSP responders.
            "tidegate-upstream",
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
            "tidegate-h2",
            "tidegate-codec",
            "tidegate-conf",
            "tidegate-rt",
            "tidegate-os",
        ],
        never: TLS_LIBRARY,
    },
    // A client of engines that keep state for several servers. It has no notion of a request.
    Row {
        name: "tidegate-store",
        may_depend_on: &["tidegate-core", "tidegate-tls", "tidegate-rt", "tidegate-os"],
        never: TLS_LIBRARY,
    },
    // Connections for a protocol over QUIC; it names the transport's library and no other one.
    Row {
        name: "tidegate-quic",
        may_depend_on: &["tidegate-tls", "tidegate-rt", "tidegate-os"],
        never: TLS_LIBRARY,
    },
    // Sockets, bytes and settings as values: usable for any protocol over TLS.
    Row {
        name: "tidegate-tls",
        may_depend_on: &["tidegate-conf", "tidegate-rt", "tidegate-os"],
        never: &[],
    },
    // From a configuration to a plan.
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
    // Messages and states of ACME: responses and time are its arguments. It signs.
    Row {
        name: "tidegate-acme",
        may_depend_on: &["tidegate-codec"],
        never: NO_RUNTIME_BUT_CRYPTOGRAPHY,
    },
    // Tokens and keys: texts and time are its arguments. It verifies and decrypts.
    Row { name: "tidegate-jose", may_depend_on: &[], never: NO_RUNTIME_BUT_CRYPTOGRAPHY },
    // One end of a connection: bytes and time are its arguments.
    Row {
        name: "tidegate-h2",
        may_depend_on: &["tidegate-fields", "tidegate-codec"],
        never: NO_RUNTIME,
    },
    Row {
        name: "tidegate-h3",
        may_depend_on: &["tidegate-fields", "tidegate-codec"],
        never: NO_RUNTIME,
    },
    // What HTTP/2 and HTTP/3 share.
    Row { name: "tidegate-fields", may_depend_on: &["tidegate-codec"], never: NO_RUNTIME },
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
