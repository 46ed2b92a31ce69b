//! The suite depth: its rows, its drawing, and one small run with genuine nginx on both sides.

use crate::chart::{Axis, Line, lines};
use crate::config::directories;
use crate::options::Suite;
use crate::report::{json, table};
use crate::statistics::TargetResult;
use crate::suites::depth::{DEPTHS, html};
use crate::suites::{Case, cases, is_not_served, measure};

use super::{options, with_nginx_in_both_places};

#[test]
fn directories_are_below_each_other() {
    assert_eq!(directories(0), "");
    assert_eq!(directories(3), "/a/b/c");
    assert!(directories(120).ends_with("/y/z/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p"));
}

#[test]
fn options_of_the_suite() {
    #[track_caller]
    fn check(line: &[&str], expected: &str) {
        let got = options(line).map_or_else(
            |reason| reason,
            |o| format!("{} {} {} {:?}", o.connections, o.rounds, o.run_time.as_secs(), o.html),
        );
        assert_eq!(got, expected, "{line:?}");
    }
    check(&["depth"], "15 5 1 None");
    check(&["--connections", "7", "depth", "--html", "p"], "7 5 1 Some(\"p\")");
    check(&["quick"], "64 5 3 None");
    check(&["blocking", "--connections", "7"], "7 5 3 None");
    check(&["quick", "--html", "p"], "--html is for streaming, depth, growth and tuning");
    check(&["quick", "--wine", "p"], "--wine is for depth, without --html");
}

#[test]
fn lines_go_through_their_points() {
    let axis = |end| Axis::new(end, "it", 0);
    let drawn = |points: &[(f64, f64)]| {
        lines("a < b", [axis(10.0), axis(4.0)], &[Line { name: "x", points: points.into() }])
    };
    let svg = drawn(&[(0.0, 0.0), (5.0, 4.0), (10.0, 2.0)]);
    assert!(svg.contains("<path d=\"M56.0 242.0L296.0 22.0L536.0 132.0\"/>"), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 3);
    assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>"));
    assert!(!drawn(&[]).contains("class=\"line"));
}

#[test]
fn small_run_with_nginx_in_both_places() {
    let line = ["depth", "--seconds", "0.1", "--rounds", "1", "--connections", "2"];
    let Some((context, environment)) = with_nginx_in_both_places(&line) else { return };
    let chosen = cases(Suite::Depth);
    let named = |case: &Case| ["cache", "symlinks-404"].contains(&case.name());
    let chosen: Vec<Case> = chosen.into_iter().filter(named).collect();
    let reports = measure(&context, &chosen, |_| ());
    assert_eq!(reports.len(), 2);
    for report in &reports {
        // Cost and rate at each depth, the share of others, and what depth costs.
        assert_eq!(report.rows.len(), 2 * DEPTHS.len() + 1 + 2, "{report:#?}");
        let fault = report.notes.iter().find(|note| note.contains("failed"));
        assert_eq!(fault, None);
        for row in &report.rows {
            assert_eq!((row.tidegate.len(), row.nginx.len(), row.errors), (1, 1, 0), "{row:?}");
        }
        let flat =
            report.rows.iter().find(|row| row.measure.name == "55 directories / 1 directory");
        let flat = flat.expect("the row");
        let costs: Vec<f64> = report.rows.iter().map(|row| row.tidegate[0]).collect();
        // Of no processor time at all there is no share.
        assert_eq!(flat.tidegate[0].to_bits(), (costs[4] / costs[0]).to_bits());
        // Missed or not, only --strict makes it count; so does a run too short for its processor time to be seen.
        assert_eq!(flat.unmet(false), None);
        let counts = flat.verdict() == TargetResult::Missed || is_not_served(&flat.tidegate);
        assert_eq!(flat.unmet(true).is_some(), counts);
    }
    let text = table(&environment, &reports);
    assert!(text.contains("55 directories: requests/s") && text.contains("≤ 1.03"), "{text}");
    assert!(json(&environment, &reports).to_string().contains(r#""case":"symlinks-404""#));
    let page = html(&environment, &reports);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</body></html>\n"));
    assert_eq!(page.matches("<svg").count(), 2);
    assert_eq!(page.matches("<g class=\"line nginx\">").count(), 2);
    for outside in ["src=", "href=", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
}
