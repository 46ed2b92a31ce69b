//! Tests of the table and of reading a dump.

use super::table::{judge, parse};
use super::traced::total;

#[test]
fn a_table_is_read() {
    let rows = parse("# comment\nfixed\t8000\nfile\t9000\n");
    assert_eq!(rows, Ok(vec![("fixed".to_owned(), 8000), ("file".to_owned(), 9000)]));
    for wrong in ["fixed 8000", "fixed\t", "fixed\t0", "fixed\t-1", ""] {
        assert!(parse(&format!("{wrong}\n")).is_err(), "{wrong}");
    }
}

#[test]
fn growth_beyond_two_percent_fails() {
    let within = |count, before| judge("fixed", count, before).1;
    assert!(within(10_190, Some(10_000)));
    assert!(!within(10_210, Some(10_000)));
    assert!(within(5_000, Some(10_000)));
    assert!(within(5_000, None));
    assert!(judge("fixed", 5_000, Some(10_000)).0.contains("--update"));
}

#[test]
fn the_total_of_a_dump_is_found() {
    assert_eq!(total("version: 1\nevents: Ir\nsummary: 123456\n\nfn=a\n"), Some(123_456));
    assert_eq!(total("events: Ir\n1 2\ntotals: 77\n"), Some(77));
    assert_eq!(total("events: Ir\n"), None);
}
