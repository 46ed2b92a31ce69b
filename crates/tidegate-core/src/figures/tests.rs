//! Sums over threads, resets, histogram, groups.

use std::sync::Arc;
use std::time::Duration;

use super::{
    BOUNDS_MILLIS, BUCKETS, CODES, Figures, Kind, Sample, Tally, TimeCounts, Totals, Zone,
};

fn sample(status: u16, micros: u64) -> Sample {
    Sample::new(Some(status), 10, 100, Duration::from_micros(micros))
}

#[test]
fn sums_are_exact_over_threads_that_end() {
    let zone = Figures::default().zone(Kind::Server, "a");
    for _ in 0..5 {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || {
                    for _ in 0..1000 {
                        let processing = zone.begin();
                        zone.count(&sample(200, 1));
                        drop(processing);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    let totals = zone.totals();
    assert_eq!((totals.requests(), totals.processing), (20_000, 0));
    assert_eq!((totals.received, totals.sent, totals.micros), (200_000, 2_000_000, 20_000));
    let blocks = zone.blocks.all().count();
    assert!(blocks < 20, "threads that ended leave their blocks to others: {blocks}");
}

#[test]
fn readers_see_requests_in_progress() {
    let zone = Figures::default().zone(Kind::Server, "a");
    let first = zone.begin();
    let second = zone.begin();
    assert_eq!((zone.totals().processing, zone.totals().requests()), (2, 2));
    drop(first);
    zone.count(&sample(404, 1));
    zone.reset();
    assert_eq!(zone.totals(), Totals { processing: 1, ..Totals::default() }, "one is in progress");
    drop(second);
    zone.count(&sample(200, 3000));
    let totals = zone.totals();
    assert_eq!((totals.requests(), totals.micros, totals.times[0]), (1, 3000, 1));
}

#[test]
fn statuses_have_classes() {
    let zone = Figures::default().zone(Kind::Server, "a");
    for status in [100, 200, 200, 299, 404, 499, 599, 0, 999] {
        zone.count(&sample(status, 0));
    }
    zone.count(&Sample::new(None, 0, 0, Duration::ZERO));
    let totals = zone.totals();
    assert_eq!(totals.classes(), [1, 3, 0, 2, 3], "what is no status counts as the last one");
    assert_eq!((totals.responses(), totals.discarded()), (9, 1));
    let codes: Vec<_> = totals.codes().collect();
    assert_eq!(codes, [(100, 1), (200, 2), (404, 1), (499, 1)]);
    assert!(CODES.is_sorted());
}

#[test]
fn times_are_in_the_bucket_that_bounds_them() {
    for (micros, place) in [
        (0, 0),
        (5000, 0),
        (5001, 1),
        (10_000, 1),
        (1_000_000, 9),
        (1_000_001, 10),
        (10_000_000, 13),
        (10_000_001, 14),
        (u64::MAX / 2, BUCKETS - 1),
    ] {
        assert_eq!(usize::from(sample(200, micros).bucket), place, "{micros}");
    }
    assert!(BOUNDS_MILLIS.is_sorted());
}

#[test]
fn a_group_has_a_limit() {
    let figures = Arc::new(Figures::default());
    let group = figures.group(Kind::Location, "rest", b"$a", 2);
    assert!(group.zone(b"").is_none(), "no value, no count");
    for value in [&b"a"[..], b"b", b"c", b"d", b"a", &[b'x'; 300]] {
        group.zone(value).unwrap().count(&sample(200, 1));
    }
    let count = |name: &str| figures.zone(Kind::Location, name).totals().requests();
    assert_eq!(["a", "b", "c", "rest"].map(count), [2, 1, 0, 3]);
    let mut names: Vec<_> = group.shown().into_iter().map(|(name, _)| name).collect();
    names.sort();
    assert_eq!(names, ["a", "b", "rest"]);
    let again = figures.group(Kind::Location, "rest", b"$a", 2);
    assert!(Arc::ptr_eq(&group, &again), "a reload keeps it");
    let other = figures.group(Kind::Location, "rest", b"$b", 2);
    assert_eq!(other.shown().len(), 1, "values of another variable are others");
}

/// A million values have as many zones as the group may have; the rest is counted together, and nothing is lost.
#[test]
fn a_million_values_have_the_zones_of_the_limit() {
    let figures = Arc::new(Figures::default());
    let group = figures.group(Kind::Location, "rest", b"$a", 100);
    for value in 0..1_000_000_u32 {
        group.zone(&value.to_string().into_bytes()).unwrap().count(&sample(200, 1));
    }
    let shown = group.shown();
    let requests = |zone: &Zone| zone.totals().requests();
    assert_eq!(shown.len(), 101);
    assert_eq!(shown.iter().map(|(_, zone)| requests(zone)).sum::<u64>(), 1_000_000);
    assert_eq!(requests(figures.zone(Kind::Location, "rest")), 999_900);
}

#[test]
fn tallies_count_and_start_again() {
    let tally = Tally::new(2);
    tally.count(1);
    tally.count(7);
    assert_eq!(tally.totals(), [0, 1]);
    tally.reset();
    tally.count(0);
    assert_eq!(tally.totals(), [1, 0]);
}

#[test]
fn sessions_that_went_on_elsewhere_and_rare_statuses_are_counted_apart() {
    let zone = Zone::forever();
    zone.count(&Sample::new(None, 5, 0, Duration::ZERO).passed());
    zone.count(&Sample::new(Some(299), 0, 0, Duration::ZERO));
    let totals = zone.totals();
    assert_eq!((totals.passed(), totals.discarded(), totals.requests()), (1, 0, 2));
    assert_eq!(totals.other_codes().collect::<Vec<_>>(), [0, 1, 0, 0, 0]);
    assert_eq!(totals.classes(), [0, 1, 0, 0, 0]);
}

#[test]
fn times_are_counted_by_their_bounds() {
    let times = TimeCounts::default();
    for millis in [0, 5, 6, 20_000] {
        times.count(Duration::from_millis(millis));
    }
    let (counts, micros) = times.totals();
    assert_eq!((counts[0], counts[1], counts[BUCKETS - 1]), (2, 1, 1));
    assert_eq!((counts.iter().sum::<u64>(), micros), (4, 20_011_000));
    times.reset();
    assert_eq!(times.totals(), ([0; BUCKETS], 0));
}
