//! `stub_status`: the process's connection counters as a page and as variables.
//!
//! ```nginx
//! location = /status { stub_status; }
//! ```

#[cfg(test)]
mod tests;

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_codec::range::write_number;
use tidegate_codec::request::Method;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, row};
use tidegate_core::counters::{self, ConnectionFigures};
use tidegate_core::variables::Variable;
use tidegate_core::{Body, Exchange, Step};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;

/// `ngx_http_stub_status_module`.
pub(crate) struct StubStatus;

#[derive(Default)]
pub(crate) struct Conf {
    on: Option<()>,
}

impl Module for StubStatus {
    type Conf = Conf;
    const NAME: &'static str = "stub_status";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
    const VARIABLES: &'static [Variable] = &[
        Variable::fixed(
            "connections_active",
            "Client connections that are open, the waiting ones included.",
            |_, out| put(counters::figures().active, out),
        ),
        Variable::fixed(
            "connections_reading",
            "Connections whose request head is being read.",
            |_, out| put(counters::figures().reading, out),
        ),
        Variable::fixed(
            "connections_writing",
            "Connections to which a response is being sent.",
            |_, out| put(counters::figures().writing, out),
        ),
        Variable::fixed(
            "connections_waiting",
            "Idle connections that wait for a request.",
            |_, out| put(counters::figures().waiting, out),
        ),
    ];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.on.is_some() {
            location.content(Box::new(respond));
        }
        Ok(())
    }
}

const ROWS: &[Directive<Conf>] = &[row(
    "stub_status",
    Contexts::SERVER_LOCATION,
    // Before nginx 1.7.5 an argument was required; it has never had an effect.
    Arity::between(0, 1),
    "",
    "Sends the numbers of connections and requests.",
    |conf, _args| {
        conf.on = Some(());
        Ok(())
    },
)];

fn put(number: u64, out: &mut Vec<u8>) -> bool {
    write_number(number, out);
    true
}

fn respond(x: &mut Exchange) -> Step<'_> {
    if !matches!(x.request.method, Method::Get | Method::Head) {
        return Step::Status(405);
    }
    x.disposition.set_status(200);
    x.response.headers.set_known(Known::ContentType, b"text/plain");
    Step::Respond(Body::from(Bytes::from(page(&counters::figures()))))
}

/// Formats the page; monitoring tools depend on the blanks at line ends.
fn page(figures: &ConnectionFigures) -> String {
    let ConnectionFigures { accepted, handled, requests, active, reading, writing, waiting } =
        figures;
    format!(
        "Active connections: {active} \nserver accepts handled requests\n \
         {accepted} {handled} {requests} \nReading: {reading} Writing: {writing} \
         Waiting: {waiting} \n"
    )
}
