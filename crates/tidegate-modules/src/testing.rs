//! The test bench of the engine with all modules.

use tidegate_plan::ErasedModule;
use tidegate_plan::testing::ModuleList;

pub(crate) use tidegate_plan::testing::TestResponse;

/// A plan of all modules for tests, see [`tidegate_plan::testing`].
pub(crate) type Bench = tidegate_plan::testing::Bench<All>;

/// [`crate::MODULES`].
pub(crate) struct All;

impl ModuleList for All {
    fn modules() -> &'static [&'static dyn ErasedModule] {
        crate::MODULES
    }
}
