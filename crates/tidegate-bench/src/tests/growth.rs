//! The growth suite: its configurations, requests and page.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use super::with_nginx_in_both_places;
use crate::config::growth::Growing;
use crate::config::{Scenario, Setup, generate};
use crate::options::Suite;
use crate::suites::growth::html;
use crate::suites::{Case, cases, measure};

#[test]
fn a_place_of_each_size_and_its_request() {
    let all = [
        (Growing::Prefixes, "location /prefix3/x2/ {", "/prefix3/x1/"),
        (Growing::Names, "location = /name3/x2 {", "/name3/x1"),
        (Growing::Patterns, "location ~ ^/pattern3/x2$ {", "/pattern3/x2"),
        (
            Growing::Hosts,
            "server { listen 127.1.0.3:1; server_name ~^k2\\.test$; ",
            "http://k2.test/",
        ),
        (Growing::Map, " k2 \"", "/map3?k=k1"),
        (Growing::MapPatterns, " ~^k2$ \"", "/mappattern3?k=k2"),
        (Growing::Networks, " 10.0.2.0/24 \"", "/network3?k=10.0.1.7"),
        (Growing::Keys, "zone=key3:", "/key3?k=k0"),
        (Growing::Objects, "keys_zone=object3:", "/object3?n=100&max-age=86400&k=0"),
        (Growing::Connections, "location / {", "/"),
    ];
    for (growing, line, target) in all {
        let text = generate(&Setup {
            scenario: Scenario::Growth(growing, &[1, 3]),
            directory: Path::new("/prefix"),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 1)),
            origin: SocketAddr::from((Ipv4Addr::LOCALHOST, 2)),
            worker_connections: 10,
            privileged: true,
            tempfile_directive: true,
            watchdog: false,
            generation: 1,
        });
        assert!(text.contains(line), "{text}");
        assert_eq!(growing.asks(3).first().map(|ask| ask.target.as_str()), Some(target));
        let is_filled = matches!(growing, Growing::Keys | Growing::Objects);
        assert_eq!(growing.members(3).count(), if is_filled { 3 } else { 0 });
    }
    // A sample of many keys, from the first to the end.
    let asks = Growing::Keys.asks(1_000_000);
    assert_eq!(asks.len(), 62_500);
    assert_eq!(asks.last().map(|ask| ask.target.as_str()), Some("/key1000000?k=k999984"));
}

#[test]
fn small_run_with_nginx_in_both_places() {
    let line = ["growth", "--seconds", "0.1", "--rounds", "1", "--connections", "2"];
    let Some((context, environment)) = with_nginx_in_both_places(&line) else { return };
    let chosen = cases(Suite::Growth);
    let named = |case: &Case| ["names", "patterns"].contains(&case.name());
    let chosen: Vec<Case> = chosen.into_iter().filter(named).collect();
    let reports = measure(&context, &chosen, |_| ());
    assert_eq!(reports.len(), 2);
    for report in &reports {
        // Cost and rate at each size, the share of others, and the growth.
        assert_eq!(report.rows.len(), 2 * 4 + 1 + 1, "{report:#?}");
        assert_eq!(report.notes.iter().find(|note| note.contains("failed")), None);
        for row in &report.rows {
            assert_eq!((row.tidegate.len(), row.nginx.len(), row.errors), (1, 1, 0), "{row:?}");
        }
        let costs: Vec<f64> = report.rows.iter().map(|row| row.tidegate[0]).collect();
        assert_eq!(costs[9], costs[6] / costs[0]);
        assert_eq!(report.rows[9].unmet(false), None, "a goal counts with --strict alone");
    }
    let page = html(&environment, &reports);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</body></html>\n"));
    assert_eq!(page.matches("<svg").count(), 2);
    assert_eq!(page.matches("<g class=\"line nginx\">").count(), 2);
}
