//! Servers of a group that are killed and started again.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_testkit::{RestartOptions, restarts};

/// The short form of `tidegate-restarts`.
#[test]
fn no_client_sees_that_servers_are_killed() {
    let options = RestartOptions {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_tidegate")),
        time: Duration::from_secs(3),
        pause: Duration::from_millis(50),
        clients: 4,
    };
    let report = restarts(&options).expect("servers");
    assert!(report.mistakes.is_empty(), "{report}: {:?}", report.mistakes);
    assert!(report.kills >= 2 && report.responses > 100, "{report}");
}
