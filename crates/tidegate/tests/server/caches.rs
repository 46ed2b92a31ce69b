//! Caches and processes: which server may use a directory, and what survives a kill.

use crate::support::{BINARY, Site};
use tidegate_testkit::{TortureOptions, torture};

#[test]
fn a_cache_directory_belongs_to_one_server() {
    let (site, other) = (Site::new(), Site::new());
    let cache = site.path("cache");
    let configure = |site: &Site| {
        let path = format!("proxy_cache_path {} keys_zone=z:1m;", cache.display());
        site.configure(
            "",
            &format!("{path} server {{ listen 127.0.0.1:{{port}}; return 200 ok; }}"),
        );
    };
    configure(&site);
    configure(&other);
    let server = site.start();
    server.wait_log("start worker process ");
    assert_eq!(site.get(site.port), "ok");
    let second = other.start();
    let line = second.wait_log("[emerg]");
    assert!(line.contains("directory ") && line.contains("in use by another server"), "{line}");
    drop(second);
    server.quit();
    let third = other.start();
    third.wait_log("start worker process ");
    assert_eq!(other.get(other.port), "ok");
    third.quit();
}

/// The short form of `tidegate-torture --rounds 200`.
#[test]
fn a_killed_server_serves_nothing_wrong() {
    let options = TortureOptions {
        binary: BINARY.into(),
        rounds: 5,
        clients: 4,
        seed: std::process::id().into(),
    };
    let report = torture(&options, |_, _| ()).unwrap();
    println!("seed {}: {report}", options.seed);
    assert_eq!(report.mistakes, Vec::<String>::new(), "seed {}", options.seed);
    assert!(report.whole > 100 && report.hits > 0 && report.kept > 0, "{report}");
}
