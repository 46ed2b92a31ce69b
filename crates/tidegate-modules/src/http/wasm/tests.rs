//! Directives of components in a bench. What components do is tested by `tests/handlers`.

use crate::testing::Bench;

fn check(config: &str, message: &str) {
    let errors = Bench::errors(&format!("server {{ location / {{ {config} }} }}"));
    // The library's description of the file's fault is behind that.
    assert!(errors.first().is_some_and(|error| error.contains(message)), "{errors:?}");
}

#[test]
fn errors_are_reported() {
    check("wasm a.wasm memory=1k;", "invalid parameter \"memory=1k\"");
    check("wasm a.wasm memory=5g;", "invalid parameter \"memory=5g\"");
    check("wasm a.wasm fuel=0;", "invalid parameter \"fuel=0\"");
    check("wasm a.wasm reuse=0;", "invalid parameter \"reuse=0\"");
    check("wasm a.wasm reuse=5000000000;", "invalid parameter \"reuse=5000000000\"");
    check("wasm a.wasm timeout=;", "invalid parameter \"timeout=\"");
    check("wasm a.wasm size=1;", "invalid parameter \"size=1\"");
    check("wasm a.wasm; wasm b.wasm;", "\"wasm\" directive is duplicate");
    check("wasm_env A=B c;", "\"wasm_env\" directive invalid value");
    check("wasm_env A b; wasm_env A c;", "duplicate variable \"A\"");
    check("wasm_dir a /a rx;", "invalid value \"rx\"");
    check("wasm_dir a /a; wasm_dir b /a rw;", "duplicate directory \"/a\"");
}

#[cfg(feature = "wasm")]
#[test]
fn files_that_are_not_components_are_refused() {
    check("wasm none.wasm;", "/none.wasm\" failed (2: No such file or directory)");
    check("wasm bench.conf;", "cannot load component \"bench.conf\": ");
}

#[cfg(not(feature = "wasm"))]
#[test]
fn without_the_feature_components_are_refused() {
    check("wasm bench.conf;", "\"wasm\" directive is not supported in this build");
}
