//! What the model gives for many servers, delays, and servers that are cut off: the tables of `docs/simulations`.

use std::fmt::Write as _;

use tidegate_plan::testing::check_recorded;

use super::*;

const SKEWS: [Skew; 3] = [Skew::Even, Skew::First, Skew::Moving];
const SEEDS: u64 = 2;

/// The most of several runs that any time has beyond the rate; each is within the bound.
fn worst(run: Run) -> f64 {
    let beyond = |seed| {
        let run = Run { seed, ..run };
        most_beyond(run, &check_bound(run, run.excess()))
    };
    (0..SEEDS).map(beyond).max().unwrap_or(0) as f64 / 1000.0
}

/// Writes a line of a table. Writing to a String cannot fail.
fn push(table: &mut String, at: u64, values: &[f64]) {
    let _ = write!(table, "{at}");
    values.iter().for_each(|value| {
        let _ = write!(table, "\t{value:.1}");
    });
    table.push('\n');
}

#[test]
fn beyond_the_rate_by_servers() {
    let mut table = "\
# Beyond the rate in any time, at most: 500 requests/s, a burst of 2, ten times as many arrive
# servers\t1\t1000\tpowers
# requests\t1\t100000\tpowers
servers\tbound\teven\tnine of ten at one\tmoving
"
    .to_owned();
    for nodes in [1, 2, 3, 5, 10, 30, 100, 300, 1000] {
        let run = Run { nodes, rate: 500, burst: 2, offered: 5000, seconds: 15, ..RUN };
        let found = SKEWS.map(|skew| worst(Run { skew, ..run }));
        push(&mut table, nodes as u64, &[&[run.excess() as f64][..], &found].concat());
    }
    check_recorded("limits-servers.tsv", &table);
}

#[test]
fn beyond_the_rate_by_delay() {
    let mut table = "\
# Beyond the rate in any time, at most: 10 servers, 200 requests/s, a burst of 5, three times as many arrive
# ms to the engine and back\t0\t200\t4
# requests\t0\t600\t6
ms\tbound\teven\tnine of ten at one\tmoving
"
    .to_owned();
    for delay in [1, 10, 25, 50, 100, 150, 200] {
        let delay_time = Duration::from_millis(delay);
        let run = Run { nodes: 10, rate: 200, burst: 5, delay: delay_time, ..RUN };
        let found = SKEWS.map(|skew| worst(Run { skew, seconds: 30, ..run }));
        push(&mut table, delay, &[&[run.excess() as f64][..], &found].concat());
    }
    check_recorded("limits-delay.tsv", &table);
}

#[test]
fn admitted_in_ten_seconds() {
    let mut table = "\
# Admitted in the ten seconds before: 3 servers, 100 requests/s, a burst of 20, six times as many arrive
# seconds\t15\t60\t9
# % of the rate\t94\t106\t6
seconds\tthe rate\teven\tnine of ten at one\tmoving
"
    .to_owned();
    let found = SKEWS.map(|skew| Run { skew, ..RUN }.admitted());
    for at in 15..=RUN.seconds {
        let percent =
            |admitted: &Vec<u64>| between(admitted, at - 10, at) as f64 / RUN.rate as f64 * 10.0;
        let [even, first, moving] = [0, 1, 2].map(|skew| percent(&found[skew]));
        push(&mut table, at, &[100.0, even, first, moving]);
    }
    check_recorded("limits-windows.tsv", &table);
}

#[test]
fn admitted_by_servers_that_are_cut_off() {
    let mut table = "\
# Admitted in each second: 20 servers, 100 requests/s; some are cut off in seconds 10, 11, 20, 21 …
# seconds\t1\t60\t10
# requests\t0\t200\t4
seconds\tthe rate\ta quarter is cut off\thalf\tall
"
    .to_owned();
    let base = Run { nodes: 20, burst: 5, ..RUN };
    let found = [4, 2, 1].map(|cut| Run { cut, ..base }.admitted());
    // The first second has the bursts.
    for at in 2..=base.seconds {
        let [quarter, half, all] = [0, 1, 2].map(|cut| between(&found[cut], at - 1, at) as f64);
        push(&mut table, at, &[base.rate as f64, quarter, half, all]);
    }
    check_recorded("limits-cut-off.tsv", &table);
}
