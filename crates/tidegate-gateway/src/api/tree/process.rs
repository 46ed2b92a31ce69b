//! The server itself, as the tree shows it.

use std::sync::LazyLock;
use std::time::UNIX_EPOCH;

use serde_json::{Map, Value, json};

use super::super::objects::Object;
use super::super::process::address;
use super::super::query::Query;
use super::{View, time};

/// When the file of the running program was last written, in Unix milliseconds; 0 where that is unknown. Read at the
/// first use: an upgrade replaces the file.
static BUILT: LazyLock<u64> = LazyLock::new(|| {
    let file = std::env::current_exe().and_then(std::fs::metadata);
    let written = file.and_then(|file| file.modified()).unwrap_or(UNIX_EPOCH);
    let since = written.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
});

/// Reads what is to be known of the program's file, while a configuration is loaded.
pub(in super::super) fn look_at_program() {
    LazyLock::force(&BUILT);
}

pub(super) fn server(query: &Query<'_>, view: &View) -> Object {
    let mut value = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "build_time": time(*BUILT, view.dates),
        "address": address(query),
        "generation": query.x.plan.generation,
        "load_time": time(query.settings.loaded, view.dates),
    });
    let files = view.files.clone();
    Object::new(move || {
        if let Some(files) = files {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let texts = files.iter().map(|(name, bytes)| (name.clone(), text(bytes).into()));
            value["config_files"] = Value::Object(texts.collect::<Map<_, _>>());
        }
        value
    })
}
