//! The bench of the engine with what the front side needs: the core modules and that of TLS.

use tidegate_core::http_core::HttpCore;
use tidegate_core::main_settings::MainCore;
use tidegate_core::stream_core::StreamCore;
use tidegate_core::testing::ModuleList;
use tidegate_core::{Entry, ErasedModule};

/// A plan without handlers, see [`tidegate_core::testing`].
pub(crate) type Bench = tidegate_core::testing::Bench<Core>;

/// The modules of the engine, and [`crate::Ssl`].
pub(crate) struct Core;

impl ModuleList for Core {
    fn modules() -> &'static [&'static dyn ErasedModule] {
        &[
            &Entry::<MainCore>::NEW,
            &Entry::<HttpCore>::NEW,
            &Entry::<StreamCore>::NEW,
            &Entry::<crate::Ssl>::NEW,
        ]
    }
}
