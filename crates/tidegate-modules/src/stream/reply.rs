//! `return`: sends a text to the client and ends the session.
//!
//! ```nginx
//! server { listen 12345; return $time_iso8601; }
//! ```

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_core::session::SessionClient;
use tidegate_core::{Exchange, Level, Step};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;
use tidegate_rt::timer::timeout;

/// `ngx_stream_return_module`.
pub(crate) struct SessionReply;

/// The directive of one server.
#[derive(Default)]
pub(crate) struct Conf {
    text: Option<Word>,
}

/// Longest time that sending the text may take; then the session is closed.
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
        SessionClient::Stream(client) => {
            let mut rest = &text[..];
            let sending = poll_fn(|context| {
                while !rest.is_empty() {
                    match std::task::ready!(client.poll_write(context, rest)) {
                        Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                        Err(error) => return std::task::Poll::Ready(Err(error)),
                    }
                }
                client.poll_flush(context)
            });
            timeout(SEND_TIME, sending).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
        }
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
