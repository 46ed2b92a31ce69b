//! The growth suite: what a request costs where a configuration, a zone or a cache is large.
//!
//! One server has a place of each size, each of which is measured for a slice of time in turn, so that other programs
//! affect all sizes alike. Idle connections can only be added: their sizes follow each other in each run.

use std::net::TcpStream;
use std::time::Duration;

use super::quick::{disturbance, new_load, run_checked, warmed};
use super::sizes::{medians, ratio};
use super::{
    Better, CaseReport, Context, Measure, NOT_SERVED, Row, Sample, alternate, idle, slices,
};
use crate::chart::{Axis, Line, lines};
use crate::config::Scenario;
use crate::config::growth::Growing;
use crate::load::{Bound, LossPolicy, Mode, Plan, TestRequest};
use crate::page;
use crate::report::{Environment, write_rows};
use crate::server::{Binary, Server};
use crate::statistics::Limit;

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub name: &'static str,
    pub about: &'static str,
    growing: Growing,
    sizes: Sizes,
    goal: Goal,
}

/// Sizes, smallest first, with the names of their measures.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    all: &'static [u64],
    costs: &'static [&'static str],
    rates: &'static [&'static str],
}

macro_rules! sizes {
    ($($size:literal)*) => {
        Sizes {
            all: &[$($size),*],
            costs: &[$(concat!("CPU per request at ", stringify!($size))),*],
            rates: &[$(concat!("requests/s at ", stringify!($size))),*],
        }
    };
}

/// How the cost may grow from the smallest to the largest size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// By 5 % at most.
    Flat,
    /// By 5 % at most with each power of ten.
    Logarithm,
}

/// The suite's table.
pub(crate) const CASES: [Case; 10] = [
    Case {
        name: "prefixes",
        about: "locations by prefix, the one in the middle requested",
        growing: Growing::Prefixes,
        sizes: LOCATIONS,
        goal: Goal::Logarithm,
    },
    Case {
        name: "names",
        about: "locations by exact name, likewise",
        growing: Growing::Names,
        sizes: LOCATIONS,
        goal: Goal::Logarithm,
    },
    Case {
        name: "patterns",
        about: "locations by regular expression, the last one requested",
        growing: Growing::Patterns,
        sizes: LOCATIONS,
        goal: Goal::Logarithm,
    },
    Case {
        name: "hosts",
        about: "server names by regular expression, the last one requested",
        growing: Growing::Hosts,
        sizes: LOCATIONS,
        goal: Goal::Logarithm,
    },
    Case {
        name: "map",
        about: "entries of a map, the one in the middle looked up",
        growing: Growing::Map,
        sizes: ENTRIES,
        goal: Goal::Flat,
    },
    Case {
        name: "map-patterns",
        about: "regular expressions of a map, the last one matches",
        growing: Growing::MapPatterns,
        sizes: LOCATIONS,
        goal: Goal::Logarithm,
    },
    Case {
        name: "networks",
        about: "networks of a geo, the one in the middle looked up",
        growing: Growing::Networks,
        sizes: ENTRIES,
        goal: Goal::Logarithm,
    },
    Case {
        name: "keys",
        about: "keys of limit_req, each in turn, in front of a small file",
        growing: Growing::Keys,
        sizes: MEMBERS,
        goal: Goal::Logarithm,
    },
    Case {
        name: "objects",
        about: "objects of 100 bytes in a cache, each in turn",
        growing: Growing::Objects,
        sizes: MEMBERS,
        goal: Goal::Logarithm,
    },
    Case {
        name: "connections",
        about: "idle connections beside those that send requests",
        growing: Growing::Connections,
        sizes: IDLE,
        goal: Goal::Flat,
    },
];

const LOCATIONS: Sizes = sizes!(1 10 100 1000);
const ENTRIES: Sizes = sizes!(1 100 10000 100000);
const MEMBERS: Sizes = sizes!(1 1000 100000 1000000);
const IDLE: Sizes = sizes!(0 1000 10000 100000);

impl Goal {
    fn limit(self, sizes: &[u64]) -> Limit {
        let powers = match (self, sizes) {
            (Goal::Logarithm, [first, .., last]) => (*last as f64 / (*first).max(1) as f64).log10(),
            _ => 1.0,
        };
        Limit::MedianAtMost(1.0 + STEP * powers)
    }
}

impl Case {
    /// Measures both sides.
    pub(crate) fn measure(&self, context: &Context) -> CaseReport {
        let mut report =
            alternate(context, self.name, &self.measures(), |binary, _| match self.growing {
                Growing::Connections => self.run_beside_idle(context, binary),
                _ => self.run(context, binary),
            });
        report.notes.extend(disturbance(&report));
        let growth = self.growth(&report.rows);
        report.rows.extend(growth);
        report
    }

    fn measures(&self) -> Vec<Measure> {
        let names = self.sizes.costs.iter().zip(self.sizes.rates);
        let figures = names.flat_map(|(cost, rate)| {
            [Measure::new(cost, "µs", 2), Measure::new(rate, "", 0).better(Better::Higher)]
        });
        let others = Measure::new(super::quick::OTHERS, "%", 0).better(Better::Neither);
        figures.chain([others]).collect()
    }

    /// One run: a fresh server, its zones and caches filled, all sizes in turn.
    fn run(&self, context: &Context, binary: &Binary) -> Result<Sample, String> {
        let server = self.server(context, binary, WORKER_CONNECTIONS)?;
        let mut loads = Vec::with_capacity(self.sizes.all.len());
        for size in self.sizes.all {
            self.fill(context, &server, *size)?;
            loads.push(warmed(self.plan(context, &server, *size, self.growing.asks(*size)))?);
        }
        let sliced = slices::measure(context, &server, &mut loads)?;
        let mut values = sliced.figures.concat();
        values.push(sliced.others);
        Ok(Sample { values, ..sliced.sample })
    }

    /// The same with idle connections, more of them for each size, as far as descriptors are allowed.
    fn run_beside_idle(&self, context: &Context, binary: &Binary) -> Result<Sample, String> {
        let most = self.sizes.all.last().copied().unwrap_or_default();
        let wanted = most + WORKER_CONNECTIONS;
        let allowed = crate::machine::raise_descriptor_limit(wanted).min(wanted);
        let server = self.server(context, binary, allowed)?;
        let mut loads = [warmed(self.plan(context, &server, 0, self.growing.asks(0)))?];
        let mut held: Vec<TcpStream> = Vec::new();
        let (mut sample, mut others) = (Sample::default(), 0.0);
        for size in self.sizes.all {
            if size + IDLE_SPARE > allowed {
                sample.values.extend([NOT_SERVED; 2]);
                let note = format!("{size} connections: only {allowed} descriptors are allowed");
                sample.note.get_or_insert(note);
                continue;
            }
            for number in held.len()..*size as usize {
                let opened = idle::open(server.address(), &idle::FIXED, number);
                held.push(opened.map_err(|error| format!("connection {number}: {error}"))?);
            }
            let sliced = slices::measure(context, &server, &mut loads)?;
            sample.values.extend(sliced.figures.concat());
            sample.errors += sliced.sample.errors;
            sample.note = sample.note.or(sliced.sample.note);
            others = sliced.others.max(others);
        }
        sample.values.push(others);
        Ok(sample)
    }

    fn server(
        &self,
        context: &Context,
        binary: &Binary,
        connections: u64,
    ) -> Result<Server, String> {
        Server::start(
            binary,
            context.job(Scenario::Growth(self.growing, self.sizes.all), connections),
        )
    }

    /// Requests all keys or objects. Some connections are ahead of others, so it asks for a little more.
    fn fill(&self, context: &Context, server: &Server, size: u64) -> Result<(), String> {
        let mut members = self.growing.members(size);
        loop {
            let asks: Vec<TestRequest> = members.by_ref().take(FILLED_AT_ONCE).collect();
            if asks.is_empty() {
                return Ok(());
            }
            let requests_max = asks.len() as u64 * 5 / 4;
            let mut load = new_load(self.plan(context, server, size, asks))?;
            run_checked(&mut load, Bound { duration: FILL_MAX, requests_max })?;
        }
    }

    fn plan(&self, context: &Context, server: &Server, size: u64, asks: Vec<TestRequest>) -> Plan {
        Plan {
            address: self.growing.address(server.address(), size),
            asks,
            connections: context.options.connections,
            mode: Mode::KeepAlive,
            loss_policy: LossPolicy::Count,
        }
    }

    /// The cost at the largest size that was served, divided by that at the smallest, run by run.
    fn growth(&self, rows: &[Row]) -> Option<Row> {
        let find = |name: &&str| rows.iter().find(|row| row.measure.name == *name);
        let is_served = |row: &&Row| row.tidegate.iter().all(|cost| cost.is_finite());
        let small = self.sizes.costs.first().and_then(find)?;
        let large = self.sizes.costs.iter().rev().filter_map(find).find(is_served)?;
        let measure = Measure::new("CPU at the largest / the smallest", "", 3);
        Some(ratio(measure.required(self.goal.limit(self.sizes.all)), large, small))
    }

    /// Median cost at each size, for each server, over the powers of ten.
    fn drawn(&self, report: &CaseReport) -> Vec<Line> {
        let sizes = self.sizes.all.iter().map(|size| (*size).max(1) as f64);
        let places = self.sizes.costs.iter().copied().zip(sizes.map(f64::log10));
        medians(&report.rows, &places.collect::<Vec<_>>())
    }
}

/// The suite as a page: cost against size, and all figures.
pub(crate) fn html(environment: &Environment, reports: &[CaseReport]) -> String {
    let mut page = page::begin("The cost of growth", environment);
    page.push_str(LEGEND);
    page.push_str("<div class=\"charts\">");
    for report in reports {
        let case = CASES.iter().find(|case| report.rows.iter().any(|row| row.case == case.name));
        let Some(case) = case else { continue };
        let drawn = case.drawn(report);
        let largest = |of: fn(&(f64, f64)) -> f64| {
            drawn.iter().flat_map(|line| &line.points).map(of).fold(1.0, f64::max)
        };
        let x = Axis::new(largest(|point| point.0).ceil(), "powers of ten", 1);
        let y = Axis::new(largest(|point| point.1).ceil(), "µs", 1);
        let title = format!("{}: {}", case.name, case.about);
        page::write_figure(&mut page, "", &title, &lines(&title, [x, y], &drawn));
    }
    page.push_str("</div>");
    write_rows(&mut page, environment, reports);
    page.push_str(page::END);
    page
}

/// The growth of a cost that a goal allows for each power of ten.
const STEP: f64 = 0.05;
const WORKER_CONNECTIONS: u64 = 4_096;
/// Descriptors beside idle connections, on either side.
const IDLE_SPARE: u64 = 2_000;
/// Members that are requested by one load.
const FILLED_AT_ONCE: usize = 100_000;
/// Far more than these take.
const FILL_MAX: Duration = Duration::from_secs(120);
const LEGEND: &str = "<p>A closed loop of keepalive connections asks one server with one worker for places of several \
sizes, in turn, both servers alternately. Shown: median processor time per request against the number of locations, \
entries, keys, objects or idle connections, as a power of ten.</p>";
