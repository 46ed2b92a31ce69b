//! Configuration errors of `uwsgi_*` directives.

use crate::testing::Bench;

#[test]
fn mistakes_are_found_while_loading() {
    let check = |text: &str, message: &str| {
        let config = format!("server {{ location / {{ {text} }} }}");
        let errors = Bench::errors(&config).join("\n");
        assert!(errors.contains(message), "{text}: {errors}");
    };
    check("uwsgi_pass 127.0.0.1;", "no port in upstream \"127.0.0.1\"");
    check("uwsgi_pass http://127.0.0.1:1;", "in upstream \"http://127.0.0.1:1\"");
    check("uwsgi_modifier1 256;", "value must be between 0 and 255");
    check("uwsgi_param A b if_empty;", "invalid parameter \"if_empty\"");
    check(
        "uwsgi_pass suwsgi://127.0.0.1:1; uwsgi_ssl_verify on;",
        "no uwsgi_ssl_trusted_certificate for uwsgi_ssl_verify",
    );
    let config = "server { location / { uwsgi_pass uwsgi://127.0.0.1:1; uwsgi_ssl_verify on; } }";
    Bench::new(config); // There is no TLS to be verified.
}

#[test]
fn every_family_has_its_caches_and_directories() {
    for prefix in ["proxy_", "fastcgi_", "uwsgi_", "scgi_"] {
        let pass = if prefix == "proxy_" { "http://127.0.0.1:9" } else { "127.0.0.1:9" };
        let config = format!(
            "{prefix}cache_path {{dir}}/c keys_zone=z:1m; {prefix}temp_path {{dir}}/t 1 2;
             server {{ location / {{ {prefix}pass {pass}; {prefix}cache z; {prefix}cache_key a;
                 {prefix}cache_tempfile on; {prefix}limit_rate 1k; }} }}"
        );
        let bench = Bench::new(&config);
        assert_eq!(bench.get("/").status, 502, "{prefix}");
        let other = if prefix == "proxy_" { "scgi_" } else { "proxy_" };
        let config = config.replace(&format!("{prefix}cache_path"), &format!("{other}cache_path"));
        let errors = Bench::errors(&config).join("\n");
        let message = format!("\"{prefix}cache\" zone \"z\" is unknown");
        assert!(errors.contains(&message), "{prefix}: {errors}");
    }
}
