//! `handler`: application code of this binary makes the response, on pool threads where it may block.
//!
//! ```nginx
//! thread_pool reports threads=4 max_queue=100;
//! location /report { handler report pool=reports timeout=30s max_body=64k; }
//! ```
//! The crate `tidegate-handler` defines handlers; the binary registers its handlers by name before it reads the
//! configuration. A request's body is received before a thread is taken.

mod parameters;
mod serve;
mod stream;
#[cfg(test)]
mod tests;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_handler::server;
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;

pub(crate) use parameters::Parameters;

/// Contexts of the directives whose requests are handled on a pool.
pub(crate) const CONTEXTS: Contexts =
    Contexts::LOCATION.union(Contexts::LOCATION_IF).union(Contexts::LIMIT_EXCEPT);

/// The module of `handler`.
pub(crate) struct Handlers;

#[derive(Default)]
pub(crate) struct Conf {
    handler: Option<HandlerConf>,
}

/// The directive as written.
struct HandlerConf {
    name: Word,
    parameters: Parameters,
}

impl Module for Handlers {
    type Conf = Conf;
    const NAME: &'static str = "handler";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "handler",
        CONTEXTS,
        Arity::between(1, 4),
        "",
        "Passes requests to the handler of this name in the binary; pool= is the thread pool (`handlers`), timeout= \
         the longest wait for its response (60s), max_body= the largest request body besides \
         client_max_body_size.",
        set,
    )]];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        conf.handler.as_ref().map_or(Ok(()), |written| written.prepare(location))
    }
}

fn set(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    args.text(0)?;
    let mut parameters = Parameters::default();
    for index in 1..args.len() {
        if !parameters.take(args, index)? {
            return Err(args.invalid_parameter(index));
        }
    }
    once(&mut conf.handler, HandlerConf { name: args.word(0).clone(), parameters }, args)
}

impl HandlerConf {
    fn prepare(&self, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let name = self.name.display();
        let Some(handler) = server::find(&name) else {
            let names = server::names();
            let help = match &names[..] {
                [] => "this binary has no handlers; see docs/handlers.md".to_owned(),
                names => format!("this binary has the handlers {}", names.join(", ")),
            };
            let message = format!("unknown handler \"{name}\"");
            return Err(Diagnostic::emerg(message).at(self.name.span).help(help));
        };
        let title = format!("handler \"{name}\"");
        self.parameters.target(title, handler, self.name.span, location)?.install(location);
        Ok(())
    }
}
