//! Files that change while they are requested.

use crate::support::BINARY;
use tidegate_testkit::{CoherenceOptions, coherence};

/// Changes of one run: some seconds of them.
const CHANGES: u32 = 1000;

#[test]
fn no_response_is_old_or_mixed() {
    let options = CoherenceOptions {
        binary: BINARY.into(),
        changes: CHANGES,
        readers: 3,
        seed: 1,
        settings: String::new(),
    };
    let report = coherence(&options).unwrap();
    println!("{report}");
    assert_eq!(report.mistakes, [""; 0]);
    assert_eq!(report.changes, CHANGES);
    assert!(report.whole > 100 && report.absent > 10, "{report}");
}
