//! `mirror`: sends copies of requests to other locations and discards the responses.
//!
//! ```nginx
//! location / {
//!     mirror     /mirror;
//!     proxy_pass http://backend;
//! }
//! location = /mirror {
//!     internal;
//!     proxy_pass http://test_backend$request_uri;
//! }
//! ```
//! The copies run beside the request, which waits for none of them.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::client::NoClient;
use tidegate_core::subrequest::{SubrequestBody, SubrequestOptions};
use tidegate_core::{Exchange, Level, Phase, Step};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_rt::spawn_local;

/// Copies that a thread has in progress at most; further requests are not mirrored. A slow mirror must not fill the
/// memory.
const MIRRORS_MAX: usize = 4096;

/// `ngx_http_mirror_module`.
pub(crate) struct Mirror;

/// The directives of one block.
#[derive(Default)]
pub(crate) struct Conf {
    paths: Vec<Vec<u8>>,
    off: bool,
    body: Option<bool>,
}

impl Module for Mirror {
    type Conf = Conf;
    const NAME: &'static str = "mirror";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.paths.is_empty() && !child.off {
            child.paths.clone_from(&parent.paths);
        }
        child.body = child.body.or(parent.body);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.paths.is_empty() {
            return Ok(());
        }
        let mirrors =
            Arc::new(Mirrors { paths: conf.paths.clone(), with_body: conf.body.unwrap_or(true) });
        location.plan.show(&mirrors);
        location.handler(Phase::Precontent, Box::new(move |x| mirrors.apply(x)));
        Ok(())
    }
}

const ROWS: &[Directive<Conf>] = &[
    row(
        "mirror",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::ONE,
        "off",
        "Path of a subrequest that gets a copy of each request; several may be given. Or `off`.",
        |conf, args| {
            let (path, is_off) = (args.bytes(0), args.bytes(0) == b"off");
            if conf.off || is_off && !conf.paths.is_empty() {
                return Err(args.duplicate());
            }
            match is_off {
                true => conf.off = true,
                false => conf.paths.push(path.to_vec()),
            }
            Ok(())
        },
    ),
    row(
        "mirror_request_body",
        Contexts::HTTP_SERVER_LOCATION,
        Arity::FLAG,
        "on",
        "Whether copies have the request's body, which is then read before anything else happens to it.",
        |conf, args| once(&mut conf.body, args.flag(0)?, args),
    ),
];

/// The mirrors of a location.
#[derive(Debug)]
struct Mirrors {
    paths: Vec<Vec<u8>>,
    with_body: bool,
}

impl Mirrors {
    fn apply<'a>(self: &Arc<Mirrors>, x: &'a mut Exchange) -> Step<'a> {
        if x.is_subrequest() {
            return Step::Decline;
        }
        if !self.with_body || !x.request.body.is_present() {
            self.start(x);
            return Step::Decline;
        }
        let mirrors = self.clone();
        Step::Wait(Box::pin(async move {
            let options = x.settings().body_store.clone();
            match x.request.body.store(&options).await {
                Ok(_) => mirrors.start(x),
                Err(error) => return Step::Status(error.status()),
            }
            Step::Decline
        }))
    }

    fn start(&self, x: &mut Exchange) {
        let body = if self.with_body { SubrequestBody::Shared } else { SubrequestBody::None };
        let options = SubrequestOptions { method: x.request.method, body };
        for path in &self.paths {
            let Some(place) = MirrorSlot::take() else {
                let message = format_args!("{MIRRORS_MAX} mirror subrequests are not complete yet");
                x.log(Level::Warn, message);
                return;
            };
            let args = x.request.args.clone();
            let Ok(mut copy) = x.subrequest(path.clone(), args, options.clone()) else { return };
            // The copy does not end when the request's client leaves.
            copy.exchange().client = Rc::new(NoClient);
            drop(spawn_local(async move {
                copy.run().await.discard().await;
                drop(place);
            }));
        }
    }
}

thread_local! {
    static UNDER_WAY: Cell<usize> = const { Cell::new(0) };
}

/// One of [`MIRRORS_MAX`], released on drop.
struct MirrorSlot(());

impl MirrorSlot {
    fn take() -> Option<MirrorSlot> {
        let count = UNDER_WAY.get();
        (count < MIRRORS_MAX).then(|| {
            UNDER_WAY.set(count + 1);
            MirrorSlot(())
        })
    }
}

impl Drop for MirrorSlot {
    fn drop(&mut self) {
        // A thread that is ending has no count any more.
        let _ = UNDER_WAY.try_with(|count| count.set(count.get().saturating_sub(1)));
    }
}
