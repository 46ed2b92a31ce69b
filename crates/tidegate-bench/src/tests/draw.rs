//! Drawings of tables.

use std::path::Path;

use crate::draw::drawn;

#[test]
fn lines_are_drawn_over_both_kinds_of_axes() {
    let table = "# a < b\n# servers\t1\t1000\tpowers\n# requests\t50\t150\t4\nservers\tbound\tfound\n\
                 1\t50\t100\n1000\t150\t\n10\t\t200\n";
    let svg = drawn(table).expect("a table");
    // The ends of both axes, and a value that is above.
    assert!(svg.contains("<path d=\"M56.0 242.0L536.0 22.0\"/>"), "{svg}");
    assert!(svg.contains("<path d=\"M56.0 132.0L216.0 22.0\"/>"), "{svg}");
    for label in [">1</text>", ">1000</text>", ">75</text>", "a &lt; b</text>", ">found</text>"] {
        assert!(svg.contains(label), "{label} of {svg}");
    }
}

#[test]
fn what_is_no_table_is_refused() {
    let table = |x: &str, row: &str| format!("# a\n# {x}\n# y\t0\t1\t1\nx\tb\n{row}\n");
    assert!(drawn(&table("x\t0\t1\t2", "0\t1")).is_ok());
    for (x, row) in [
        ("x\t0\t1\t2", "a\t1"),
        ("x\t0\t1\t2", "0\tinf"),
        ("x\t0\t1\t0", ""),
        ("x\t0\t1", ""),
        ("x\t1\t1\t4", ""),
        ("x\t0\t9\tpowers", ""),
        ("x\t0\tNaN\t4", ""),
    ] {
        assert!(drawn(&table(x, row)).is_err(), "{x:?} {row:?}");
    }
    assert!(drawn("").is_err());
    assert!(drawn("# a\n# x\t0\t1\t1\n# y\t0\t1\t1\nx\n").is_err());
}

#[test]
fn recorded_drawings_are_those_of_their_tables() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulations");
    let mut count = 0;
    for entry in directory.read_dir().expect("the directory").map_while(Result::ok) {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "tsv") {
            let read = |path: &Path| std::fs::read_to_string(path).expect("a file");
            let found = drawn(&read(&path)).expect("a table");
            assert!(
                found == read(&path.with_extension("svg")),
                "{path:?}: scripts/simulations.sh draws it"
            );
            count += 1;
        }
    }
    assert!(count >= 5, "{count}");
}
