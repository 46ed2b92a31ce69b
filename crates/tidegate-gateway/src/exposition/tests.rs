//! Lines of both formats.

use proptest::prelude::*;
use tidegate_core::figures::{BUCKETS, Exemplar};

use super::{Exposition, Format, Number, Type, seconds};

fn written(format: Format, write: impl FnOnce(&mut Exposition)) -> String {
    let mut out = Exposition::new(format);
    write(&mut out);
    String::from_utf8(out.finish()).unwrap()
}

#[test]
fn families_have_the_names_of_their_format() {
    for (name, kind, plain, open) in [
        (
            "a_seconds_total",
            Type::Counter,
            "# HELP a_seconds_total Help.\n# TYPE a_seconds_total counter\n",
            "# HELP a_seconds Help.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n",
        ),
        (
            "a_total",
            Type::NamedCounter,
            "# HELP a_total Help.\n# TYPE a_total counter\n",
            "# HELP a_total Help.\n# TYPE a_total unknown\n",
        ),
        (
            "kilobytes",
            Type::Gauge,
            "# HELP kilobytes Help.\n# TYPE kilobytes gauge\n",
            "# HELP kilobytes Help.\n# TYPE kilobytes gauge\n",
        ),
    ] {
        let write = |out: &mut Exposition| out.family(name, kind, "Help.").line(&[], 1);
        assert_eq!(written(Format::Prometheus, write), format!("{plain}{name} 1\n"));
        assert_eq!(written(Format::OpenMetrics, write), format!("{open}{name} 1\n# EOF\n"));
    }
}

#[test]
fn histograms_have_canonical_bounds_and_exemplars() {
    let mut counts = [0; BUCKETS];
    (counts[1], counts[9]) = (2, 1);
    let mut exemplars = [None; BUCKETS];
    exemplars[1] =
        Some(Exemplar { trace: [0xab; 16], micros: 7_500, unix_millis: 1_700_000_000_042 });
    let write = |out: &mut Exposition| {
        let mut family = out.family("t_seconds", Type::Histogram, "Help.");
        family.times(&[("zone", "a\"b\\c\nd")], &counts, 1_015_000, Some(&exemplars));
        family.buckets(&[], &[50, 125, 2_000_000], &[1, 0, 0, 1], 3_000_050);
    };
    let open = written(Format::OpenMetrics, write);
    for line in [
        "t_seconds_bucket{zone=\"a\\\"b\\\\c\\nd\",le=\"0.005\"} 0",
        "t_seconds_bucket{zone=\"a\\\"b\\\\c\\nd\",le=\"0.01\"} 2 # \
         {trace_id=\"abababababababababababababababab\"} 0.0075 1700000000.042",
        "t_seconds_bucket{zone=\"a\\\"b\\\\c\\nd\",le=\"1.0\"} 3",
        "t_seconds_sum{zone=\"a\\\"b\\\\c\\nd\"} 1.015",
        "t_seconds_count{zone=\"a\\\"b\\\\c\\nd\"} 3",
        "t_seconds_bucket{le=\"5e-05\"} 1",
        "t_seconds_bucket{le=\"0.000125\"} 1",
        "t_seconds_bucket{le=\"2.0\"} 1",
        "t_seconds_bucket{le=\"+Inf\"} 2",
    ] {
        assert!(open.lines().any(|found| found == line), "{line} is not in\n{open}");
    }
    let plain = written(Format::Prometheus, write);
    assert!(plain.contains("le=\"1\"} 3\n") && plain.contains("le=\"0.00005\"} 1\n"), "{plain}");
    assert!(!plain.contains("trace_id") && !plain.contains("EOF"), "{plain}");
}

proptest! {
    /// Bounds below a tenth of a millisecond are numbers of one text, whatever their digits.
    #[test]
    fn bounds_keep_their_value(micros in 1_u64..20_000_000) {
        let text = written(Format::OpenMetrics, |out| {
            out.family("t", Type::Histogram, "Help.").buckets(&[], &[micros], &[0, 0], 0);
        });
        let bound = text.split("le=\"").nth(1).and_then(|rest| rest.split('"').next());
        let value: f64 = bound.unwrap_or_default().parse().map_err(|_| TestCaseError::fail(text.clone()))?;
        prop_assert!((value - micros as f64 / 1e6).abs() < 1e-9);
        let mut text = Vec::new();
        seconds(micros).write(&mut text);
        let text = String::from_utf8_lossy(&text);
        prop_assert_eq!(text.parse::<f64>().ok(), Some(micros as f64 / 1e6));
        prop_assert!(!text.contains('.') || !text.ends_with('0'), "{}", text);
    }
}
