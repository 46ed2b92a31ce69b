//! Templates, their values, the built-in one, mistakes.

use crate::testing::Bench;

const CONFIG: &str = "
    map $p8s_value $by_state { volatile; up 1; down 2; default 0; }
    prometheus_template own {
        accepted $p8s_value path=/connections/accepted type=counter 'help=Accepted \\\\ connections.';
        'requests{zone=\"$1\"}' $p8s_value path=~^/http/location_zones/([^/]+)/requests/total$ type=counter;
        'responses{zone=\"$1\",code=\"${2}\"}' $p8s_value path=~^/http/location_zones/([^/]+)/responses/(.+)$;
        zones $p8s_value path=/http/location_zones/ type=gauge;
        'state{peer=\"$1\"}' $by_state path=~/peers/([^/]+)/state$;
        'text{peer=\"$1\"}' $p8s_value path=~/peers/([^/]+)/state$;
        'twice{peer=\"$1\"}' 2$1 path=~/peers/127.0.0.1:(\\d+)/weight$;
        none $p8s_value path=/nothing;
    }
    upstream u { zone z 64k; server 127.0.0.1:1; server 127.0.0.1:2 down; }
    server { location = /own { prometheus own; } location = /all { prometheus all; }
        location / { status_zone $arg_z zone=z:2; return 200; } }";

#[test]
fn templates_choose_objects_of_the_tree() {
    let bench = Bench::new(CONFIG);
    for target in ["/?z=a", "/?z=a", "/?z=q%22%5Cx"] {
        bench.get(target);
    }
    let response = bench.get("/own");
    let text = response.text();
    for line in [
        "# Tidegate Prometheus template \"own\"",
        "# HELP accepted Accepted \\\\ connections.",
        "# TYPE accepted counter",
        "requests{zone=\"a\"} 2",
        "requests{zone=\"z\"} 0",
        "responses{zone=\"a\",code=\"200\"} 2",
        "zones 3",
        "state{peer=\"127.0.0.1:1\"} 1",
        "state{peer=\"127.0.0.1:2\"} 2",
        "twice{peer=\"2\"} 22",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.contains("requests{zone=\"q%22%5Cx\"} 1"), "{text}");
    assert!(!text.contains("text{") && !text.contains("none"), "no numbers, no objects:\n{text}");
    assert_eq!(
        bench.send("POST /own HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status,
        405
    );
}

#[test]
fn the_template_all_is_built_in() {
    let bench = Bench::new(CONFIG);
    bench.get("/?z=a");
    let text = bench.text("/all");
    for line in [
        "# TYPE angie_connections_accepted counter",
        "angie_http_location_zones_responses{zone=\"a\",code=\"200\"} 1",
        "angie_http_upstreams_peers_state{upstream=\"u\",peer=\"127.0.0.1:2\"} 2",
        "angie_http_upstreams_keepalive{upstream=\"u\"} 0",
        "angie_slabs_pages_slots_used{zone=\"z\",size=\"128\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let own = "prometheus_template all { x $p8s_value path=/connections/idle; }
        server { location / { prometheus all; } }";
    assert!(Bench::new(own).text("/").ends_with("\nx 0\n"), "the configuration's own");
}

#[test]
fn mistakes_are_refused() {
    for (entry, message) in [
        ("x;", "no value of metric \"x\""),
        ("x $p8s_value;", "no \"path=\" of metric \"x\""),
        ("1 1 path=/;", "invalid name of metric \"1\""),
        ("x 1 path=a;", "invalid path of metric \"path=a\""),
        ("x 1 path=/ type=number;", "invalid type of metric \"type=number\""),
        ("x 1 path=/ more;", "invalid parameter \"more\""),
        ("x 1 path=/ path=/;", "duplicate parameter \"path=/\""),
        ("x 1 path=/ help=a help=b;", "duplicate parameter \"help=b\""),
        ("x$1 1 path=~/a;", "the path has no such capture for the name of metric \"x$1\""),
        ("x$host 1 path=~/a;", "variable in name of metric \"x$host\""),
        ("x 1 path=~(;", "pcre2_compile() failed"),
        ("x $nothing path=/;", "unknown \"nothing\" variable"),
    ] {
        let config = format!(
            "prometheus_template t {{ {entry} }} server {{ location / {{ prometheus t; }} }}"
        );
        let errors = Bench::errors(&config);
        assert!(errors[0].contains(message), "{entry}: {errors:?}");
    }
    let errors = Bench::errors("server { location / { prometheus none; } }");
    assert!(errors[0].contains("unknown \"prometheus_template\" \"none\""), "{errors:?}");
    let errors = Bench::errors("prometheus_template t { } prometheus_template t { } server { }");
    assert!(errors[0].contains("duplicate \"prometheus_template\" \"t\""), "{errors:?}");
}
