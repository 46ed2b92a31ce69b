//! Tests of the table and of reading a dump.

use super::counts::{self, Counts};
use super::table::{Known, judge, line, parse};

#[test]
fn a_table_is_read() {
    let row = |name: &str, instructions, locked| (name.to_owned(), Known { instructions, locked });
    let rows = parse("# comment\nfixed\t8000\nfile\t9000\t12\n");
    assert_eq!(rows, Ok(vec![row("fixed", 8000, None), row("file", 9000, Some(12))]));
    let written = line("file", Counts { instructions: 9000, locked: 0 });
    assert_eq!(parse(&written), Ok(vec![row("file", 9000, Some(0))]));
    for wrong in ["fixed 8000", "fixed\t", "fixed\t0", "fixed\t-1", "fixed\t1\t", "fixed\t1\tx", ""]
    {
        assert!(parse(&format!("{wrong}\n")).is_err(), "{wrong}");
    }
}

#[test]
fn growth_beyond_two_percent_and_any_lock_fail() {
    let judged = |instructions, locked, known: Option<(u64, Option<u64>)>| {
        let known = known.map(|(instructions, locked)| Known { instructions, locked });
        judge("fixed", Counts { instructions, locked }, known)
    };
    let within = |instructions, locked, known| judged(instructions, locked, known).1;
    assert!(within(10_190, 9, Some((10_000, None))));
    assert!(!within(10_210, 9, Some((10_000, None))));
    assert!(within(5_000, 9, Some((10_000, Some(9)))));
    assert!(!within(5_000, 10, Some((10_000, Some(9)))));
    assert!(within(5_000, 9, None));
    for (instructions, locked) in [(5_000, 9), (10_000, 8)] {
        assert!(judged(instructions, locked, Some((10_000, Some(9)))).0.contains("--update"));
    }
}

#[test]
fn the_sums_of_a_dump_are_found() {
    let counts = |instructions, locked| Some(Counts { instructions, locked });
    let dump = "version: 1\nevents: Ir Ge\nsummary: 123456 77\n\nfn=a\n";
    assert_eq!(counts::parse(dump), counts(123_456, 77));
    assert_eq!(counts::parse("events: Ir Ge\n1 2\ntotals: 77\n"), counts(77, 0));
    assert_eq!(counts::parse("events: Ir\ntotals: 77\n"), None);
    assert_eq!(counts::parse("events: Ir Ge\n"), None);
    let each = Counts { instructions: 1_499, locked: 150 }.of_each(100);
    assert_eq!(Some(each), counts(15, 2));
}
