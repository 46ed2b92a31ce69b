//! Identifiers of server instances.

use super::*;

#[test]
fn identifiers_are_one_line_of_limited_length() {
    assert!(is_name(&new_name()));
    for wrong in ["", "a\nb", &"n".repeat(NAME_BYTES_MAX + 1)] {
        assert!(!is_name(wrong), "{wrong:?}");
    }
    assert_eq!(name(), name());
}
