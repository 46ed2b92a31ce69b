//! What stands behind an instance's imports.

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

/// Objects of the server (streams, bodies, sets of fields) that an instance may hold.
const RESOURCES_MAX: usize = 1024;
/// Size of one set of header fields.
const FIELDS_BYTES_MAX: usize = 64 << 10;
/// Random bytes of one call.
const RANDOM_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a response's body that the program may write ahead.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;

/// The data of an instance's store.
pub(crate) struct State {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    hooks: Hooks,
    table: ResourceTable,
    pub limits: Limits,
    pub output: Output,
    /// That of the request in progress.
    pub watch: Arc<Watch>,
}

impl State {
    /// # Errors
    /// A directory cannot be opened.
    pub(crate) fn new(settings: &Settings, watch: Arc<Watch>) -> wasmtime::Result<State> {
        let output = Output::default();
        let mut wasi = WasiCtxBuilder::new();
        // Files are read where the program runs: on a thread that may wait.
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

/// There is no network: requests of the program's own are refused.
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
