//! `wasm`: a WebAssembly component makes the response, in a sandbox, on pool threads where it may block.
//!
//! ```nginx
//! wasm_env COLOUR green;
//! wasm_dir data/shop /shop ro;
//! location /shop { wasm apps/shop.wasm memory=32m timeout=2s; }
//! ```
//! The component is one of the world `wasi:http/proxy`; the crate `tidegate-wasm` runs it. It is compiled when the
//! configuration is read, once for as long as the file's content stays the same.

#[cfg(feature = "wasm")]
mod compile;
#[cfg(test)]
mod tests;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word, once, parse_size, row};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use super::handler::{CONTEXTS, Parameters};

/// Smallest and largest `memory=` in bytes: a WebAssembly page, and the address space.
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=4 << 30;

/// The module of `wasm`.
pub(crate) struct Wasm;

// Without the feature the directives are only checked.
#[cfg_attr(not(feature = "wasm"), allow(dead_code))]
#[derive(Default)]
pub(crate) struct Conf {
    wasm: Option<WasmConf>,
    environment: Vec<(String, String)>,
    directories: Vec<DirectoryConf>,
}

/// A `wasm` directive as written.
#[cfg_attr(not(feature = "wasm"), allow(dead_code))]
struct WasmConf {
    file: Word,
    parameters: Parameters,
    memory: Option<u64>,
    fuel: Option<u64>,
    reuse: Option<u32>,
}

/// A `wasm_dir` directive as written.
#[cfg_attr(not(feature = "wasm"), allow(dead_code))]
#[derive(Clone)]
struct DirectoryConf {
    host: Word,
    guest: String,
    writable: bool,
}

impl Module for Wasm {
    type Conf = Conf;
    const NAME: &'static str = "wasm";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[&[
        row(
            "wasm",
            CONTEXTS,
            Arity::between(1, 7),
            "",
            "Passes requests to the WebAssembly component (wasi:http/proxy) in this file; pool=, timeout= and \
             max_body= as for handler, memory= the most memory of an instance (64m), fuel= the most \
             instructions of a request, reuse= the requests that an instance serves (1).",
            set,
        ),
        row(
            "wasm_env",
            Contexts::HTTP_SERVER_LOCATION,
            Arity::exactly(2),
            "",
            "A variable of the environment of components, which have none without this.",
            set_environment,
        ),
        row(
            "wasm_dir",
            Contexts::HTTP_SERVER_LOCATION,
            Arity::between(2, 3),
            "",
            "A directory, and under which name components see it; ro (the default) or rw.",
            set_directory,
        ),
    ]];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.environment.is_empty() {
            child.environment.clone_from(&parent.environment);
        }
        if child.directories.is_empty() {
            child.directories.clone_from(&parent.directories);
        }
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let Some(written) = &conf.wasm else { return Ok(()) };
        #[cfg(feature = "wasm")]
        let handler = compile::application(written, conf, location.plan)?;
        #[cfg(not(feature = "wasm"))]
        let handler = unsupported(written)?;
        let title = format!("wasm \"{}\"", written.file.display());
        let target = written.parameters.target(title, handler, written.file.span, location)?;
        target.install(location);
        Ok(())
    }
}

#[cfg(not(feature = "wasm"))]
fn unsupported(
    written: &WasmConf,
) -> Result<std::sync::Arc<dyn tidegate_handler::Handler>, Diagnostic> {
    let message = "\"wasm\" directive is not supported in this build";
    let help = "build it with the feature `wasm`: cargo build --features wasm";
    Err(Diagnostic::emerg(message).at(written.file.span).help(help))
}

fn set(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    args.text(0)?;
    let (mut parameters, mut memory, mut fuel, mut reuse) =
        (Parameters::default(), None, None, None);
    for index in 1..args.len() {
        let invalid = || args.invalid_parameter(index);
        match args.parameter(index)? {
            ("memory", Some(text)) => {
                let size = parse_size(text.as_bytes()).filter(|size| MEMORY_BYTES.contains(size));
                memory = Some(size.ok_or_else(invalid)?);
            }
            ("fuel", Some(text)) => fuel = Some(positive(text).ok_or_else(invalid)?),
            ("reuse", Some(text)) => {
                let number = positive(text).and_then(|number| u32::try_from(number).ok());
                reuse = Some(number.ok_or_else(invalid)?);
            }
            _ if parameters.take(args, index)? => {}
            _ => return Err(invalid()),
        }
    }
    let written = WasmConf { file: args.word(0).clone(), parameters, memory, fuel, reuse };
    once(&mut conf.wasm, written, args)
}

fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
}

fn set_environment(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let (name, value) = (args.text(0)?, args.text(1)?);
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Err(args.invalid(0));
    }
    if conf.environment.iter().any(|(known, _)| known == name) {
        return Err(args.error(0, format!("duplicate variable \"{name}\"")));
    }
    conf.environment.push((name.to_owned(), value.to_owned()));
    Ok(())
}

fn set_directory(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    args.text(0)?;
    let guest = args.text(1)?;
    let writable = args.len() == 3 && args.choice(2, &[("ro", false), ("rw", true)])?;
    if guest.is_empty() || guest.contains('\0') {
        return Err(args.invalid(1));
    }
    if conf.directories.iter().any(|directory| directory.guest == guest) {
        return Err(args.error(1, format!("duplicate directory \"{guest}\"")));
    }
    conf.directories.push(DirectoryConf {
        host: args.word(0).clone(),
        guest: guest.to_owned(),
        writable,
    });
    Ok(())
}
