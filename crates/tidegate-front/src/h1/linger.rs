//! Reading on before closing, so that a reset does not take the answer from the client
//! (RFC 9112 section 9.6).

use std::future::poll_fn;
use std::rc::Rc;

use tidegate_core::request_body::RequestBody;
use tidegate_rt::timer::timeout;

use crate::action::Linger;
use crate::link::Link;

/// Bytes read and dropped at once.
const READ_BYTES: usize = 4096;

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
pub async fn close(link: &Rc<Link>, limits: Linger) {
    link.io.shutdown().await;
    let drain = async {
        let mut sink = Vec::with_capacity(READ_BYTES);
        loop {
            sink.clear();
            let read = poll_fn(|context| link.io.poll_read_append(context, &mut sink));
            match timeout(limits.wait, read).await {
                Ok(Ok(count)) if count > 0 => {}
                _ => return,
            }
        }
    };
    let _ = timeout(limits.time, drain).await;
}
