//! `index`: which file answers for a path that ends in `/`.
//!
//! ```nginx
//! index index.$geo.html index.html /fallback.html;
//! ```

#[cfg(test)]
mod tests;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word};
use tidegate_core::builder::{LocationBuilder, PlanBuilder, os_error};
use tidegate_core::module::{BlockInfo, Module};
use tidegate_core::step::Jump;
use tidegate_core::{Exchange, Level, Phase, Step, Template, file_path};
use tidegate_http::request::Method;

use super::files::{self, Kind};
use super::row;

/// `ngx_http_index_module`.
pub struct Index;

/// Names in order.
#[derive(Default)]
pub struct Conf {
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
        // Inner blocks that say nothing have the same words: told once, here or below.
        warn_absolute(&conf.names, plan);
        Ok(())
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let plan = &mut *location.plan;
        let mut names = Vec::new();
        for word in &conf.names {
            names.push(plan.template(word)?);
        }
        if names.is_empty() {
            names.push(Template::constant(b"index.html"));
        }
        let outer = plan.http_block().and_then(|http| http.conf::<Index>());
        if outer.is_none_or(|outer| outer.names != conf.names) {
            warn_absolute(&conf.names, plan);
        }
        location.handler(Phase::Content, Box::new(move |x| answer(&names, x)));
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
        let warning = Diagnostic::warn(message).at(word.span);
        if !plan.diagnostics.contains(&warning) {
            plan.diagnostics.push(warning);
        }
    }
}

fn answer(names: &[Template], x: &mut Exchange) -> Step<'static> {
    if !x.request.path.ends_with(b"/")
        || !matches!(x.request.method, Method::Get | Method::Head | Method::Post)
    {
        return Step::Decline;
    }
    let Some(folder) = file_path::map(x) else { return Step::Status(500) };
    let mut folder_is_there = false;
    for name in names {
        let name = name.value(x);
        if name.starts_with(b"/") {
            return Step::Jump(Jump::Path { path: name, args: x.request.args.clone() });
        }
        let mut path = folder.clone();
        path.extend_from_slice(&name);
        let error = match files::look(x, &path) {
            Ok(_) => {
                let mut target = x.request.path.clone();
                target.extend_from_slice(&name);
                return Step::Jump(Jump::Path { path: target, args: x.request.args.clone() });
            }
            Err(error) => error,
        };
        if files::is_refused(&error) {
            complain(x, Level::Error, &path, &format!("is forbidden ({})", os_error(&error)));
            return Step::Status(403);
        }
        if !files::is_absent(&error) {
            complain(x, Level::Crit, &path, &format!("is not found ({})", os_error(&error)));
            return Step::Status(500);
        }
        if !folder_is_there && let Some(status) = folder_status(x, &folder, &path, &error) {
            return Step::Status(status);
        }
        folder_is_there = true;
    }
    Step::Decline
}

/// Whether the folder itself is the problem.
fn folder_status(
    x: &mut Exchange,
    folder: &[u8],
    path: &[u8],
    error: &std::io::Error,
) -> Option<u16> {
    match files::look(x, folder) {
        Ok(found) if found.kind == Kind::Directory => None,
        Err(error) if files::is_refused(&error) => {
            complain(x, Level::Error, folder, &format!("is forbidden ({})", os_error(&error)));
            Some(403)
        }
        _ => {
            if x.settings().log_not_found {
                complain(x, Level::Error, path, &format!("is not found ({})", os_error(error)));
            }
            Some(404)
        }
    }
}

fn complain(x: &Exchange, level: Level, path: &[u8], what: &str) {
    let path = String::from_utf8_lossy(path);
    x.log(level, format_args!("\"{path}\" {what}"));
}
