//! `index`: the file that is served for a path that ends in `/`.
//!
//! ```nginx
//! index index.$geo.html index.html /fallback.html;
//! ```

#[cfg(test)]
mod tests;

use std::io;

use tidegate_codec::request::Method;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word, row};
use tidegate_core::step::Jump;
use tidegate_core::{Exchange, Level, Phase, Step, Template, file_path};
use tidegate_os::os_error;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder};

use super::files::{self, PathKind, PathProbe, ProbeResult, WouldBlock};

/// `ngx_http_index_module`.
pub(crate) struct Index;

/// Names, in order.
#[derive(Default)]
pub(crate) struct Conf {
    names: Vec<Word>,
}

impl Module for Index {
    type Conf = Conf;
    const NAME: &'static str = "index";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.names.is_empty() {
            child.names = parent.names.clone();
        }
    }

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        // Inner blocks without the directive have the same words: warned about once, here or below.
        warn_absolute(&conf.names, plan);
        Ok(())
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let names = location.plan.made_of(conf, |plan| {
            let outer = plan.http_block().and_then(|http| http.conf::<Index>());
            if outer.is_none_or(|outer| outer.names != conf.names) {
                warn_absolute(&conf.names, plan);
            }
            let names: Result<Vec<_>, _> =
                conf.names.iter().map(|word| plan.template(word)).collect();
            names.map(|names| match names.is_empty() {
                true => vec![Template::constant(b"index.html")],
                false => names,
            })
        })?;
        location.plan.show(&names);
        let handler = files::handler(move |x, probe| respond(&names, x, probe));
        location.handler(Phase::Content, handler);
        Ok(())
    }
}

const ROWS: &[Directive<Conf>] = &[row(
    "index",
    Contexts::HTTP_SERVER_LOCATION,
    Arity::AT_LEAST_ONE,
    "index.html",
    "Files tried for a path that ends in a slash; the last may be a path of its own.",
    set_index,
)];

fn set_index(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    for (index, word) in args.words().iter().enumerate() {
        if word.bytes.is_empty() {
            return Err(args.error(index, "index \"\" in \"index\" directive is invalid"));
        }
        conf.names.push(word.clone());
    }
    Ok(())
}

fn warn_absolute(names: &[Word], plan: &mut PlanBuilder<'_>) {
    let Some((_, all_but_last)) = names.split_last() else { return };
    for word in all_but_last.iter().filter(|word| word.bytes.starts_with(b"/")) {
        let message = "only the last index in \"index\" directive should be absolute";
        plan.diagnostics.push(Diagnostic::warn(message).at(word.span));
    }
}

/// Redirects internally to the first of the names that exists; declines when none does.
///
/// Run again from the name that it has reached where a test may wait for a disk ([`PathProbe`]); the values of earlier
/// names are not computed again. A name that begins with a slash is taken without a test. The directory itself is
/// tested once, after the first name that is absent: if it is the problem, the response is 403 or 404 for the
/// directory. Source: `index`.
fn respond(
    names: &[Template],
    x: &mut Exchange,
    probe: &mut PathProbe,
) -> Result<Step<'static>, WouldBlock> {
    if !x.request.path.ends_with(b"/")
        || !matches!(x.request.method, Method::Get | Method::Head | Method::Post)
    {
        return Ok(Step::Decline);
    }
    let Some(directory) = file_path::map(x) else { return Ok(Step::Status(500)) };
    for (index, name) in names.iter().enumerate().skip(probe.from()) {
        probe.reach(index);
        let name = name.value(x);
        if name.starts_with(b"/") {
            return Ok(Step::Jump(Jump::Path { path: name, args: x.request.args.clone() }));
        }
        let mut path = directory.clone();
        path.extend_from_slice(&name);
        let error = match probe.test(x, &path)? {
            Ok(_) => {
                let mut target = x.request.path.clone();
                target.extend_from_slice(&name);
                return Ok(Step::Jump(Jump::Path { path: target, args: x.request.args.clone() }));
            }
            Err(error) => error,
        };
        if files::is_refused(&error) {
            log_failure(x, Level::Error, &path, &format!("is forbidden ({})", os_error(&error)));
            return Ok(Step::Status(403));
        }
        if !files::is_absent(&error) {
            log_failure(x, Level::Crit, &path, &format!("is not found ({})", os_error(&error)));
            return Ok(Step::Status(500));
        }
        // The directory is tested once.
        if index == 0 {
            let found = probe.test(x, &directory)?;
            if let Some(status) = directory_status(x, (&directory, found), (&path, &error)) {
                return Ok(Step::Status(status));
            }
        }
    }
    Ok(Step::Decline)
}

/// Returns the status if the directory itself is the problem, by the result of its test, after a path in it was
/// absent.
fn directory_status(
    x: &Exchange,
    (directory, found): (&[u8], io::Result<ProbeResult>),
    (path, error): (&[u8], &io::Error),
) -> Option<u16> {
    match found {
        Ok(found) if found.kind == PathKind::Directory => None,
        Err(error) if files::is_refused(&error) => {
            log_failure(
                x,
                Level::Error,
                directory,
                &format!("is forbidden ({})", os_error(&error)),
            );
            Some(403)
        }
        _ => {
            if x.settings().log_not_found {
                log_failure(x, Level::Error, path, &format!("is not found ({})", os_error(error)));
            }
            Some(404)
        }
    }
}

fn log_failure(x: &Exchange, level: Level, path: &[u8], what: &str) {
    let path = String::from_utf8_lossy(path);
    x.log(level, format_args!("\"{path}\" {what}"));
}
