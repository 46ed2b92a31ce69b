//! A module for tests: its handlers, filters and variables do what the configuration says.
//!
//! ```nginx
//! location / {
//!     do access status 403;          # a handler of the access phase with this step
//!     do content respond "$where";   # of the content phase; `own`: the location's own, `gateway`: of a gateway
//!     do rewrite once path /b?c;     # only the first time that it runs
//!     do access wait next;           # returns it after an event-loop iteration
//!     do entering decline;           # first in requests of all servers
//!     match ^/(.);                   # a regular expression for the path, in the rewrite phase
//!     filter add X-F 1;  filter instead 404;  trailer T 1;  log "$uri";
//!     computed $v "$uri" kept;       # a variable that is made of others; `kept`: once per request
//! }
//! ```
//! The actions of the handlers are the request's trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tidegate_codec::Known;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, Word};
use tidegate_core::error_log::Level;
use tidegate_core::error_page::split_args;
use tidegate_core::phases::{Phase, PhaseHandler};
use tidegate_core::regex::Regex;
use tidegate_core::subrequest::SubrequestOptions;
use tidegate_core::template::Template;
use tidegate_core::variables::{Changeable, Variable};
use tidegate_core::{Body, Exchange, Jump, Step};

use crate::module::{BlockRow, Module};
use crate::{LocationBuilder, PlanBuilder};

/// The actions of a request's handlers in order.
#[derive(Default)]
pub(crate) struct Trace(pub Vec<String>);

/// Returns the trace as one text.
pub(crate) fn trace(x: &Exchange) -> String {
    x.modules.extensions.of::<Trace>().map(|trace| trace.0.join(", ")).unwrap_or_default()
}

pub(crate) struct Probe;

/// The words of each directive, by its name.
#[derive(Default)]
pub(crate) struct Conf {
    lines: Vec<(&'static str, Vec<Word>)>,
}

impl Module for Probe {
    type Conf = Conf;
    const NAME: &'static str = "probe";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[
        row("do", |conf, args| take(conf, "do", args)),
        row("filter", |conf, args| take(conf, "filter", args)),
        row("trailer", |conf, args| take(conf, "trailer", args)),
        row("log", |conf, args| take(conf, "log", args)),
        row("slot", |conf, args| take(conf, "slot", args)),
        row("keep", |conf, args| take(conf, "keep", args)),
        row("match", |conf, args| take(conf, "match", args)),
        row("computed", |conf, args| take(conf, "computed", args)),
        Directive {
            name: "if",
            contexts: Contexts::LOCATION,
            args: Arity::NONE,
            kind: Kind::Block,
            default: "",
            doc: "A block for `do rewrite enter`.",
            has_effect: true,
            set: |_, _| Ok(()),
        },
    ]];
    const BLOCKS: &'static [BlockRow] =
        &[BlockRow { name: "if", within: Contexts::LOCATION, opens: Contexts::LOCATION_IF }];
    const VARIABLES: &'static [Variable] = &[
        Variable::fixed("where", "For tests.", |x, out| {
            out.extend_from_slice(&x.location().name.clone());
            true
        }),
        Variable::fixed("counted", "For tests.", |_, out| {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            out.extend_from_slice(NEXT.fetch_add(1, Ordering::Relaxed).to_string().as_bytes());
            true
        }),
        Variable::fixed("nothing", "For tests.", |_, _| false),
        Variable::replaceable("soft", "For tests.", |_, out| {
            out.extend_from_slice(b"default");
            true
        }),
        Variable::prefixed("shout_", "For tests.", |_, name, out| {
            out.extend(name.to_ascii_uppercase());
            !name.is_empty()
        }),
    ];

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        conf.lines.iter().try_for_each(|(name, words)| define(plan, name, words).map(drop))
    }

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        Probe::prepare(conf, server)
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        for (name, words) in &conf.lines {
            if define(location.plan, name, words)? {
                continue;
            }
            let texts: Vec<String> = words.iter().map(|word| word.display().into()).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            if *name == "match" {
                let regex = location.plan.regex(texts[0].as_bytes(), false, words[0].span)?;
                location.handler(Phase::Rewrite, matcher(regex));
                continue;
            }
            let last = location.plan.template(&words[words.len() - 1])?;
            match (*name, &texts[..]) {
                ("do", [phase, action @ ..]) => add(location, phase, action, last),
                ("log", _) => location.logger(Box::new(move |x| {
                    let text = String::from_utf8_lossy(&last.value(x)).into_owned();
                    x.log(Level::Alert, format_args!("{text}"));
                })),
                ("filter", action) => filter(location, action, last),
                ("trailer", [field, _]) => {
                    let field = field.as_bytes().to_vec();
                    location.trailer(Box::new(move |x| {
                        let value = last.value(x);
                        x.response.trailers.push(&field, &value);
                    }));
                }
                _ => panic!("{name} {texts:?}: what?"),
            }
        }
        Ok(())
    }
}

/// Defines a variable; returns `false` for other directives.
fn define(plan: &mut PlanBuilder<'_>, name: &str, words: &[Word]) -> Result<bool, Diagnostic> {
    let text = words[0].display();
    match name {
        "slot" => drop(plan.variables.define_slot(&text)),
        "keep" => plan.variables.keep(&text),
        "computed" => {
            let value = plan.template(&words[1])?;
            let compute = Arc::new(move |x: &mut Exchange, out: &mut Vec<u8>| {
                value.write(x, out);
                true
            });
            plan.variables.define_computed(&text[1..], compute, words.len() > 2);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

const fn row(
    name: &'static str,
    set: fn(&mut Conf, &Args<'_>) -> Result<(), Diagnostic>,
) -> Directive<Conf> {
    let contexts = Contexts::HTTP_SERVER_LOCATION_IF
        .union(Contexts::LIMIT_EXCEPT)
        .union(Contexts::STREAM_AND_SERVER);
    let args = Arity::AT_LEAST_ONE;
    Directive {
        name,
        contexts,
        args,
        kind: Kind::Simple,
        default: "",
        doc: "",
        has_effect: true,
        set,
    }
}

fn take(conf: &mut Conf, name: &'static str, args: &Args<'_>) -> Result<(), Diagnostic> {
    conf.lines.push((name, args.words().to_vec()));
    Ok(())
}

fn add(location: &mut LocationBuilder<'_, '_>, phase: &str, action: &[&str], last: Template) {
    let phase_of = match phase {
        "postread" | "entering" => Phase::PostRead,
        "srewrite" => Phase::ServerRewrite,
        "rewrite" => Phase::Rewrite,
        "preaccess" => Phase::Preaccess,
        "access" => Phase::Access,
        "precontent" => Phase::Precontent,
        "content" | "own" | "gateway" => Phase::Content,
        other => panic!("no phase {other}"),
    };
    let said = format!("{phase} {}", action.join(" "));
    let (once, action) = without(action, "once");
    let (waits, action) = without(action, "wait");
    let mut action: Vec<String> = action.iter().map(|word| (*word).to_owned()).collect();
    if action[0] == "set" {
        action[1] = location.plan.variables.define_slot(&action[1][1..]).to_string();
    }
    if action[0] == "enter" {
        let place = location.if_location(action[1].parse().unwrap()).unwrap();
        action[1] = place.0.to_string();
    }
    let handler: PhaseHandler = Box::new(move |x| {
        let trace = traced(x);
        if once && trace.contains(&said) {
            return Step::Decline;
        }
        trace.push(said.clone());
        let step = act(x, &action, &last);
        match waits {
            false => step,
            true => Step::Wait(Box::pin(async move {
                tidegate_rt::yield_now().await;
                match step {
                    Step::Wait(future) => future.await,
                    step => step.settled(),
                }
            })),
        }
    });
    match phase {
        "own" => location.content(handler),
        "gateway" => location.gateway(handler),
        "entering" => location.plan.entering.push(Arc::new(handler)),
        _ => location.handler(phase_of, handler),
    }
}

fn without<'a, 'b>(action: &'b [&'a str], word: &str) -> (bool, &'b [&'a str]) {
    match action {
        [first, rest @ ..] if *first == word => (true, rest),
        action => (false, action),
    }
}

fn traced(x: &mut Exchange) -> &mut Vec<String> {
    if x.modules.extensions.of::<Trace>().is_none() {
        x.modules.extensions.insert(Trace::default());
    }
    &mut x.modules.extensions.of_mut::<Trace>().unwrap().0
}

/// Runs an action; `last` is its last word with variables.
fn act<'x>(x: &'x mut Exchange, action: &[String], last: &Template) -> Step<'x> {
    let value = last.value(x);
    match action[0].as_str() {
        "next" => return Step::Next,
        "status" => return Step::Status(action[1].parse().unwrap()),
        "close" => return Step::Close,
        "respond" => {
            x.response.headers.set_known(Known::ContentType, b"text/plain");
            return Step::Respond(Body::from(Bytes::from(value)));
        }
        "jump" => {
            let (path, args) = split_args(value);
            return Step::Jump(Jump::Path { path, args });
        }
        "named" => return Step::Jump(Jump::Named(value)),
        "include" => return include(x, value),
        "path" => {
            let (path, args) = split_args(value);
            x.rewrite_to(path, Some(args));
        }
        "stay" => x.rewrite_in_place(value, None),
        "settle" => x.routing.stay_in_location(),
        "field" => x.response.headers.push(action[1].as_bytes(), &value),
        "carry" => x.preserved_headers.push(action[1].as_bytes(), &value),
        "send-as" => x.disposition.send_as(action[1].parse().unwrap()),
        "set" => x.set_slot(action[1].parse().unwrap(), Some(&value)),
        "args" => change(x, "args", &value),
        "rate" => change(x, "limit_rate", &value),
        "enter" => x.routing.location = tidegate_core::plan::LocationId(action[1].parse().unwrap()),
        "decline" => {}
        other => panic!("no action {other}"),
    }
    Step::Decline
}

/// Changes a built-in variable, as `set` does.
fn change(x: &mut Exchange, name: &str, value: &[u8]) {
    match x.plan.variables.changeable(name) {
        Changeable::By(set) => set(x, value),
        _ => panic!("{name} cannot be changed"),
    }
}

/// Makes a response of status and body of a subrequest, in brackets.
fn include(x: &mut Exchange, path: Vec<u8>) -> Step<'_> {
    let Ok(part) = x.subrequest(path, Vec::new(), SubrequestOptions::default()) else {
        return Step::Respond(Body::from(Bytes::from_static(b"too many")));
    };
    Step::Wait(Box::pin(async move {
        let reply = part.run().await;
        let status = reply.status().to_string();
        let read = reply.read(x.settings().subrequest_output_buffer_size).await;
        let text = read.map(|text| String::from_utf8_lossy(&text).into_owned());
        let text = text.unwrap_or_else(|_| "broken".to_owned());
        Step::Respond(Body::from(Bytes::from(format!("[{status} {text}]"))))
    }))
}

fn matcher(regex: Arc<Regex>) -> PhaseHandler {
    Box::new(move |x| {
        let path = x.request.path.clone();
        match regex.capture(x, &path) {
            Ok(_) => Step::Decline,
            Err(_) => Step::Status(500),
        }
    })
}

/// Adds a filter: `add FIELD VALUE`, or `instead STATUS` for responses with 200.
fn filter(location: &mut LocationBuilder<'_, '_>, action: &[&str], value: Template) {
    let action: Vec<String> = action.iter().map(|word| (*word).to_owned()).collect();
    location.filter(Box::new(move |x, body| {
        match action[0].as_str() {
            "add" => {
                let value = value.value(x);
                x.response.headers.push(action[1].as_bytes(), &value);
            }
            "instead" if x.disposition.status() == 200 => {
                x.disposition.replace_response(action[1].parse().unwrap());
            }
            "trailers" => x.delivery.expects_trailers = true,
            _ => {}
        }
        body
    }));
}
