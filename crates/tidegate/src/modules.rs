//! The modules that configurations are checked against.

use tidegate_core::http_core::HttpCore;
use tidegate_core::main_settings::MainCore;
use tidegate_core::{Entry, ErasedModule};

pub static MODULES: &[&'static dyn ErasedModule] =
    &[&Entry::<MainCore>::NEW, &Entry::<HttpCore>::NEW];
