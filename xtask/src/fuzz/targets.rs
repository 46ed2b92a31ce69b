//! The list of fuzz targets. Each name has a directory of seeds in `fuzz/seeds/`, a libFuzzer program
//! in `fuzz/fuzz_targets/` and a `[[bin]]` in `fuzz/Cargo.toml`; a test keeps the four in step.

use super::rounds::Target;

pub(super) const TARGETS: &[Target] = &[
    Target { name: "config", run: tidegate_conf::fuzz_config },
    Target { name: "request", run: tidegate_codec::fuzzing::fuzz_request },
    Target { name: "chunked", run: tidegate_codec::fuzzing::fuzz_chunked },
    Target { name: "uri", run: tidegate_codec::fuzzing::fuzz_uri },
    Target { name: "range", run: tidegate_codec::fuzzing::fuzz_range },
    Target { name: "response", run: tidegate_codec::fuzzing::fuzz_response },
    Target { name: "cache_control", run: tidegate_codec::fuzzing::fuzz_cache_control },
    Target { name: "proxy_protocol", run: tidegate_codec::fuzzing::fuzz_proxy_protocol },
    Target { name: "fastcgi", run: tidegate_codec::fuzzing::fuzz_fastcgi },
    Target { name: "grpc_web", run: tidegate_codec::fuzzing::fuzz_grpc_web },
    Target { name: "memcached", run: tidegate_codec::fuzzing::fuzz_memcached },
    Target { name: "client_hello", run: tidegate_codec::fuzzing::fuzz_client_hello },
    Target { name: "h2_hpack", run: tidegate_h2::fuzzing::fuzz_hpack },
    Target { name: "h2_frames", run: tidegate_h2::fuzzing::fuzz_frames },
    Target { name: "h2_connection", run: tidegate_h2::fuzzing::fuzz_connection },
    Target { name: "h3_qpack", run: tidegate_h3::fuzzing::fuzz_qpack },
    Target { name: "h3_frames", run: tidegate_h3::fuzzing::fuzz_frames },
    Target { name: "h3_connection", run: tidegate_h3::fuzzing::fuzz_connection },
    Target { name: "quic_packets", run: tidegate_quic::fuzzing::fuzz_packets },
    Target { name: "acme_responses", run: tidegate_acme::fuzzing::fuzz_responses },
    Target { name: "jose_tokens", run: tidegate_jose::fuzzing::fuzz_token },
    Target { name: "jose_keys", run: tidegate_jose::fuzzing::fuzz_key_set },
    Target { name: "store_replies", run: tidegate_store::resp::fuzz_replies },
    Target { name: "geoip", run: tidegate_modules::fuzz_geoip },
    Target { name: "keyval_pairs", run: tidegate_modules::fuzz_keyval_pairs },
    Target { name: "geoip2", run: tidegate_modules::fuzz_geoip2 },
    Target { name: "otel", run: tidegate_modules::fuzz_otel },
    Target { name: "cache_header", run: tidegate_cache::fuzz_header },
    Target { name: "cache_journal", run: tidegate_cache::fuzz_journal },
    Target { name: "purge_rules", run: tidegate_cache::fuzz_purge_rules },
    Target { name: "file_names", run: tidegate_os::names::fuzz_names },
    Target { name: "cache_operations", run: tidegate_cache::fuzz::fuzz_operations },
];
