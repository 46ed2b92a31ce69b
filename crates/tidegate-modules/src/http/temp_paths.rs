//! `uwsgi_temp_path` and `scgi_temp_path`: folders of gateways that are not built yet.
//!
//! Packages write them into configurations that use none of these gateways, so they are read and checked;
//! as long as `uwsgi_pass` and `scgi_pass` are refused, no answer needs such a folder.

use tidegate_core::http_core::temp_path;
use tidegate_core::module::{Args, Arity, Contexts, Diagnostic, Directive, Module, once};

/// The folders of gateways to come.
pub struct TempPaths;

#[derive(Default)]
pub struct Conf {
    uwsgi: Option<()>,
    scgi: Option<()>,
}

impl Module for TempPaths {
    type Conf = Conf;
    const NAME: &'static str = "temp_paths";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[
        folder("uwsgi_temp_path", |conf, args| take(&mut conf.uwsgi, args)),
        folder("scgi_temp_path", |conf, args| take(&mut conf.scgi, args)),
    ]];
}

const fn folder(
    name: &'static str,
    set: fn(&mut Conf, &Args<'_>) -> Result<(), Diagnostic>,
) -> Directive<Conf> {
    let doc = "Folder for long answers of this gateway, with up to three levels of subfolders.";
    super::row(name, Contexts::HTTP_SERVER_LOCATION, Arity::ONE_TO_FOUR, "", doc, set)
}

fn take(slot: &mut Option<()>, args: &Args<'_>) -> Result<(), Diagnostic> {
    temp_path(args)?;
    once(slot, (), args)
}
