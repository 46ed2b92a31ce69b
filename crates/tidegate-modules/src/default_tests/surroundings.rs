//! The configurations around a directive: a module's settings are in a plan only where the module does something.

use tidegate_conf::{Contexts, Row};

/// A context, and the configuration before and behind a directive in it.
pub(super) struct Place {
    pub context: Contexts,
    before: String,
    behind: String,
}

impl Place {
    /// Returns the configuration with a directive; the text may be empty.
    pub(super) fn with(&self, directive: &str) -> String {
        format!("{} {directive} {}", self.before, self.behind)
    }
}

/// Contexts that share a plan: a directive is tried in the first one of each group that allows it.
const GROUPS: &[&[(Contexts, &str, &str)]] = &[
    &[
        (Contexts::EVENTS, "events {", "} http { server { return 200; } }"),
        (
            Contexts::MAIN,
            "",
            "http { server { return 200; } } stream { server { listen 1; return a; } }",
        ),
    ],
    &[
        (Contexts::HTTP, "http { HTTP", "server { LISTEN SERVER location / { LOCATION } } }"),
        (Contexts::SERVER, "http { HTTP server { SERVER", "location / { LOCATION } } }"),
        (Contexts::LOCATION, "http { HTTP server { SERVER location / { LOCATION", "} } }"),
        (
            Contexts::LOCATION_IF,
            "http { HTTP server { SERVER location / { LOCATION if ($args) {",
            "} } } }",
        ),
    ],
    &[
        (Contexts::STREAM, "stream { STREAM", "server { listen 1; SESSION return a; } }"),
        (Contexts::STREAM_SERVER, "stream { STREAM server { listen 1; SESSION", "return a; } }"),
    ],
    &[(
        Contexts::UPSTREAM,
        "http { upstream a { UPSTREAM server 127.0.0.1;",
        "} server { location / { proxy_pass http://a; } } }",
    )],
    &[(
        Contexts::OTEL_EXPORTER,
        "http { otel_exporter { endpoint a:1;",
        "} server { location / { otel_trace on; } } }",
    )],
    &[(
        Contexts::STREAM_UPSTREAM,
        "stream { upstream a { UPSTREAM server 127.0.0.1:1;",
        "} server { listen 1; proxy_pass a; } }",
    )],
];

/// Directives that a module's directives, or one directive, need around the one under test.
struct Surroundings {
    /// The directive, or the module as in [`tidegate_plan::Module::NAME`].
    of: &'static str,
    /// Texts at the places of these names in [`GROUPS`]; one directive a line.
    texts: &'static [(&'static str, &'static str)],
}

const SURROUNDINGS: &[Surroundings] = &[
    Surroundings {
        of: "proxy",
        texts: &[(
            "LOCATION",
            "proxy_store on;\nproxy_ssl_trusted_certificate cert.pem;\nproxy_pass https://127.0.0.1;",
        )],
    },
    Surroundings {
        of: "proxy_cache",
        texts: &[
            ("HTTP", "proxy_cache_path c keys_zone=c:1m;\nupstream ring { server 127.0.0.1; }"),
            ("LOCATION", "proxy_cache c;\nproxy_pass http://127.0.0.1;"),
        ],
    },
    Surroundings {
        of: "fastcgi",
        texts: &[("LOCATION", "fastcgi_store on;\nfastcgi_pass 127.0.0.1:1;")],
    },
    Surroundings {
        of: "fastcgi_cache",
        texts: &[
            ("HTTP", "fastcgi_cache_path c keys_zone=c:1m;\nupstream ring { server 127.0.0.1; }"),
            ("LOCATION", "fastcgi_cache c;\nfastcgi_cache_key $uri;\nfastcgi_pass 127.0.0.1:1;"),
        ],
    },
    Surroundings {
        of: "uwsgi",
        texts: &[(
            "LOCATION",
            "uwsgi_store on;\nuwsgi_ssl_trusted_certificate cert.pem;\nuwsgi_pass suwsgi://127.0.0.1:1;",
        )],
    },
    Surroundings {
        of: "uwsgi_cache",
        texts: &[
            ("HTTP", "uwsgi_cache_path c keys_zone=c:1m;\nupstream ring { server 127.0.0.1; }"),
            ("LOCATION", "uwsgi_cache c;\nuwsgi_cache_key $uri;\nuwsgi_pass 127.0.0.1:1;"),
        ],
    },
    Surroundings {
        of: "grpc",
        texts: &[(
            "LOCATION",
            "grpc_ssl_trusted_certificate cert.pem;\ngrpc_pass grpcs://127.0.0.1:1;",
        )],
    },
    Surroundings { of: "scgi", texts: &[("LOCATION", "scgi_store on;\nscgi_pass 127.0.0.1:1;")] },
    Surroundings {
        of: "scgi_cache",
        texts: &[
            ("HTTP", "scgi_cache_path c keys_zone=c:1m;\nupstream ring { server 127.0.0.1; }"),
            ("LOCATION", "scgi_cache c;\nscgi_cache_key $uri;\nscgi_pass 127.0.0.1:1;"),
        ],
    },
    Surroundings {
        of: "memcached",
        texts: &[("LOCATION", "set $memcached_key a;\nmemcached_pass 127.0.0.1:1;")],
    },
    Surroundings {
        of: "stream_proxy",
        texts: &[(
            "SESSION",
            "proxy_ssl on;\nproxy_ssl_trusted_certificate cert.pem;\nproxy_pass 127.0.0.1:1;",
        )],
    },
    Surroundings { of: "docker", texts: &[("HTTP", "docker_endpoint http://127.0.0.1:1;")] },
    Surroundings {
        of: "otel",
        texts: &[("HTTP", "otel_exporter { endpoint a:1; }"), ("LOCATION", "otel_trace on;")],
    },
    Surroundings {
        of: "limit_req",
        texts: &[
            ("HTTP", "limit_req_zone $uri zone=z:1m rate=1r/s;"),
            ("LOCATION", "limit_req zone=z;"),
        ],
    },
    Surroundings {
        of: "limit_conn",
        texts: &[
            ("HTTP", "limit_conn_zone $uri zone=z:1m;"),
            ("LOCATION", "limit_conn z 1;"),
            ("STREAM", "limit_conn_zone $remote_addr zone=z:1m;"),
            ("SESSION", "limit_conn z 1;"),
        ],
    },
    Surroundings { of: "realip", texts: &[("LOCATION", "set_real_ip_from 10.0.0.0/8;")] },
    Surroundings { of: "auth_basic", texts: &[("LOCATION", "auth_basic_user_file f;")] },
    Surroundings {
        of: "auth_jwt",
        texts: &[("LOCATION", "auth_jwt x;\nauth_jwt_key_request /keys;")],
    },
    Surroundings { of: "mirror", texts: &[("LOCATION", "mirror /m;")] },
    Surroundings { of: "mp4", texts: &[("LOCATION", "mp4;")] },
    Surroundings { of: "autoindex", texts: &[("LOCATION", "autoindex on;")] },
    Surroundings { of: "dav", texts: &[("LOCATION", "dav_methods PUT;")] },
    Surroundings { of: "static", texts: &[("LOCATION", "open_file_cache max=9;\ndirectio 4m;")] },
    Surroundings { of: "userid", texts: &[("LOCATION", "userid on;")] },
    Surroundings { of: "gunzip", texts: &[("LOCATION", "gunzip on;")] },
    Surroundings { of: "addition", texts: &[("LOCATION", "add_after_body /a;")] },
    Surroundings { of: "sub", texts: &[("LOCATION", "sub_filter a b;")] },
    Surroundings { of: "charset", texts: &[("LOCATION", "charset utf-8;")] },
    Surroundings { of: "ssi", texts: &[("LOCATION", "ssi on;")] },
    Surroundings { of: "gzip", texts: &[("LOCATION", "gzip on;\nbrotli on;\nzstd on;")] },
    Surroundings {
        of: "log",
        texts: &[
            ("LOCATION", "access_log $uri;"),
            ("STREAM", "log_format f $bytes_sent;"),
            ("SESSION", "access_log $bytes_sent f;"),
        ],
    },
    Surroundings {
        of: "headers",
        texts: &[
            ("HTTP", "add_header A a;\nadd_trailer A a;"),
            ("LOCATION", "add_header B b;\nadd_trailer B b;"),
        ],
    },
    Surroundings {
        of: "rewrite",
        texts: &[("LOCATION", "rewrite a b; set_encode_base32 $encoded $uri;")],
    },
    Surroundings {
        of: "proxy_ssl_certificate_cache",
        texts: &[
            (
                "LOCATION",
                "proxy_ssl_certificate $uri;\nproxy_ssl_certificate_key $uri;\nproxy_pass https://127.0.0.1;",
            ),
            (
                "SESSION",
                "proxy_ssl on;\nproxy_ssl_certificate $remote_addr;\nproxy_ssl_certificate_key $remote_addr;\n\
                 proxy_pass 127.0.0.1:1;",
            ),
        ],
    },
    Surroundings {
        of: "uwsgi_ssl_certificate_cache",
        texts: &[(
            "LOCATION",
            "uwsgi_ssl_certificate $uri;\nuwsgi_ssl_certificate_key $uri;\nuwsgi_pass suwsgi://127.0.0.1:1;",
        )],
    },
    Surroundings {
        of: "grpc_ssl_certificate_cache",
        texts: &[(
            "LOCATION",
            "grpc_ssl_certificate $uri;\ngrpc_ssl_certificate_key $uri;\ngrpc_pass grpcs://127.0.0.1:1;",
        )],
    },
    Surroundings {
        of: "ssl_certificate_cache",
        texts: &[("SERVER", NAMED), ("SESSION", NAMED), ("LISTEN", "listen 1 ssl;")],
    },
    Surroundings {
        of: "ssl_ocsp_cache",
        texts: &[("SERVER", CHECKED), ("SESSION", CHECKED), ("LISTEN", "listen 1 ssl;")],
    },
    Surroundings { of: "resolver_timeout", texts: &[("UPSTREAM", RESOLVED)] },
    Surroundings {
        of: "http_ssl",
        texts: &[("SERVER", CERTIFICATE), ("SESSION", CERTIFICATE), ("LISTEN", "listen 1 ssl;")],
    },
];

/// Name servers of a group are used where a server's name is resolved again.
const RESOLVED: &str = "zone z 1m;\nresolver 127.0.0.1;\nserver localhost:1 resolve;";

const CERTIFICATE: &str = "ssl_certificate cert.pem;\nssl_certificate_key key.pem;\n\
    ssl_client_certificate cert.pem;\nssl_verify_client on;\nssl_stapling on;";

/// A certificate that is loaded for each handshake.
const NAMED: &str = "ssl_certificate $ssl_server_name;\nssl_certificate_key $ssl_server_name;";

/// Clients' certificates are checked by OCSP.
const CHECKED: &str = "ssl_certificate cert.pem;\nssl_certificate_key key.pem;\n\
    ssl_client_certificate cert.pem;\nssl_verify_client on;\nssl_ocsp on;";

/// Returns the files that surroundings name.
pub(super) fn files() -> [(&'static str, String); 2] {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["a".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signed");
    [("cert.pem", certificate.pem()), ("key.pem", key.serialize_pem())]
}

/// Returns the places to try a directive in.
pub(super) fn places(module: &str, row: &Row) -> Vec<Place> {
    let found = GROUPS
        .iter()
        .filter_map(|group| group.iter().find(|(context, ..)| row.contexts.contains(*context)));
    found
        .map(|(context, before, behind)| Place {
            context: *context,
            before: filled(before, module, row.name),
            behind: filled(behind, module, row.name),
        })
        .collect()
}

/// Puts a module's surroundings in; the directive under test is left out of them.
fn filled(text: &str, module: &str, directive: &str) -> String {
    let of = |name: &str| SURROUNDINGS.iter().find(|own| own.of == name);
    let own = of(directive).or_else(|| of(module));
    let words = text.split(' ').map(|word| {
        if !["HTTP", "SERVER", "LOCATION", "STREAM", "SESSION", "LISTEN", "UPSTREAM"]
            .contains(&word)
        {
            return word.to_owned();
        }
        let texts = own.map_or(&[][..], |own| own.texts);
        let own = texts.iter().find(|(place, _)| *place == word).map_or("", |(_, text)| text);
        let lines = own.lines().filter(|line| line.split([' ', ';']).next() != Some(directive));
        lines.collect::<Vec<_>>().join("\n")
    });
    words.collect::<Vec<_>>().join(" ")
}
