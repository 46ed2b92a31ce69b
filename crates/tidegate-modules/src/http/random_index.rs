//! `random_index`: a random file of a directory for a path that ends in `/`.
//!
//! ```nginx
//! location /banners/ { random_index on; }
//! ```
//! The directory is read on a pool thread.

#[cfg(test)]
mod tests;

use std::fs::ReadDir;
use std::io;

use tidegate_codec::request::Method;
use tidegate_conf::{Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::step::Jump;
use tidegate_core::{Exchange, Phase, Step, blocking, file_path};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use super::files;

/// `ngx_http_random_index_module`.
pub(crate) struct RandomIndex;

#[derive(Default)]
pub(crate) struct Conf {
    on: Option<bool>,
}

impl Module for RandomIndex {
    type Conf = Conf;
    const NAME: &'static str = "random_index";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[row(
        "random_index",
        Contexts::LOCATION,
        Arity::FLAG,
        "off",
        "Whether a random file of the directory is sent for a request of the directory.",
        |conf, args| once(&mut conf.on, args.flag(0)?, args),
    )]];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.on = child.on.or(parent.on);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.on == Some(true) {
            location.handler(Phase::Content, Box::new(respond));
        }
        Ok(())
    }
}

fn respond(x: &mut Exchange) -> Step<'_> {
    if !x.request.path.ends_with(b"/")
        || !matches!(x.request.method, Method::Get | Method::Head | Method::Post)
    {
        return Step::Decline;
    }
    let Some(directory) = file_path::map(x) else { return Step::Status(500) };
    let from = file_path::root_length(x, &directory);
    Step::Wait(Box::pin(async move {
        let path = directory.clone();
        match blocking::run(move || choose(files::read_directory(&path, from)?)).await {
            Ok(None) => Step::Decline,
            Ok(Some(name)) => {
                let path = [&x.request.path[..], &name].concat();
                Step::Jump(Jump::Path { path, args: x.request.args.clone() })
            }
            Err(error) => files::directory_failed(x, &directory, &error),
        }
    }))
}

/// Chooses one of the regular files in a directory, links to such included; hidden ones are not.
fn choose(directory: ReadDir) -> io::Result<Option<Vec<u8>>> {
    let (mut chosen, mut count) = (None, 0);
    for entry in directory {
        let entry = entry?;
        let name = entry.file_name().into_encoded_bytes();
        // The n-th replaces the earlier choice with probability 1/n, so that all are equally likely.
        if !name.starts_with(b".") && is_file(&entry) {
            count += 1;
            if tidegate_rt::random::below(count) == 0 {
                chosen = Some(name);
            }
        }
    }
    Ok(chosen)
}

fn is_file(entry: &std::fs::DirEntry) -> bool {
    match entry.file_type() {
        Ok(kind) if !kind.is_symlink() => kind.is_file(),
        _ => std::fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file()),
    }
}
