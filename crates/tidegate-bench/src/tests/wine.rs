//! The table of the three ways.

use crate::wine::{Rates, WAYS};

fn rates(own_deep: f64, long_deep: f64) -> Rates {
    let mut rates = Rates::default();
    for way in &mut rates.0 {
        for kind in way {
            kind.iter_mut().for_each(|depth| depth.extend([1000.0, 1010.0, 990.0]));
        }
    }
    rates.0[WAYS.len() - 1][0][2] = vec![own_deep; 3];
    rates.0[0][0][2] = vec![long_deep; 3];
    rates
}

#[test]
fn goals_are_about_55_directories() {
    #[track_caller]
    fn check(own_deep: f64, long_deep: f64, expected: &[&str]) {
        assert_eq!(rates(own_deep, long_deep).unmet(), expected);
    }
    check(960.0, 100.0, &[]);
    check(900.0, 100.0, &["Tidegate, 55 directories / 1 directory is 0.90, must be ≥ 0.95"]);
    let slow = "55 directories, Tidegate / long name of the whole path is 4.80, must be ≥ 5";
    check(960.0, 200.0, &[slow]);
}

#[test]
fn every_way_has_its_lines() {
    let heading = [("runs", "some".to_owned())];
    let text = rates(960.0, 100.0).text(&heading);
    assert!(text.starts_with("runs       some\n"), "{text}");
    for way in WAYS {
        assert_eq!(text.lines().filter(|line| line.starts_with(way.name)).count(), 2, "{text}");
    }
    assert!(
        text.contains("1000 (990–1010)") && text.contains("0.96 (0.95–0.97), goal ≥ 0.95"),
        "{text}"
    );
    let json = rates(960.0, 100.0).json(&heading).to_string();
    assert_eq!(json.matches("requests_per_second").count(), 24);
}
