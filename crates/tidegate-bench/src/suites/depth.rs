//! The depth suite: the cost of directories on the path of a small file, as in a published comparison.
//!
//! One server serves all depths, each for a slice of time, so that other programs affect all depths alike.

use std::time::Duration;

use super::quick::{disturbance, warmed};
use super::sizes::{medians, ratio};
use super::slices;
use super::{Better, CaseReport, Context, Measure, Row, Sample, alternate};
use crate::chart::{Axis, Line, lines};
use crate::config::{Lookup, SMALL_FILE, Scenario, directories};
use crate::load::{LossPolicy, Mode, Plan, TestRequest};
use crate::page;
use crate::probe;
use crate::report::{Environment, write_rows};
use crate::server::{Binary, Server};
use crate::statistics::Limit;

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub name: &'static str,
    pub about: &'static str,
    lookup: Lookup,
    hit: bool,
    /// Largest acceptable ratio Tidegate/nginx, for each of [`DEPTHS`].
    targets: [Option<f64>; DEPTHS.len()],
}

/// Directories on the path of the file.
pub(crate) const DEPTHS: [usize; 4] = [1, 12, 55, 120];

/// The suite's table.
pub(crate) const CASES: [Case; 6] = [
    Case {
        name: "plain",
        about: "a file of 452 bytes, 1, 12, 55 and 120 directories deep",
        lookup: Lookup::Plain,
        hit: true,
        targets: [Some(0.52), None, None, None],
    },
    Case {
        name: "plain-404",
        about: "a name that does not exist there",
        lookup: Lookup::Plain,
        hit: false,
        targets: [None, None, Some(0.75), None],
    },
    Case {
        name: "symlinks",
        about: "the file, with disable_symlinks on",
        lookup: Lookup::NoSymlinks,
        hit: true,
        targets: [None; 4],
    },
    Case {
        name: "symlinks-404",
        about: "the name that does not exist, with disable_symlinks on",
        lookup: Lookup::NoSymlinks,
        hit: false,
        targets: [None, None, Some(0.75), None],
    },
    Case {
        name: "cache",
        about: "the file, with open_file_cache",
        lookup: Lookup::OpenFileCache,
        hit: true,
        targets: [Some(0.68), None, None, None],
    },
    Case {
        name: "cache-404",
        about: "the name that does not exist, with open_file_cache and open_file_cache_errors",
        lookup: Lookup::OpenFileCache,
        hit: false,
        targets: [None, None, Some(0.75), None],
    },
];

impl Case {
    /// Measures both sides.
    pub(crate) fn measure(&self, context: &Context) -> CaseReport {
        let measures = self.measures();
        let mut report =
            alternate(context, self.name, &measures, |binary, _| self.run(context, binary));
        report.notes.extend(disturbance(&report));
        let flat: Vec<Row> = FLAT.iter().filter_map(|flat| flat.row(&report.rows)).collect();
        report.rows.extend(flat);
        report
    }

    fn measures(&self) -> Vec<Measure> {
        let depths = NAMES.iter().zip(self.targets);
        let mut measures: Vec<Measure> = depths
            .flat_map(|([cost, rate], target)| {
                let cost = Measure { target, ..Measure::new(cost, "µs", 2) };
                [cost, Measure::new(rate, "", 0).better(Better::Higher)]
            })
            .collect();
        let others = Measure::new(super::quick::OTHERS, "%", 0);
        measures.push(others.better(Better::Neither));
        measures
    }

    fn run(&self, context: &Context, binary: &Binary) -> Result<Sample, String> {
        let job = context.job(Scenario::Depth(self.lookup), 1024);
        let server = Server::start(binary, job)?;
        let mut depths = Vec::with_capacity(DEPTHS.len());
        for depth in DEPTHS {
            let plan = Plan {
                address: server.address(),
                asks: vec![self.ask(&server, depth)?],
                connections: context.options.connections,
                mode: Mode::KeepAlive,
                loss_policy: LossPolicy::Count,
            };
            depths.push(warmed(plan)?);
        }
        let sliced = slices::measure(context, &server, &mut depths)?;
        let mut values = sliced.figures.concat();
        values.push(sliced.others);
        Ok(Sample { values, ..sliced.sample })
    }

    /// The request at a depth. Error pages differ in length between servers: one is requested first.
    fn ask(&self, server: &Server, depth: usize) -> Result<TestRequest, String> {
        let name = if self.hit { SMALL_FILE.0 } else { "none.html" };
        let status = if self.hit { 200 } else { 404 };
        let target = format!("{}/{name}", directories(depth));
        let response = probe::ask(server.address(), &target, PATIENCE);
        let response = response.map_err(|error| format!("{depth} directories: {error:?}"))?;
        let body_bytes = response.body.len() as u64;
        if response.status != status || (self.hit && body_bytes != SMALL_FILE.1) {
            let status = response.status;
            return Err(format!("{depth} directories: status {status}, {body_bytes} body bytes"));
        }
        Ok(TestRequest { status, ..TestRequest::counted(target, body_bytes) })
    }
}

/// Returns the cost of depth: one depth's cost divided by that of one directory.
struct Flat {
    name: &'static str,
    depth: usize,
    required: Option<Limit>,
}

const FLAT: [Flat; 2] = [
    Flat {
        name: "55 directories / 1 directory",
        depth: 2,
        required: Some(Limit::MedianAtMost(1.03)),
    },
    Flat { name: "120 directories / 1 directory", depth: 3, required: None },
];

impl Flat {
    fn row(&self, rows: &[Row]) -> Option<Row> {
        let find = |name: &str| rows.iter().find(|row| row.measure.name == name);
        let [shallow, deep] = [find(NAMES[0][0])?, find(NAMES[self.depth][0])?];
        let measure = Measure::new(self.name, "", 3);
        Some(ratio(Measure { required: self.required, ..measure }, deep, shallow))
    }
}

/// The suite as a page: requests per second against depth, and all figures.
pub(crate) fn html(environment: &Environment, reports: &[CaseReport]) -> String {
    let mut page = page::begin("Files at any depth", environment);
    page.push_str(LEGEND);
    page.push_str("<div class=\"charts\">");
    let end = reports.iter().flat_map(rates).flat_map(|line| line.points);
    let end = end.map(|(_, rate)| rate).fold(1e-3, f64::max);
    let x = Axis::new(DEPTHS[DEPTHS.len() - 1] as f64, "directories", 0);
    let y = Axis::new(end, "1000 requests/s", 0);
    for report in reports {
        let case = CASES.iter().find(|case| report.rows.iter().any(|row| row.case == case.name));
        let Some(case) = case else { continue };
        let title = format!("{}: {}", case.name, case.about);
        let drawn = lines(&title, [x, y], &rates(report));
        page::write_figure(&mut page, "", &title, &drawn);
    }
    page.push_str("</div>");
    write_rows(&mut page, environment, reports);
    page.push_str(page::END);
    page
}

/// Median thousands of requests per second at each depth, for each server.
fn rates(report: &CaseReport) -> Vec<Line> {
    let names = NAMES.iter().zip(DEPTHS);
    let places: Vec<_> = names.map(|([_, rate], depth)| (*rate, depth as f64)).collect();
    let mut drawn = medians(&report.rows, &places);
    drawn.iter_mut().flat_map(|line| &mut line.points).for_each(|(_, rate)| *rate /= 1e3);
    drawn
}

/// CPU and rate at each of [`DEPTHS`].
const NAMES: [[&str; 2]; DEPTHS.len()] = [
    ["1 directory: CPU per request", "1 directory: requests/s"],
    ["12 directories: CPU per request", "12 directories: requests/s"],
    ["55 directories: CPU per request", "55 directories: requests/s"],
    ["120 directories: CPU per request", "120 directories: requests/s"],
];
const PATIENCE: Duration = Duration::from_secs(5);
const LEGEND: &str = "<p>A closed loop of keepalive connections asks one server with one worker for one file \
after another: the file of 452 bytes below this number of directories, or a name beside it that does not exist. Each \
depth is measured on the same running server, both servers alternately. Shown: median requests per second \
against the number of directories.</p>";
