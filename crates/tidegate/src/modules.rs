//! The modules that configurations are checked against: those of the list, then TLS, which lives with the
//! listeners it serves.

use std::sync::LazyLock;

use tidegate_core::ErasedModule;

pub static MODULES: LazyLock<Vec<&'static dyn ErasedModule>> =
    LazyLock::new(|| [tidegate_modules::MODULES, tidegate_front::MODULES].concat());
