//! `auth_request`: the response of a subrequest, usually to an authorization service, decides whether a request is
//! allowed.
//!
//! ```nginx
//! location /private/ {
//!     auth_request     /auth;
//!     auth_request_set $user $upstream_http_x_user;
//!     proxy_set_header X-User $user;
//! }
//! location = /auth {
//!     internal;
//!     proxy_pass http://auth;
//!     proxy_pass_request_body off;
//!     proxy_set_header Content-Length "";
//! }
//! ```
//! A 2xx response allows the request, 401 and 403 refuse it, any other status is an error.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Span, Word, row};
use tidegate_core::subrequest::{SubrequestOptions, SubrequestResponse};
use tidegate_core::timeline::{Cause, blame};
use tidegate_core::{Body, Exchange, Level, Phase, Step, Template};
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder, made_variable};
use tidegate_rt::spawn_local;

use super::rewrite::assignment::Target;

/// Bytes of a response's body that are read and discarded, so that its connection can be reused.
const BODY_BYTES_MAX: u64 = 64 << 10;

/// `ngx_http_auth_request_module`.
pub(crate) struct AuthRequest;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    /// `Some(None)` is `off`.
    path: Option<Option<Vec<u8>>>,
    sets: Vec<SetConf>,
}

#[derive(Clone)]
struct SetConf {
    name: String,
    value: Word,
    span: Span,
}

impl Module for AuthRequest {
    type Conf = Conf;
    const NAME: &'static str = "auth_request";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.path.is_none() {
            child.path.clone_from(&parent.path);
        }
        if child.sets.is_empty() {
            child.sets.clone_from(&parent.sets);
        }
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let sets = conf.sets.iter().map(|set| Set::new(set, location.plan));
        let sets = sets.collect::<Result<_, _>>()?;
        let Some(Some(path)) = &conf.path else { return Ok(()) };
        let check = Arc::new(AuthSubrequest { path: path.clone(), sets });
        location.handler(Phase::Access, Box::new(move |x| check.apply(x)));
        Ok(())
    }
}

const ROWS: &[Directive<Conf>] = &[
    row(
        "auth_request",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE,
        "off",
        "Path of a subrequest whose status lets requests in (2xx) or not (401, 403); or `off`.",
        |conf, args| {
            let path = args.bytes(0);
            let path = (path != b"off").then(|| path.to_vec());
            tidegate_conf::once(&mut conf.path, path, args)
        },
    ),
    row(
        "auth_request_set",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::TWO,
        "",
        "Set a variable after the subrequest, whose variables (`$upstream_http_*`) the value may name.",
        set,
    ),
];

fn set(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let (value, span) = (args.word(1).clone(), args.word(0).span);
    conf.sets.push(SetConf { name: made_variable::name(args, 0)?, value, span });
    Ok(())
}

struct Set {
    target: Target,
    value: Template,
}

impl Set {
    fn new(conf: &SetConf, plan: &mut PlanBuilder<'_>) -> Result<Set, Diagnostic> {
        let target = Target::compile(&conf.name, conf.span, plan)?;
        Ok(Set { target, value: plan.template(&conf.value)? })
    }
}

/// The check of a location.
struct AuthSubrequest {
    path: Vec<u8>,
    sets: Vec<Set>,
}

impl AuthSubrequest {
    fn apply<'a>(self: &Arc<AuthSubrequest>, x: &'a mut Exchange) -> Step<'a> {
        let check = self.clone();
        Step::Wait(Box::pin(async move { check.run(x).await }))
    }

    /// Makes the subrequest and applies its status.
    ///
    /// | the subrequest's status | the request |
    /// |---|---|
    /// | 2xx | continues |
    /// | 401, 403 | gets this status, 401 with the challenges |
    /// | any other | 500, logged |
    ///
    /// Invariant: variables are set before the status is applied, as error pages may show them. The body is read by
    /// a task of its own, so that its connection to an origin can be kept. Dropped at its await, the subrequest
    /// ends. Sources: `auth_request`, `auth_request_set`.
    async fn run(&self, x: &mut Exchange) -> Step<'static> {
        let Ok(subrequest) =
            x.subrequest(self.path.clone(), Vec::new(), SubrequestOptions::default())
        else {
            return Step::Status(500);
        };
        let mut reply = blame(Cause::Auth, subrequest.run()).await;
        // Before the status is applied: an error page may depend on the variables. Those that `set` has changed there are
        // the request's own.
        x.take_variables(&reply);
        self.set_variables(x, &mut reply);
        let step = match reply.status() {
            200..=299 => Step::Next,
            status @ (401 | 403) => {
                let challenges = reply.exchange().response.headers.all(Known::WwwAuthenticate);
                for challenge in challenges.filter(|_| status == 401) {
                    x.response.headers.push_known(Known::WwwAuthenticate, challenge);
                }
                Step::Status(status)
            }
            status => {
                x.log(Level::Error, format_args!("auth request unexpected status: {status}"));
                Step::Status(500)
            }
        };
        let body = reply.into_body();
        drop(spawn_local(discard(body)));
        step
    }

    fn set_variables(&self, x: &mut Exchange, reply: &mut SubrequestResponse) {
        for set in &self.sets {
            let value = set.value.value(reply.exchange());
            // One that is too long has been logged, and changes nothing.
            let _ = set.target.put(x, &value);
        }
    }
}

/// Reads a body of up to [`BODY_BYTES_MAX`] to its end; a longer one is dropped.
async fn discard(mut body: Body) {
    let mut taken = 0;
    while taken <= BODY_BYTES_MAX
        && let Some(Ok(chunk)) = body.next().await
    {
        taken += chunk.length();
    }
}
