//! The parameters that all directives with handlers on a pool share.

use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Args, Diagnostic, Span, Word, parse_milliseconds, parse_size};
use tidegate_core::pool_choice::PoolChoice;
use tidegate_handler::Handler;
use tidegate_plan::LocationBuilder;

use super::serve::HandlerTarget;

/// Longest wait for a handler's response, and then for each chunk of a streamed one.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// `pool=`, `timeout=` and `max_body=`.
#[derive(Default)]
pub(crate) struct Parameters {
    pool: Option<Word>,
    timeout: Option<Duration>,
    max_body: Option<u64>,
}

impl Parameters {
    /// Takes the parameter at this index, if it is one of these; returns whether it was.
    ///
    /// # Errors
    /// Its value is invalid.
    pub(crate) fn take(&mut self, args: &Args<'_>, index: usize) -> Result<bool, Diagnostic> {
        let invalid = || args.invalid_parameter(index);
        match args.parameter(index)? {
            ("pool", Some(name)) if !name.is_empty() => {
                self.pool =
                    Some(Word { bytes: name.as_bytes().to_vec(), ..args.word(index).clone() });
            }
            ("timeout", Some(text)) => {
                let time = parse_milliseconds(text.as_bytes()).filter(|time| !time.is_zero());
                self.timeout = Some(time.ok_or_else(invalid)?);
            }
            ("max_body", Some(text)) => {
                self.max_body = Some(parse_size(text.as_bytes()).ok_or_else(invalid)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Makes the target of requests to `handler`. `title` is its name in messages.
    ///
    /// # Errors
    /// There is no such pool.
    pub(crate) fn target(
        &self,
        title: String,
        handler: Arc<dyn Handler>,
        span: Span,
        location: &mut LocationBuilder<'_, '_>,
    ) -> Result<HandlerTarget, Diagnostic> {
        let plan = &mut *location.plan;
        let variables = handler.variables().iter();
        let variables =
            variables.map(|name| (Arc::from(*name), plan.variables.resolve(name, span)));
        Ok(HandlerTarget {
            title,
            variables: variables.collect(),
            handler,
            pool: match &self.pool {
                Some(pool) => plan.pool_choice(pool)?,
                None => PoolChoice::handlers(),
            },
            timeout: self.timeout.unwrap_or(TIMEOUT_DEFAULT),
            body_bytes_max: self.max_body,
        })
    }
}

impl HandlerTarget {
    /// Makes it the content handler of a location.
    pub(crate) fn install(self, location: &mut LocationBuilder<'_, '_>) {
        let target = Arc::new(self);
        location.content(Box::new(move |x| {
            tidegate_core::Step::Wait(Box::pin(super::serve::serve(x, target.clone())))
        }));
    }
}
