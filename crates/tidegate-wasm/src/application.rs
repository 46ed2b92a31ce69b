//! A program with its settings: the handler of a location.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_handler::{Handler, Request, Response};
use wasmtime::{Store, Trap, UpdateDeadline};
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::p2::bindings::Proxy;
use wasmtime_wasi_http::p2::bindings::http::types::Scheme;

use crate::Settings;
use crate::call::{Call, HeadSlot};
use crate::failure::{Failure, one_line};
use crate::host::State;
use crate::program::Program;
use crate::request::{Incoming, convert};
use crate::watch::Watch;

/// Most bytes that the server copies for one call of an instance.
const COPIED_BYTES_MAX: usize = 8 << 20;
/// Most idle instances; no more run at a time than the pool has threads.
const IDLE_MAX: usize = 1024;

/// A handler that runs instances of a program.
pub struct Application(Arc<Shared>);

struct Shared {
    program: Program,
    settings: Settings,
    /// Instances that may serve another request, the last used one last: its memory is still in caches.
    idle: Mutex<Vec<Instance>>,
}

struct Instance {
    store: Store<State>,
    proxy: Proxy,
    /// Requests so far.
    served: u32,
}

impl Application {
    /// Creates an application without instances; they are created for requests.
    pub fn new(program: Program, settings: Settings) -> Application {
        Application(Arc::new(Shared { program, settings, idle: Mutex::default() }))
    }
}

impl Handler for Application {
    fn handle(&self, request: Request) -> tidegate_handler::Result<Response> {
        let watch = Arc::new(Watch::default());
        let (ended, engine) = (watch.clone(), self.0.program.engine.clone());
        request.on_abandoned(move || {
            ended.end();
            // Each instance of the engine now checks whether its own request is abandoned.
            engine.increment_epoch();
        });
        let (scheme, request) = convert(request)?;
        let head = HeadSlot::default();
        let guest = serve(self.0.clone(), scheme, request, head.clone(), watch.clone());
        Ok(Call::new(Box::pin(guest), head, watch).respond()?)
    }

    fn variables(&self) -> &[&str] {
        &["scheme", "host"]
    }
}

/// Runs a request on an instance, and keeps the instance if it may serve another one.
async fn serve(
    shared: Arc<Shared>,
    scheme: Scheme,
    request: http::Request<Incoming>,
    head: HeadSlot,
    watch: Arc<Watch>,
) -> Result<(), Failure> {
    let idle = shared.idle().pop();
    let mut instance = match idle {
        Some(idle) => idle,
        None => shared.instantiate(watch.clone()).await?,
    };
    let result = instance.handle(&shared.settings, scheme, request, head, watch).await;
    result.map_err(|error| failure_of(&error, instance.store.data()))?;
    if instance.served < shared.settings.requests_max {
        let mut idle = shared.idle();
        if idle.len() < IDLE_MAX {
            idle.push(instance);
        }
    }
    Ok(())
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<Instance>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn instantiate(&self, watch: Arc<Watch>) -> Result<Instance, Failure> {
        let state = State::new(&self.settings, watch)
            .map_err(|error| Failure::Instance(one_line(&error)))?;
        let mut store = Store::new(&self.program.engine, state);
        store.limiter(|state| &mut state.limits);
        store.set_hostcall_fuel(COPIED_BYTES_MAX);
        store.epoch_deadline_callback(|store| {
            // A tick between these two lines is lost for this request. The next abandoned request makes another one.
            let over = store.data().watch.is_over();
            Ok(if over { UpdateDeadline::Interrupt } else { UpdateDeadline::Continue(1) })
        });
        // Instantiation may run the program's code.
        set_limits(&mut store, &self.settings)
            .map_err(|error| Failure::Instance(one_line(&error)))?;
        let made = self.program.proxy.instantiate_async(&mut store).await;
        let proxy = made.map_err(|error| failure_of(&error, store.data()))?;
        Ok(Instance { store, proxy, served: 0 })
    }
}

impl Instance {
    async fn handle(
        &mut self,
        settings: &Settings,
        scheme: Scheme,
        request: http::Request<Incoming>,
        head: HeadSlot,
        watch: Arc<Watch>,
    ) -> wasmtime::Result<()> {
        self.served += 1;
        let state = self.store.data_mut();
        state.watch = watch;
        state.limits.exceeded = false;
        // What earlier requests have written is not of this one.
        state.output.take_line();
        let request = state.http().new_incoming_request(scheme, request)?;
        let respond = state.http().new_response_outparam_from_callback(move |response| {
            *head.lock().unwrap_or_else(PoisonError::into_inner) = Some(response);
        })?;
        set_limits(&mut self.store, settings)?;
        let handler = self.proxy.wasi_http_incoming_handler();
        handler.call_handle(&mut self.store, request, respond).await
    }
}

/// Allows a request to run until the next tick of the engine, at which an abandoned request ends.
///
/// The tick of a request that was abandoned earlier has passed already, so the request is checked here as well: first
/// the deadline is set to the next tick, then the request is checked. In the other order a tick between the two would
/// be lost, and the program might run without end.
pub(crate) fn set_limits(store: &mut Store<State>, settings: &Settings) -> wasmtime::Result<()> {
    store.set_epoch_deadline(1);
    if store.data().watch.is_over() {
        return Err(Trap::Interrupt.into());
    }
    settings.fuel.map_or(Ok(()), |fuel| store.set_fuel(fuel))
}

/// Returns why an instance failed, with its last output.
fn failure_of(error: &wasmtime::Error, state: &State) -> Failure {
    let mut text = match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => "used up its fuel".to_owned(),
        Some(trap) => {
            let reason = trap.to_string();
            format!("trapped: {}", reason.trim_start_matches("wasm trap: "))
        }
        None => one_line(error),
    };
    if state.limits.exceeded {
        text.push_str(", having asked for more memory than memory= allows");
    }
    let output = state.output.take_line();
    if !output.is_empty() {
        text.push_str("; it wrote: ");
        text.push_str(&output);
    }
    Failure::Instance(text)
}
