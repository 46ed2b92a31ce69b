//! Advice for the machine on which the rows were measured: the effect of each setting, and settings that can be
//! omitted.

use super::super::CaseReport;
use super::figures::{find, gains, median};
use super::{CASES, RATE, Section};
use crate::statistics::Spread;

/// A row whose step is reported, and the part of it that Tidegate has by default.
struct Knob {
    row: &'static str,
    what: &'static str,
    already: &'static str,
}

const fn knob(row: &'static str, what: &'static str, already: &'static str) -> Knob {
    Knob { row, what, already }
}

#[rustfmt::skip]
const KNOBS: [Knob; 11] = [
    knob("workers-2", "worker_processes 2", "one thread by default, as with nginx: auto is for a proxy that may have all processors"),
    knob("workers-3", "worker_processes 3 after 2", ""),
    knob("affinity", "worker_cpu_affinity auto", ""),
    knob("connections", "worker_connections 4096", "the number matters when it is reached, and each client of a proxy may need two"),
    knob("accept-mutex", "accept_mutex on", "a thread releases the mutex after each connection"),
    knob("multi-accept", "multi_accept on", ""),
    knob("upstream", "an upstream block", ""),
    knob("keepalive", "keepalive 32 in the upstream block", "512 idle connections are kept for each thread by default, with and without a block"),
    knob("second", "a second backend", ""),
    knob("deferred", "listen … deferred", "it is for clients that connect and wait"),
    knob("reuseport", "listen … reuseport", ""),
];

/// The advice, a line each.
pub(crate) fn advice(reports: &[CaseReport]) -> Vec<String> {
    let noise = noise(reports);
    let mut lines = Vec::new();
    lines.extend(defaults(reports));
    if noise > NOISE_MAX {
        lines.push(format!(
            "rounds of the same row differ by {noise:.0} %: the effect of the settings cannot be measured; repeat \
             when the machine is quiet"
        ));
        return lines;
    }
    let mut worth = Vec::new();
    for knob in &KNOBS {
        let Some([ours, theirs]) = steps(reports, knob.row) else { continue };
        if ours > noise {
            worth.push(knob.what);
        }
        let describe = |name: &str, step: f64| match step {
            step if step.is_nan() => format!("{name} was not measured"),
            step if step > noise => format!("{name} {step:+.0} %"),
            step if step < -noise => format!("{name} {step:+.0} %: better without"),
            step => format!("{name} nothing ({step:+.0} %)"),
        };
        let already = match knob.already {
            "" => String::new(),
            already => format!(" ({already})"),
        };
        let (theirs, ours) = (describe("nginx", theirs), describe("Tidegate", ours));
        lines.push(format!("{}: {theirs}, {ours}{already}", knob.what));
    }
    if !lines.is_empty() {
        lines.push(match worth.is_empty() {
            true => "for Tidegate nothing of this is worth writing on this machine".to_owned(),
            false => format!("for Tidegate worth writing on this machine: {}", worth.join(", ")),
        });
        lines
            .push(format!("steps below {noise:.0} % are taken for nothing: rounds differ as much"));
    }
    lines
}

/// Compares Tidegate's default with the best row of nginx.
fn defaults(reports: &[CaseReport]) -> Option<String> {
    let rate = |case: &str| find(reports, case, RATE);
    let ours = median(&rate("default")?.tidegate);
    let proxied =
        CASES.iter().filter(|case| case.section == Section::Proxy && case.name != "direct");
    let theirs = proxied.filter_map(|case| Some((case.name, median(&rate(case.name)?.nginx))));
    let (name, best) =
        theirs.filter(|(_, rate)| rate.is_finite()).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let percent = ours / best * 100.0;
    Some(format!(
        "Tidegate's default: {ours:.0} requests/s; nginx's best row, {name}: {best:.0}; that is {percent:.0} %"
    ))
}

/// Returns the effect of a row's setting for each side, in percent of the row without it.
fn steps(reports: &[CaseReport], row: &str) -> Option<[f64; 2]> {
    let base = CASES.iter().find(|case| case.name == row)?.base?;
    let (row, base) = (find(reports, row, RATE)?, find(reports, base, RATE)?);
    Some([median(&gains(&row.tidegate, &base.tidegate)), median(&gains(&row.nginx, &base.nginx))])
}

/// Returns the spread of rounds of the same row, in percent of their median: the larger of both sides' default.
fn noise(reports: &[CaseReport]) -> f64 {
    let default = find(reports, "default", RATE);
    let sides = default.into_iter().flat_map(|row| [&row.tidegate, &row.nginx]);
    let apart = sides.filter_map(|side| {
        let Spread { median, minimum, maximum } = Spread::of(side)?;
        Some((maximum - minimum) / median * 100.0)
    });
    apart.fold(NOISE_MIN, f64::max)
}

/// Above it, other programs cause the steps.
const NOISE_MAX: f64 = 25.0;
/// One round says nothing about the noise.
const NOISE_MIN: f64 = 5.0;
