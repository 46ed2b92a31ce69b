//! Entry points for fuzzing, replayed by the tests.

use std::path::Path;

use crate::bundle::{Bundle, BundleLoader};
use crate::contexts::Contexts;
use crate::parser::Parser;
use crate::registry::Registry;
use crate::{parse_milliseconds, parse_offset, parse_seconds};

/// Parses arbitrary bytes as a file (which may include itself), as a fragment, as a bundle and as a time;
/// renders the diagnostics. No bytes may cause a panic.
pub fn fuzz_config(data: &[u8]) {
    if let Ok(bundle) = Bundle::from_bytes(data) {
        assert_eq!(Bundle::from_bytes(&bundle.to_bytes()).as_ref(), Ok(&bundle), "round trip");
    }
    let _ = (parse_milliseconds(data), parse_seconds(data), parse_offset(data));

    let main = Path::new("/conf/main.conf");
    let bundle = Bundle {
        files: vec![(main.to_owned(), data.into())],
        globs: vec![("/conf/*".to_owned(), vec![main.to_owned()])],
    };
    let loader = BundleLoader::new(bundle);
    let mut parser = Parser::new(&loader, "/conf");
    let statements = parser.parse_file(main);
    let _ = parser.parse_fragment("command line", data);
    let registry = Registry::new();
    let (sources, mut diagnostics) = parser.finish();
    for statement in &statements {
        diagnostics.extend(registry.check(statement, Contexts::MAIN).err());
    }
    for diagnostic in diagnostics.iter().take(RENDERED_MAX) {
        let _ = diagnostic.render(&sources, true);
    }
}

/// The most diagnostics that are rendered: that takes longer than parsing.
const RENDERED_MAX: usize = 20;
