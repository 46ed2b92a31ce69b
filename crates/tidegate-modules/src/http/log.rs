//! `access_log`, `log_format`: a line for each request.
//!
//! ```nginx
//! log_format timed '$remote_addr "$request" $status $request_time';
//! access_log logs/timed.log timed buffer=64k flush=1s if=$loggable;
//! ```
//! Without `buffer` a line is written at the end of the event-loop iteration, with the other lines of that
//! iteration, or before its connection is closed. Buffers are kept per thread; they are written out when full, by
//! the plan's flush service when `flush` has passed (up to a quarter later), and by [`flush_logs`], which the
//! process calls before it reopens its logs and before it ends.

mod buffer;
mod conf;
mod format;
mod json;
mod named;
mod open_files;
mod target;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, Kind, row};
use tidegate_core::Exchange;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

pub use buffer::flush_logs;
use buffer::{Buffer, FlushService};
use conf::Conf;
use format::Format;
pub(crate) use format::{escape_default, escape_json};
#[doc(hidden)]
pub use json::{fuzz_error_log, fuzz_json_log};
use target::LogTarget;

/// `ngx_http_log_module`.
pub(crate) struct AccessLog;

impl Module for AccessLog {
    type Conf = Conf;
    const NAME: &'static str = "log";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.logs.is_empty() && !child.off {
            child.logs = parent.logs.clone();
            child.off = parent.off;
        }
        if child.open_files.is_none() {
            child.open_files = parent.open_files;
        }
    }

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        let mut formats = HashMap::new();
        if !plan.in_stream() {
            formats.insert(b"combined".to_vec(), Arc::new(Format::combined(plan)?));
        }
        for written in &conf.formats {
            if formats.contains_key(&written.name.bytes) {
                let name = written.name.display();
                let message = format!("duplicate \"log_format\" name \"{name}\"");
                return Err(Diagnostic::emerg(message).at(written.name.span));
            }
            let format = Arc::new(Format::compile(written, plan)?);
            formats.insert(written.name.bytes.clone(), format);
        }
        plan.shared::<Shared>().formats = formats;
        Ok(())
    }

    fn prepare_stream(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        AccessLog::prepare_http(conf, plan)?;
        // Opened even if no server uses them, as in nginx.
        for log in &conf.logs {
            let target = LogTarget::open(log, conf, plan)?;
            plan.shared::<Shared>().opened.push(target);
        }
        Ok(())
    }

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        // Without a directive sessions are not logged.
        match conf.logs.is_empty() {
            true => Ok(()),
            false => AccessLog::prepare(conf, server),
        }
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.off {
            return Ok(());
        }
        let targets = location.plan.made_of(conf, |plan| match conf.logs.is_empty() {
            true => LogTarget::default_log(plan).map(|log| vec![log]),
            false => conf.logs.iter().map(|log| LogTarget::open(log, conf, plan)).collect(),
        })?;
        location.plan.show(&targets);
        location.logger(Box::new(move |x| write(&targets, x)));
        Ok(())
    }
}

/// What the locations of one build share.
#[derive(Default)]
struct Shared {
    formats: HashMap<Vec<u8>, Arc<Format>>,
    buffers: HashMap<PathBuf, Arc<Buffer>>,
    service: Option<Arc<FlushService>>,
    /// Logs of a `stream` block, which each of its servers may use.
    opened: Vec<LogTarget>,
}

const CONTEXTS: Contexts = Contexts::HTTP_SERVER_LOCATION_IF.union(Contexts::LIMIT_EXCEPT);

const ROWS: &[Directive<Conf>] = &[
    Directive {
        name: "log_format",
        contexts: Contexts::HTTP_STREAM,
        args: Arity::AT_LEAST_TWO,
        kind: Kind::Either,
        default: "combined …",
        doc: "A named format of log lines; `escape=default|json|none` is the escaping of values. With `json` and a block, lines are \
              JSON objects: each statement is the name of a member, its value, and what that is: `string`, `number`, `boolean` \
              (`false` for an empty text and `0`), `list` (the parts of a list such as `$upstream_addr`) or `numbers`. \
              What is not a number is `null`, as is a variable without a value; `optional` leaves an empty value out. A member \
              with a block is an object. A line is valid JSON whatever the values are.",
        has_effect: true,
        set: conf::set_format,
    },
    row(
        "access_log",
        CONTEXTS,
        Arity::AT_LEAST_ONE,
        "logs/access.log combined",
        "File or `syslog:…` for a line per request, its format, buffer, flush, gzip and condition.",
        conf::set_log,
    ),
    row(
        "access_log",
        Contexts::STREAM_AND_SERVER,
        Arity::AT_LEAST_ONE,
        "off",
        "File or `syslog:…` for a line per session, its format, buffer, flush, gzip and condition.",
        conf::set_log,
    ),
    row(
        "open_log_file_cache",
        Contexts::HTTP_SERVER_LOCATION.union(Contexts::STREAM_AND_SERVER),
        Arity::ONE_TO_FOUR,
        "off",
        "Cache of open logs whose names have variables: max, inactive, min_uses, valid.",
        conf::set_open_files,
    ),
];

thread_local! {
    /// Buffer for the line that is being made; its memory is reused.
    static LINE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes of the line buffer that are kept; a larger one is freed.
const LINE_BYTES_KEPT: usize = 16 << 10;

fn write(targets: &[LogTarget], x: &mut Exchange) {
    if x.is_subrequest() && !x.settings().log_subrequest {
        return;
    }
    let mut line = LINE.take();
    for target in targets {
        line.clear();
        target.write(x, &mut line);
    }
    if line.capacity() <= LINE_BYTES_KEPT {
        LINE.set(line);
    }
}
