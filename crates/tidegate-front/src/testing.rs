//! The engine's test bench with what the front side needs: the core modules and the TLS module.

use tidegate_plan::http_core::HttpCore;
use tidegate_plan::main_core::MainCore;
use tidegate_plan::stream_core::StreamCore;
use tidegate_plan::testing::ModuleList;
use tidegate_plan::{Entry, ErasedModule};

/// A plan without handlers, see [`tidegate_plan::testing`].
pub(crate) type Bench = tidegate_plan::testing::Bench<Core>;

/// The modules of the engine, [`crate::Ssl`] and [`crate::Http3`].
pub(crate) struct Core;

impl ModuleList for Core {
    fn modules() -> &'static [&'static dyn ErasedModule] {
        &[
            &Entry::<MainCore>::NEW,
            &Entry::<HttpCore>::NEW,
            &Entry::<StreamCore>::NEW,
            &Entry::<crate::Ssl>::NEW,
            &Entry::<crate::Http3>::NEW,
        ]
    }
}
