//! The host's side of an instance's imports.

use std::sync::Arc;

use http::{Request, Response};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

use crate::Settings;
use crate::limits::Limits;
use crate::output::Output;
use crate::watch::Watch;

/// Most objects of the server (streams, bodies, sets of fields) that an instance may hold.
const RESOURCES_MAX: usize = 1024;
/// Largest set of fields, in bytes.
const FIELDS_BYTES_MAX: usize = 64 << 10;
/// Most random bytes of one call.
const RANDOM_BYTES_MAX: u64 = 1 << 20;
/// Most bytes of a response's body that the program may write ahead.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;

/// The data of an instance's store.
pub(crate) struct State {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    hooks: Hooks,
    table: ResourceTable,
    pub limits: Limits,
    pub output: Output,
    /// The watch of the request in progress.
    pub watch: Arc<Watch>,
}

impl State {
    /// Creates the data of a new instance.
    ///
    /// # Errors
    /// A directory cannot be opened.
    pub(crate) fn new(settings: &Settings, watch: Arc<Watch>) -> wasmtime::Result<State> {
        let output = Output::default();
        let mut wasi = WasiCtxBuilder::new();
        // The program's thread may block, so it reads files itself.
        wasi.allow_blocking_current_thread(true);
        wasi.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        wasi.max_random_size(RANDOM_BYTES_MAX);
        wasi.stdout(output.clone()).stderr(output.clone());
        wasi.envs(&settings.environment);
        for directory in &settings.directories {
            let rights = if directory.writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
            wasi.preopened_dir(&directory.host, &directory.guest, rights).map_err(|error| {
                error
                    .context(format!("directory \"{}\" cannot be opened", directory.host.display()))
            })?;
        }
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(FIELDS_BYTES_MAX);
        let mut table = ResourceTable::new();
        table.set_max_capacity(RESOURCES_MAX);
        let limits = Limits::new(settings.memory_bytes_max);
        Ok(State { wasi: wasi.build(), http, hooks: Hooks, table, limits, output, watch })
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.hooks, table: &mut self.table, ctx: &mut self.http }
    }
}

/// Refuses the program's own requests: there is no network.
struct Hooks;

type Sent = wasmtime_wasi_http::Result<(
    Response<WasiBody>,
    Box<dyn Future<Output = wasmtime_wasi_http::Result<()>> + Send>,
)>;

impl WasiHttpHooks for Hooks {
    fn send_request(
        &mut self,
        _request: Request<WasiBody>,
        _options: Option<RequestOptions>,
        _sent: Box<dyn Future<Output = wasmtime_wasi_http::Result<()>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        Box::new(std::future::ready(Err(Error::HttpRequestDenied)))
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        PIECE_BYTES_MAX
    }
}
