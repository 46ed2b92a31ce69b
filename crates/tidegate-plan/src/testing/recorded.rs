//! Tables that simulations give, recorded in `docs/simulations` for drawings of them.

use std::path::Path;

/// Checks that a simulation gives what is recorded. With `SIMULATIONS=write` in the environment it is recorded anew.
///
/// # Panics
/// It gives something else, or the record cannot be read or written.
pub fn check_recorded(name: &str, found: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulations");
    let place = directory.join(name);
    if std::env::var_os("SIMULATIONS").is_some_and(|value| value == "write") {
        std::fs::write(place, found).expect("the table is recorded");
        return;
    }
    let recorded = std::fs::read_to_string(place).expect("the recorded table");
    let different = recorded.lines().zip(found.lines()).find(|(one, other)| one != other);
    assert_eq!(different, None, "{name}: scripts/simulations.sh records what has changed");
    assert_eq!(recorded.len(), found.len(), "{name}: a table of another length is recorded");
}
