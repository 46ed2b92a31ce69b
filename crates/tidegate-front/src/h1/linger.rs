//! Reading on before closing, so that a reset does not take the answer from the client
//! (RFC 9112 section 9.6).

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use tidegate_core::request_body::RequestBody;
use tidegate_core::settings::Settings;
use tidegate_rt::timer::timeout;

use crate::conn::Conn;

/// Bytes read and dropped at once.
const READ_BYTES: usize = 4096;

/// How long it is read on, as the request's location says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linger {
    /// `lingering_time`: in all.
    time: Duration,
    /// `lingering_timeout`: for the next bytes.
    wait: Duration,
}

impl Linger {
    pub fn of(settings: &Settings) -> Linger {
        Linger { time: settings.lingering_time, wait: settings.lingering_timeout }
    }
}

/// Reads the rest of a body and drops it; `false` when it does not end in time. However large it is: the client has
/// been told that the connection stays.
pub async fn discard_body(body: &mut RequestBody, limits: Linger) -> bool {
    body.set_limit(None);
    let drain = async {
        loop {
            match timeout(limits.wait, body.next()).await {
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None)) => return true,
                Ok(Err(_)) | Err(_) => return false,
            }
        }
    };
    timeout(limits.time, drain).await.unwrap_or(false)
}

/// Says that nothing more comes, and reads until the client closes as well.
pub async fn close(conn: &Rc<Conn>, limits: Linger) {
    conn.io.shutdown().await;
    let drain = async {
        let mut sink = Vec::with_capacity(READ_BYTES);
        loop {
            sink.clear();
            let read = poll_fn(|context| conn.io.poll_read_append(context, &mut sink));
            match timeout(limits.wait, read).await {
                Ok(Ok(count)) if count > 0 => {}
                _ => return,
            }
        }
    };
    let _ = timeout(limits.time, drain).await;
}
