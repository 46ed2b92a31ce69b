//! `handler`: application code of this binary answers, on threads of a pool where it may block.
//!
//! ```nginx
//! thread_pool reports threads=4 max_queue=100;
//! location /report { handler report pool=reports timeout=30s max_body=64k; }
//! ```
//! What a handler is tells the crate `tidegate-handler`; the binary gives names to its handlers before it
//! reads the configuration. A request's body is received before a thread is taken.

mod serve;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word, once, parse_milliseconds};
use tidegate_core::Step;
use tidegate_core::blocking::PoolChoice;
use tidegate_core::builder::LocationBuilder;
use tidegate_core::module::Module;
use tidegate_handler::server;

use super::row;
use serve::Target;

/// Longest wait for a handler's response, and then for each piece of a streamed one.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// The module.
pub struct Handlers;

#[derive(Default)]
pub struct Conf {
    handler: Option<Written>,
}

/// The directive as written.
struct Written {
    name: Word,
    pool: Option<Word>,
    timeout: Option<Duration>,
    max_body: Option<u64>,
}

impl Module for Handlers {
    type Conf = Conf;
    const NAME: &'static str = "handler";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "handler",
        Contexts::LOCATION.union(Contexts::LOCATION_IF).union(Contexts::LIMIT_EXCEPT),
        Arity::between(1, 4),
        "",
        "Answer by the handler of this name in the binary; pool= is the thread pool (`handlers`), timeout= \
         the longest wait for its response (60s), max_body= the largest request body besides \
         client_max_body_size.",
        set,
    )]];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if let Some(written) = &conf.handler {
            let target = Arc::new(written.compile(location)?);
            location
                .content(Box::new(move |x| Step::Wait(Box::pin(serve::serve(x, target.clone())))));
        }
        Ok(())
    }
}

fn set(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    args.text(0)?;
    let (mut pool, mut timeout, mut max_body) = (None, None, None);
    for index in 1..args.len() {
        let invalid = || args.invalid_parameter(index);
        match args.parameter(index)? {
            ("pool", Some(name)) if !name.is_empty() => {
                pool = Some(Word { bytes: name.as_bytes().to_vec(), ..args.word(index).clone() });
            }
            ("timeout", Some(text)) => {
                let time = parse_milliseconds(text.as_bytes()).filter(|time| !time.is_zero());
                timeout = Some(time.ok_or_else(invalid)?);
            }
            ("max_body", Some(text)) => {
                max_body = Some(tidegate_conf::parse_size(text.as_bytes()).ok_or_else(invalid)?);
            }
            _ => return Err(invalid()),
        }
    }
    let written = Written { name: args.word(0).clone(), pool, timeout, max_body };
    once(&mut conf.handler, written, args)
}

impl Written {
    fn compile(&self, location: &mut LocationBuilder<'_, '_>) -> Result<Target, Diagnostic> {
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
        let plan = &mut *location.plan;
        let variables = handler.variables().iter();
        let variables =
            variables.map(|name| (Arc::from(*name), plan.variables.resolve(name, self.name.span)));
        Ok(Target {
            name: name.to_string(),
            variables: variables.collect(),
            handler,
            pool: match &self.pool {
                Some(pool) => PoolChoice::compile(pool, plan)?,
                None => PoolChoice::handlers(),
            },
            timeout: self.timeout.unwrap_or(TIMEOUT_DEFAULT),
            body_bytes_max: self.max_body,
        })
    }
}
