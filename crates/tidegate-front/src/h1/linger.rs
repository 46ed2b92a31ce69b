//! Reading on before closing, so that a reset does not take the answer from the client
//! (RFC 9112 section 9.6).

use std::future::poll_fn;
use std::rc::Rc;
use std::time::Duration;

use tidegate_core::request_body::RequestBody;
use tidegate_rt::timer::timeout;

use crate::conn::Conn;

/// Bytes read and dropped at once.
const READ_BYTES: usize = 4096;

/// Reads the rest of a body and drops it; `false` when it does not end in time.
pub async fn discard_body(body: &mut RequestBody, time: Duration, wait: Duration) -> bool {
    let drain = async {
        loop {
            match timeout(wait, body.next()).await {
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None)) => return true,
                Ok(Err(_)) | Err(_) => return false,
            }
        }
    };
    timeout(time, drain).await.unwrap_or(false)
}

/// Says that nothing more comes, and reads until the client closes as well.
pub async fn close(conn: &Rc<Conn>) {
    let plan = conn.front.plan();
    let Some(servers) = conn.servers(&plan) else { return };
    let settings = &plan.location(plan.server(servers.default).location).settings;
    conn.io.shutdown().await;
    let drain = async {
        let mut sink = Vec::with_capacity(READ_BYTES);
        loop {
            sink.clear();
            let read = poll_fn(|context| conn.io.poll_read_append(context, &mut sink));
            match timeout(settings.lingering_timeout, read).await {
                Ok(Ok(count)) if count > 0 => {}
                _ => return,
            }
        }
    };
    let _ = timeout(settings.lingering_time, drain).await;
}
