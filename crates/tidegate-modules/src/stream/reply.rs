//! `return`: sends a text to the client and ends the session.
//!
//! ```nginx
//! server { listen 12345; return $time_iso8601; }
//! ```

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::task::{Poll, ready};
use std::time::Duration;

use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_core::client::ByteStream;
use tidegate_core::session::SessionClient;
use tidegate_core::{Exchange, Level, Step};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;
use tidegate_rt::timer::Deadline;

/// `ngx_stream_return_module`.
pub(crate) struct SessionReply;

/// The directive of one server.
#[derive(Default)]
pub(crate) struct Conf {
    text: Option<Word>,
}

/// Longest time between two writes of the text; then the session is closed. A slow client gets all of a long text.
const SEND_TIME: Duration = Duration::from_secs(60);

impl Module for SessionReply {
    type Conf = Conf;
    const NAME: &'static str = "stream_return";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "return",
        Contexts::STREAM_SERVER,
        Arity::ONE,
        "",
        "Sends a text and ends the session.",
        |conf: &mut Conf, args| once(&mut conf.text, args.word(0).clone(), args),
    )]];

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        let Some(word) = &conf.text else { return Ok(()) };
        let text = server.plan.template(word)?;
        server.content(Box::new(move |x| {
            let text = text.value(x);
            Step::Wait(Box::pin(send(x, text)))
        }));
        Ok(())
    }
}

/// Sends a text. Dropped at its await, a part of the text may have been sent; the session closes. Source: `return`
/// of `stream`.
async fn send(x: &mut Exchange, text: Vec<u8>) -> Step<'static> {
    let Some(session) = x.session() else { return Step::Status(500) };
    let client = session.client.clone();
    let sent = match client {
        _ if text.is_empty() => return Step::Status(200),
        SessionClient::Datagrams(client) => client.send(&text),
        SessionClient::Stream(client) => send_all(&*client, &text, &Deadline::new()).await,
    };
    match sent {
        Ok(()) => Step::Status(200),
        Err(error) => {
            let error = tidegate_os::os_error(&error);
            x.log(Level::Info, format_args!("send() failed ({error})"));
            Step::Status(500)
        }
    }
}

/// Writes a text and flushes it. `limit` moves with each write. Dropped at its await, a part may have been sent.
///
/// # Errors
/// The client has gone, or took no byte for [`SEND_TIME`].
async fn send_all(client: &dyn ByteStream, text: &[u8], limit: &Deadline) -> io::Result<()> {
    limit.set_after(SEND_TIME);
    let mut rest = text;
    let sending = poll_fn(|context| {
        while !rest.is_empty() {
            match ready!(client.poll_write(context, rest)) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) => return Poll::Ready(Err(error)),
            }
            limit.set_after(SEND_TIME);
        }
        client.poll_flush(context)
    });
    limit.limit(sending).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
