//! Compiled components: each file's content is compiled once, across reloads.

use std::sync::{Mutex, OnceLock, PoisonError};

use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine};
use wasmtime_wasi_http::p2::bindings::ProxyPre;
use xxhash_rust::xxh3::xxh3_128;

use crate::failure::ProgramError;
use crate::host::State;

/// A compiled component for HTTP requests, ready to be instantiated.
#[derive(Clone)]
pub struct Program {
    pub(crate) engine: Engine,
    pub(crate) proxy: ProxyPre<State>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").finish_non_exhaustive()
    }
}

/// The programs of this process's configurations.
#[derive(Debug, Default)]
pub struct Programs(Mutex<Vec<CompiledProgram>>);

#[derive(Debug)]
struct CompiledProgram {
    key: Key,
    /// The last generation that uses the program.
    generation: u64,
    program: Program,
}

/// A hash of the file's content, its length, and whether the code counts fuel.
type Key = (u128, usize, bool);

impl Programs {
    /// Returns the program of a file with this content; compiles it unless one of the last two generations used it.
    /// Compiling takes about a second per megabyte. `metered` programs count fuel.
    ///
    /// # Errors
    /// The file is no component, or its imports or exports do not fit this server.
    pub fn program(
        &self,
        bytes: &[u8],
        metered: bool,
        generation: u64,
    ) -> Result<Program, ProgramError> {
        let key = (xxh3_128(bytes), bytes.len(), metered);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|entry| entry.generation.saturating_add(1) >= generation);
        if let Some(entry) = known.iter_mut().find(|entry| entry.key == key) {
            entry.generation = generation.max(entry.generation);
            return Ok(entry.program.clone());
        }
        let program = compile(bytes, metered)?;
        known.push(CompiledProgram { key, generation, program: program.clone() });
        Ok(program)
    }
}

fn compile(bytes: &[u8], metered: bool) -> Result<Program, ProgramError> {
    let engine = engine(metered)?;
    let component = Component::new(&engine, bytes).map_err(|error| ProgramError::of(&error))?;
    let proxy = prepare(&engine, &component).map_err(|error| ProgramError::of(&error))?;
    Ok(Program { engine, proxy })
}

fn prepare(engine: &Engine, component: &Component) -> wasmtime::Result<ProxyPre<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    ProxyPre::new(linker.instantiate_pre(component)?)
}

/// Returns the engine for code that counts fuel, which costs time, or the one for code that does not. An engine
/// starts no threads, so a master may compile before it forks.
pub(crate) fn engine(metered: bool) -> Result<Engine, ProgramError> {
    static ENGINES: [OnceLock<Result<Engine, ProgramError>>; 2] =
        [OnceLock::new(), OnceLock::new()];
    let made = ENGINES[usize::from(metered)].get_or_init(|| {
        let mut config = Config::new();
        config.epoch_interruption(true).consume_fuel(metered);
        // Backtraces help only the program's author, and cost time at every trap and memory for a table.
        config.wasm_backtrace_max_frames(None).generate_address_map(false);
        Engine::new(&config).map_err(|error| ProgramError::of(&error))
    });
    made.clone()
}
