//! The base of tests of plans and of the engine: a bench with the core modules and with [`probe`], whose handlers do
//! what the configuration says.

mod engine;
pub(crate) mod probe;

use crate::http_core::HttpCore;
use crate::main_core::MainCore;
use crate::module::{Entry, ErasedModule};
use crate::stream_core::StreamCore;
use crate::testing::ModuleList;
use probe::Probe;

pub(crate) use crate::testing::TestResponse;

/// A bench with the core's modules and the probe.
pub(crate) type Bench = crate::testing::Bench<Core>;

pub(crate) struct Core;

impl ModuleList for Core {
    fn modules() -> &'static [&'static dyn ErasedModule] {
        &[
            &Entry::<MainCore>::NEW,
            &Entry::<HttpCore>::NEW,
            &Entry::<StreamCore>::NEW,
            &Entry::<Probe>::NEW,
        ]
    }
}

/// Runs a future to its end on an event loop of its own.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    tidegate_rt::block_on(future).unwrap()
}
