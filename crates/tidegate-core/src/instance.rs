//! The identifier of a server instance: a master, its workers, and the processes of its binary upgrades.
//!
//! A resource that one server alone may use (the directory of a cache) is marked with the identifier: other servers
//! are refused, further processes of the same instance are not. The master makes the identifier and passes it on in
//! the environment.

#[cfg(test)]
mod tests;

use std::process;
use std::sync::OnceLock;

use tidegate_rt::clock;

/// The environment variable that carries the identifier.
pub const VARIABLE: &str = "TIDEGATE_FAMILY";

/// Longest identifier that is accepted from the environment, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// Returns the identifier of this process's server instance.
pub fn name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let inherited = std::env::var(VARIABLE).ok();
        inherited.filter(|name| is_name(name)).unwrap_or_else(new_name)
    })
}

/// Makes an identifier of this process and the time in Unix milliseconds, which people can read in messages.
fn new_name() -> String {
    format!("process {}, {}", process::id(), clock::unix_millis())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(|c: char| c.is_control())
}
