//! The name of a family of processes: a server, its workers, and what it becomes by a binary upgrade.
//!
//! What only one server may use at a time (the directory of a cache) carries the name of the family, so
//! that others are refused and relatives are not. A master makes the name and hands it down in the
//! environment.

#[cfg(test)]
mod tests;

use std::process;
use std::sync::OnceLock;

use tidegate_rt::clock;

/// The variable that carries the name.
pub const VARIABLE: &str = "TIDEGATE_FAMILY";

/// Longest name that is taken from the environment.
const NAME_BYTES_MAX: usize = 200;

/// This process's family.
pub fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let inherited = std::env::var(VARIABLE).ok();
        inherited.filter(|name| is_name(name)).unwrap_or_else(new_name)
    })
}

/// Process and time of the first of the family: for people who wonder who it is, too.
fn new_name() -> String {
    format!("process {}, {}", process::id(), clock::unix_millis())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(|c: char| c.is_control())
}
