//! The modules that configurations are checked against: those of requests, and TLS, which stands
//! beside them since it belongs to connections.

use std::sync::LazyLock;

use tidegate_core::ErasedModule;

static ALL: LazyLock<Vec<&'static dyn ErasedModule>> =
    LazyLock::new(|| [tidegate_modules::MODULES, tidegate_front::MODULES].concat());

/// All of them, in the order in which they see a request.
pub(crate) fn all() -> &'static [&'static dyn ErasedModule] {
    &ALL
}
