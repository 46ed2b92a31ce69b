//! From the directives of `wasm` to an application.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use tidegate_conf::Diagnostic;
use tidegate_handler::Handler;
use tidegate_os::os_error;
use tidegate_plan::PlanBuilder;
use tidegate_wasm::{Application, MEMORY_BYTES_DEFAULT, Programs, Settings};

use super::{Conf, DirectoryConf, WasmConf};

/// Compiled components; they outlive reloads, in the master and in the worker.
static PROGRAMS: LazyLock<Programs> = LazyLock::new(Programs::default);

/// Compiles the file of a `wasm` directive.
///
/// # Errors
/// There is no such file or directory, or the file is not a component that can run here.
pub(super) fn application(
    written: &WasmConf,
    conf: &Conf,
    plan: &PlanBuilder<'_>,
) -> Result<Arc<dyn Handler>, Diagnostic> {
    let bytes = plan.read_file(&written.file)?;
    let generation = plan.environment.generation;
    let program = PROGRAMS.program(&bytes, written.fuel.is_some(), generation);
    let program = program.map_err(|problem| {
        let message = format!("cannot load component \"{}\": {problem}", written.file.display());
        let help = "a component of the world wasi:http/proxy is needed; see docs/handlers.md";
        Diagnostic::emerg(message).at(written.file.span).help(help)
    })?;
    let directories = conf.directories.iter().map(|written| {
        let host = directory(written, plan)?;
        let guest = written.guest.clone();
        Ok(tidegate_wasm::Directory { host, guest, writable: written.writable })
    });
    let memory = written.memory.and_then(|size| usize::try_from(size).ok());
    let settings = Settings {
        memory_bytes_max: memory.unwrap_or(MEMORY_BYTES_DEFAULT),
        fuel: written.fuel,
        requests_max: written.reuse.unwrap_or(1),
        environment: conf.environment.clone(),
        directories: directories.collect::<Result<_, Diagnostic>>()?,
    };
    Ok(Arc::new(Application::new(program, settings)))
}

/// Returns a directory below the prefix. The worker opens it when a request arrives.
fn directory(written: &DirectoryConf, plan: &PlanBuilder<'_>) -> Result<PathBuf, Diagnostic> {
    let path = plan.path(&written.host.display());
    let problem = match std::fs::metadata(&path) {
        Ok(metadata) if !metadata.is_dir() => "is not a directory".to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("cannot be opened ({})", os_error(&error))
        }
        // The process that reads the configuration may have other permissions than the worker.
        _ => return Ok(path),
    };
    let message = format!("\"wasm_dir\": \"{}\" {problem}", path.display());
    Err(Diagnostic::emerg(message).at(written.host.span))
}
