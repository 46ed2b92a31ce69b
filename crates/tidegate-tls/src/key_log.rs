//! The secrets of connections, for programs that decrypt recorded ones (SSLKEYLOGFILE, draft-ietf-tls-keylogfile).

#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::sync::Arc;

/// A destination of secrets. Settings with one write a line for each secret of each handshake.
#[derive(Clone)]
pub struct KeyLog {
    /// The name of the destination.
    name: Arc<str>,
    write: Arc<Write>,
}

/// Takes a line.
type Write = dyn Fn(&[u8]) + Send + Sync;

impl KeyLog {
    /// Makes a log that passes whole lines to `write`, on the threads of connections. Logs of the same name are one.
    pub fn new(name: &str, write: impl Fn(&[u8]) + Send + Sync + 'static) -> KeyLog {
        KeyLog { name: name.into(), write: Arc::new(write) }
    }

    /// Returns the name of the destination.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl rustls::KeyLog for KeyLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = format!("{label} ");
        hexadecimal(&mut line, client_random);
        line.push(' ');
        hexadecimal(&mut line, secret);
        line.push('\n');
        (self.write)(line.as_bytes());
    }
}

/// Shows the name.
impl fmt::Debug for KeyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyLog").field(&self.name).finish()
    }
}

fn hexadecimal(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // cannot fail: a text takes everything
        let _ = write!(text, "{byte:02x}");
    }
}
