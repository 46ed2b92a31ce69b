//! `grpc_pass`: addresses, and mistakes in a configuration.

use crate::testing::Bench;

#[test]
fn mistakes_are_found_while_loading() {
    let check = |server: &str, message: &str| {
        let errors = Bench::errors(&format!("server {{ {server} }}")).join("\n");
        assert!(errors.contains(message), "{server}: {errors}");
    };
    let pass = |address: &str| format!("location / {{ grpc_pass {address}; }}");
    check(&pass("127.0.0.1"), "no port in upstream \"127.0.0.1\"");
    check(&pass("grpcs://127.0.0.1"), "no port in upstream \"127.0.0.1\"");
    check(&pass("http://127.0.0.1"), "in upstream \"http://127.0.0.1\"");
    check(&pass("grpc://127.0.0.1:9/x"), "in upstream \"127.0.0.1:9/x\"");
    check(&pass("''"), "no host in upstream \"\"");
    check("grpc_pass 127.0.0.1:9;", "\"grpc_pass\" directive is not allowed here");
    check("grpc_ignore_headers Foo;", "invalid value \"Foo\"");
    check("grpc_next_upstream updating;", "invalid value \"updating\"");
    check("grpc_bind 1;", "invalid address \"1\"");
    check(
        "grpc_ssl_verify on; location / { grpc_pass grpcs://127.0.0.1:9; }",
        "no grpc_ssl_trusted_certificate for grpc_ssl_verify",
    );
    check(
        "grpc_ssl_certificate a; location / { grpc_pass grpcs://127.0.0.1:9; }",
        "no \"grpc_ssl_certificate_key\" is defined for certificate \"a\"",
    );
}
