//! `slow_log`, `server_timing`, `$request_timeline`, `$request_verdict`: why a request was slow.
//!
//! ```nginx
//! slow_log logs/slow.log threshold=1s sample=1/10;
//! location /api/ { server_timing on; proxy_pass http://app; }
//! ```
//! Requests record where their time goes as soon as one of these is used anywhere in the `http` block; without them
//! nothing is recorded.

mod conf;
mod line;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_conf::{Diagnostic, Directive};
use tidegate_core::Exchange;
use tidegate_core::log_file::{LogFile, write_pending_lines};
use tidegate_core::timeline::{View, slow};
use tidegate_core::variables::Variable;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};
use tidegate_rt::clock;

use conf::{Conf, LineForm, ROWS, SlowLogConf, Timing};
use line::Names;

/// The module of timelines.
pub(crate) struct Timelines;

impl Module for Timelines {
    type Conf = Conf;
    const NAME: &'static str = "timeline";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];
    const VARIABLES: &'static [Variable] = &[
        Variable::fixed(
            "request_timeline",
            "Where the time of the request went so far, as a JSON object in seconds: `total`; `verdict` and its `share`; \
             `head`, when the head had been read; `response`, when there was a response; `waits`, an object with the \
             `time` of each cause and the `end` of its last wait.",
            |x, out| shown(x, out, |view, out| view.write_json(out)),
        ),
        Variable::fixed(
            "request_verdict",
            "The cause that took most of the request's time so far, at least 1 ms and a tenth of it: \
             `client_slow_upload`, `client_slow_read`, `tls`, `limit`, `auth`, `queue`, `dns`, `connect`, `origin_think`, \
             `origin_stream`, `cache_lock`, `disk`, `pool`, `loop`, `handler`; else `none`.",
            |x, out| shown(x, out, |view, out| out.push_str(view.verdict().name())),
        ),
    ];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.log.is_none() {
            child.log.clone_from(&parent.log);
        }
        child.timing = child.timing.or(parent.timing);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if let Some(timing @ (Timing::On | Timing::Debug)) = conf.timing {
            location.plan.timelines = true;
            location.plan.show(&timing);
            location.filter(Box::new(move |x, body| {
                add_field(x, timing == Timing::Debug);
                body
            }));
        }
        if let Some(Some(log)) = &conf.log {
            location.plan.timelines = true;
            location.plan.show(log);
            let log = location.plan.made_of(log, |plan| SlowLog::open(log, plan))?;
            location.logger(Box::new(move |x| log.consider(x)));
        }
        Ok(())
    }
}

/// A `slow_log`, opened.
struct SlowLog {
    file: Arc<LogFile>,
    form: LineForm,
    /// Least time of a request that is logged.
    threshold: Duration,
    /// Of this many slow requests one is logged.
    sample: u64,
    /// Slow requests so far.
    seen: AtomicU64,
    names: Names,
}

impl SlowLog {
    fn open(conf: &SlowLogConf, plan: &mut PlanBuilder<'_>) -> Result<SlowLog, Diagnostic> {
        let path = plan.path(&conf.path.display());
        Ok(SlowLog {
            file: plan.log_file(&path, conf.path.span)?,
            form: conf.form,
            threshold: conf.threshold,
            sample: conf.sample,
            seen: AtomicU64::new(0),
            names: Names::new(plan),
        })
    }

    /// Writes the line of a request that was slow. Subrequests are parts of one; a tunnel is as long as its user likes.
    fn consider(&self, x: &mut Exchange) {
        let Some(timeline) = x.timeline.as_ref().filter(|_| !x.is_subrequest()) else { return };
        let now = timeline.logged();
        // Cheaper than the time that has passed, for the many that are not slow.
        let is_quick = timeline.started().checked_add(self.threshold).is_none_or(|at| at > now);
        if is_quick {
            return;
        }
        let Some(view) = timeline.view(now) else { return };
        self.log(x, &view);
    }

    fn log(&self, x: &mut Exchange, view: &View) {
        if x.disposition.status() == SWITCHED {
            return;
        }
        let description = line::json(x, view, &self.names);
        slow::keep(&description);
        let number = self.seen.fetch_add(1, Ordering::Relaxed);
        if !number.is_multiple_of(self.sample) {
            return;
        }
        let mut line = match self.form {
            LineForm::Text => line::text(x, view, &self.names),
            LineForm::Json => description,
        };
        line.push(b'\n');
        self.file.write_at_iteration_end(&line);
        // As with `access_log`: a reader that waits for the connection to close finds its lines.
        if !x.disposition.keeps_connection() {
            write_pending_lines();
        }
    }
}

/// The status in front of a tunnel (RFC 9110 section 15.2.2).
const SWITCHED: u16 = 101;

/// Returns the present state of the request's timeline.
fn view(x: &Exchange) -> Option<View> {
    x.timeline.as_ref()?.view(clock::exact_now())
}

/// Adds `Server-Timing` (W3C Server Timing) with what is known before the response is sent.
fn add_field(x: &mut Exchange, all: bool) {
    if let Some(view) = view(x) {
        x.response.headers.push(b"Server-Timing", view.server_timing(all).as_bytes());
    }
}

/// Appends a variable's value; there is none in subrequests.
fn shown(x: &Exchange, out: &mut Vec<u8>, write: impl Fn(&View, &mut String)) -> bool {
    let Some(view) = view(x) else { return false };
    let mut text = String::new();
    write(&view, &mut text);
    out.extend_from_slice(text.as_bytes());
    true
}
