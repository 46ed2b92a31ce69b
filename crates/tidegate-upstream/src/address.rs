//! Addresses of servers as texts.

use tidegate_rt::net::Addr;

/// Returns an address as logs and variables show it.
pub fn address_text(address: &Addr) -> String {
    match address {
        Addr::Inet(address) => address.to_string(),
        Addr::Unix(path) => format!("unix:{}", path.display()),
    }
}
