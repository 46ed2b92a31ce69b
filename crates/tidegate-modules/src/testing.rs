//! The bench of the engine with all modules.

use tidegate_core::ErasedModule;
use tidegate_core::testing::ModuleList;

pub(crate) use tidegate_core::testing::Reply;

/// A plan of all modules, see [`tidegate_core::testing`].
pub(crate) type Bench = tidegate_core::testing::Bench<All>;

/// [`crate::MODULES`].
pub(crate) struct All;

impl ModuleList for All {
    fn modules() -> &'static [&'static dyn ErasedModule] {
        crate::MODULES
    }
}
