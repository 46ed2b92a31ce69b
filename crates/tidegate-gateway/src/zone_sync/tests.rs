//! The directive, and what is wrong about it.

use crate::testing::Bench;

#[test]
fn errors() {
    let store = "zone_sync_store redis://h";
    for (text, expected) in [
        ("zone_sync_store http://h;", "invalid URL in \"zone_sync_store\""),
        (&*format!("{store} interval=1ms;"), "invalid time \"interval=1ms\""),
        (&format!("{store} timeout=11s;"), "invalid time \"timeout=11s\""),
        (&format!("{store} name=;"), "invalid parameter \"name=\""),
        (&format!("{store} ssl_verify=maybe;"), "invalid parameter \"ssl_verify=maybe\""),
        (&format!("{store} prefix=a prefix=b;"), "duplicate parameter \"prefix\""),
        (&format!("{store} prefix={};", "x".repeat(65)), "invalid parameter"),
        (&format!("{store}; {store};"), "duplicate zone_sync_store \"default\""),
    ] {
        let errors = Bench::errors(text);
        assert!(errors[0].starts_with(expected), "{text}: {errors:?}");
    }
}
