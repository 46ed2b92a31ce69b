//! The table is sound.
use super::{TYPES, type_of, write_types_block};
use std::collections::HashSet;

#[test]
fn every_extension_means_one_type() {
    let mut seen = HashSet::new();
    for (media_type, extensions) in TYPES {
        assert!(seen.insert(*media_type), "{media_type}");
        assert_eq!(media_type.matches('/').count(), 1);
        for extension in *extensions {
            assert!(seen.insert(*extension), "{extension}");
            assert!(extension.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
        }
    }
    assert_eq!(type_of("HTML"), Some("text/html"));
    assert_eq!(type_of("nope"), None);
}

#[test]
fn the_block_is_configuration() {
    let mut out = String::new();
    write_types_block(&mut out);
    assert!(out.starts_with("types {\n    text/html html htm shtml;\n") && out.ends_with(";\n}\n"));
}
