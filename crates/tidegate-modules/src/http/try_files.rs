//! `try_files`: serves the first file of a list that exists; the last element is the fallback.
//!
//! ```nginx
//! location / { try_files $uri $uri/ @application; }
//! location /images/ { try_files $uri /images/default.gif; }
//! location /strict/ { try_files $uri =404; }
//! ```

#[cfg(test)]
mod tests;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_core::step::Jump;
use tidegate_core::{Exchange, Phase, Step, Template, error_page, file_path};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::Module;

use super::files::{self, PathKind, PathProbe, WouldBlock};

/// `ngx_http_try_files_module`.
pub(crate) struct TryFiles;

/// The words and, if the last is `=code`, the code.
#[derive(Default)]
pub(crate) struct Conf {
    words: Option<(Vec<Word>, Option<u16>)>,
}

impl Module for TryFiles {
    type Conf = Conf;
    const NAME: &'static str = "try_files";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some((words, code)) = &conf.words else { return Ok(()) };
        let plan = &mut *location.plan;
        let Some((last, tried)) = words.split_last() else { return Ok(()) };
        let mut candidates = Vec::new();
        for word in tried {
            let (text, directory) = match word.bytes.strip_suffix(b"/") {
                Some(text) => (text, true),
                None => (&word.bytes[..], false),
            };
            candidates.push(Candidate { path: plan.template_text(text, word.span)?, directory });
        }
        let fallback = match code {
            Some(code) => Fallback::Status(*code),
            None if last.bytes.starts_with(b"@") => Fallback::Named(last.bytes.clone()),
            None => Fallback::Path(plan.template(last)?),
        };
        let handler = files::handler(move |x, probe| respond(&candidates, &fallback, x, probe));
        location.handler(Phase::Precontent, handler);
        Ok(())
    }
}

const ROWS: &[Directive<Conf>] = &[row(
    "try_files",
    Contexts::SERVER_LOCATION,
    Arity::AT_LEAST_TWO,
    "",
    "Serve the first of these files that exists, else go to the last path, location or code.",
    set_try_files,
)];

fn set_try_files(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let last = args.len() - 1;
    let code = match args.bytes(last).strip_prefix(b"=") {
        None => None,
        Some(digits) => {
            let code = tidegate_conf::parse_number(digits).filter(|code| *code <= 999);
            let code = code.and_then(|code| u16::try_from(code).ok());
            Some(code.ok_or_else(|| {
                let message = format!("invalid code \"{}\"", args.word(last).display());
                args.error(last, message)
            })?)
        }
    };
    once(&mut conf.words, (args.words().to_vec(), code), args)
}

struct Candidate {
    path: Template,
    /// Written with `/` at its end: a directory is tested for.
    directory: bool,
}

enum Fallback {
    Status(u16),
    Named(Vec<u8>),
    Path(Template),
}

fn respond(
    candidates: &[Candidate],
    fallback: &Fallback,
    x: &mut Exchange,
    probe: &mut PathProbe,
) -> Result<Step<'static>, WouldBlock> {
    for (index, candidate) in candidates.iter().enumerate().skip(probe.from()) {
        probe.reach(index);
        let value = candidate.path.value(x);
        let Some((file, target)) = places(x, value) else { return Ok(Step::Status(500)) };
        let Ok(found) = probe.test(x, &file)? else { continue };
        if (found.kind == PathKind::Directory) == candidate.directory {
            serve(x, target, candidate.directory);
            return Ok(Step::Decline);
        }
    }
    Ok(match fallback {
        Fallback::Status(code) => Step::Status(*code),
        Fallback::Named(name) => Step::Jump(Jump::Named(name.clone())),
        Fallback::Path(template) => {
            let (path, args) = error_page::split_args(template.value(x));
            Step::Jump(Jump::Path { path, args })
        }
    })
}

/// The path that a request gets if its file exists.
enum Target {
    Path(Vec<u8>),
    /// The same, which stands behind the `alias` of a location by expression.
    BehindAlias(Vec<u8>),
}

/// Returns the file that a candidate means, and the path that the request gets if it exists.
fn places(x: &mut Exchange, value: Vec<u8>) -> Option<(Vec<u8>, Target)> {
    let settings = x.settings();
    if !settings.alias {
        let mut file = Vec::with_capacity(128);
        file_path::append_root(x, &mut file);
        file.extend_from_slice(&value);
        return Some((file, Target::Path(value)));
    }
    let mut file = Vec::with_capacity(128);
    if settings.alias_length == usize::MAX {
        file_path::append_root(x, &mut file);
        file.extend_from_slice(&value);
        return Some((file, Target::BehindAlias(value)));
    }
    // The prefix that `alias` replaces is removed from a candidate that begins with it.
    let prefix = x.request.path.get(..settings.alias_length)?.to_vec();
    let rest = value.strip_prefix(&prefix[..]).unwrap_or(&value).to_vec();
    file_path::append_root(x, &mut file);
    file.extend_from_slice(&rest);
    Some((file, Target::Path([prefix, rest].concat())))
}

/// Continues the request in its location with the path of what was found. A `proxy_pass` without a path still sends
/// the client's original target, in nginx too.
fn serve(x: &mut Exchange, target: Target, is_directory: bool) {
    let (path, is_behind) = match target {
        Target::Path(path) => (path, false),
        // As in nginx, a directory there leaves the request as it is.
        Target::BehindAlias(_) if is_directory => return,
        Target::BehindAlias(path) => (path, true),
    };
    let source = x.request.source;
    x.set_path(path, None);
    x.request.source = source;
    if is_behind {
        x.routing.append_path_to_alias();
    }
}
