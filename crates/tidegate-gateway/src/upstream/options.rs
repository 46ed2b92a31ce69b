//! Parameters of servers that the configuration, commands and discoveries have in common.

use tidegate_upstream::{BalancingMethod, ServerOptions};

/// The port of a server without one.
pub(crate) const PORT: u16 = 80;

/// Sets the parameters common to servers of the configuration and those added at run time. `None`: an unknown
/// parameter, or an invalid value.
pub(crate) fn set_option(
    options: &mut ServerOptions,
    name: &str,
    value: Option<&str>,
) -> Option<()> {
    let number = || value.and_then(|value| value.parse::<u32>().ok());
    let time = || value.and_then(|value| tidegate_conf::parse_seconds(value.as_bytes()));
    match (name, value) {
        ("weight", Some(_)) => options.weight = number().filter(|weight| *weight > 0)?,
        ("max_conns", Some(_)) => options.max_conns = number()?,
        ("max_fails", Some(_)) => options.max_fails = number()?,
        ("fail_timeout", Some(_)) => options.fail_timeout = time()?,
        ("slow_start", Some(_)) => options.slow_start = time()?,
        // Angie's name for it.
        ("route" | "sid", Some(route)) if is_route(route) => {
            options.route = Some(route.into());
        }
        ("backup", None) => options.backup = true,
        ("down", None) => options.down = true,
        ("drain", None) => options.drain = true,
        _ => return None,
    }
    Some(())
}

/// Returns whether a text can be the value of a cookie by which requests are bound.
fn is_route(text: &str) -> bool {
    text.len() <= ROUTE_BYTES_MAX && !text.bytes().any(|byte| byte.is_ascii_control())
}

/// Longest route in bytes; as documented for commands.
const ROUTE_BYTES_MAX: usize = 32;

/// Returns whether a method ignores backups: it chooses among all servers alike.
pub(crate) fn knows_no_rank(method: BalancingMethod) -> bool {
    matches!(
        method,
        BalancingMethod::IpHash
            | BalancingMethod::Hash
            | BalancingMethod::HashConsistent
            | BalancingMethod::Random
            | BalancingMethod::RandomTwo
            | BalancingMethod::RandomTwoTime(_)
    )
}
