//! The parts of a suite: cases, alternating runs of two sides, rows of figures.

use std::net::SocketAddr;

use crate::config::Scenario;
use crate::machine::{Place, Processors};
use crate::options::{Options, Suite};
use crate::origin::Origin;
use crate::server::{Binary, Job};
use crate::statistics::{Limit, Spread, TargetResult};
use beside::Beside;

pub(crate) mod beside;
pub(crate) mod blocking;
pub(crate) mod depth;
pub(crate) mod fairness;
pub(crate) mod growth;
mod idle;
pub(crate) mod protocols;
pub(crate) mod quick;
mod sizes;
mod slices;
pub(crate) mod steady;
pub(crate) mod streaming;
mod tails;
pub(crate) mod tuning;

/// One case of any suite.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Case {
    Quick(quick::Case),
    Steady(steady::Case),
    Depth(depth::Case),
    Blocking(blocking::Case),
    Tuning(tuning::Case),
    Fairness(fairness::Case),
    Growth(growth::Case),
    Protocols(protocols::Case),
}

/// The cases of a suite, in their order.
pub(crate) fn cases(suite: Suite) -> Vec<Case> {
    match suite {
        Suite::Quick => quick::CASES.into_iter().map(Case::Quick).collect(),
        Suite::Steady => steady::CASES.into_iter().map(Case::Steady).collect(),
        Suite::Blocking => blocking::CASES.into_iter().map(Case::Blocking).collect(),
        Suite::Depth => depth::CASES.into_iter().map(Case::Depth).collect(),
        Suite::Fairness => fairness::CASES.into_iter().map(Case::Fairness).collect(),
        Suite::Growth => growth::CASES.into_iter().map(Case::Growth).collect(),
        Suite::Protocols => protocols::CASES.into_iter().map(Case::Protocols).collect(),
        Suite::Tuning => tuning::CASES.into_iter().map(Case::Tuning).collect(),
        // Its tables are others: `crate::study`.
        Suite::Streaming => Vec::new(),
    }
}

impl Case {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Case::Quick(case) => case.name,
            Case::Steady(case) => case.name,
            Case::Depth(case) => case.name,
            Case::Blocking(case) => case.name,
            Case::Tuning(case) => case.name,
            Case::Fairness(case) => case.name,
            Case::Growth(case) => case.name,
            Case::Protocols(case) => case.name,
        }
    }

    /// A description of the case and, if it has one, its target.
    pub(crate) fn about(&self) -> String {
        match self {
            Case::Quick(quick::Case { about, target: Some(target), .. })
            | Case::Protocols(protocols::Case { about, target: Some(target), .. }) => {
                format!("{about} (target ≤ {target:.2})")
            }
            Case::Quick(quick::Case { about, .. })
            | Case::Steady(steady::Case { about, .. })
            | Case::Depth(depth::Case { about, .. })
            | Case::Blocking(blocking::Case { about, .. })
            | Case::Tuning(tuning::Case { about, .. })
            | Case::Fairness(fairness::Case { about, .. })
            | Case::Growth(growth::Case { about, .. })
            | Case::Protocols(protocols::Case { about, .. }) => (*about).to_owned(),
        }
    }
}

/// Measures both sides in all cases of a suite, and calls `ended` behind each one that is measured by itself.
pub(crate) fn measure(
    context: &Context,
    cases: &[Case],
    ended: impl Fn(&CaseReport),
) -> Vec<CaseReport> {
    let knobs = knobs(cases);
    let alone = cases.iter().filter_map(|case| case.alone(context));
    let mut reports: Vec<CaseReport> = alone.inspect(ended).collect();
    if !knobs.is_empty() {
        reports.extend(tuning::measure(context, &knobs));
    }
    reports
}

/// Returns the chosen cases, with those that their figures are compared with.
pub(crate) fn with_bases(cases: Vec<Case>) -> Vec<Case> {
    match knobs(&cases) {
        knobs if knobs.is_empty() => cases,
        knobs => tuning::with_bases(&knobs).into_iter().map(Case::Tuning).collect(),
    }
}

fn knobs(cases: &[Case]) -> Vec<tuning::Case> {
    let knobs = cases.iter().filter_map(|case| match case {
        Case::Tuning(case) => Some(*case),
        _ => None,
    });
    knobs.collect()
}

impl Case {
    /// Measures both sides; `None` for a case that is measured with others only.
    fn alone(&self, context: &Context) -> Option<CaseReport> {
        match self {
            Case::Quick(case) => Some(case.measure(context)),
            Case::Steady(case) => Some(case.measure(context)),
            Case::Depth(case) => Some(case.measure(context)),
            Case::Blocking(case) => Some(case.measure(context)),
            Case::Fairness(case) => Some(case.measure(context)),
            Case::Growth(case) => Some(case.measure(context)),
            Case::Protocols(case) => Some(case.measure(context)),
            Case::Tuning(_) => None,
        }
    }
}

/// The common context of all cases.
pub(crate) struct Context {
    pub options: Options,
    pub processors: Processors,
    pub origin: Origin,
    pub tidegate: Binary,
    /// `None`: nginx is not installed.
    pub nginx: Option<Binary>,
    /// Other servers that are installed and belong to the suite.
    pub others: Vec<Binary>,
}

impl Context {
    /// The purpose of a server of the current suite.
    pub(crate) fn job(&self, scenario: Scenario, worker_connections: u64) -> Job {
        // The watchdog reads clocks: on where processor time per request is not the figure.
        let is_watched =
            matches!(self.options.suite, Suite::Steady | Suite::Streaming | Suite::Fairness);
        Job {
            scenario,
            origin: self.origin_address(),
            worker_connections,
            tempfile_directive: false,
            private_copy: false,
            counted: false,
            watchdog: self.options.watchdog || is_watched,
            place: Place::one(self.processors.server),
        }
    }

    /// Address of the origin simulator.
    pub(crate) fn origin_address(&self) -> SocketAddr {
        self.origin.address()
    }
}

/// A figure that a case reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measure {
    pub name: &'static str,
    pub unit: &'static str,
    /// Digits after the point in the table.
    pub decimals: usize,
    /// The good direction of the figure.
    pub better: Better,
    /// Largest acceptable ratio Tidegate/nginx.
    pub target: Option<f64>,
    /// A requirement on each of Tidegate's figures, independent of nginx's.
    pub required: Option<Limit>,
    /// There is no such figure of nginx.
    pub alone: bool,
}

/// The good end of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
    /// The figure only helps to judge the others.
    Neither,
    /// The figure is a number without a size, such as a process id: there is no ratio.
    Fact,
}

impl Measure {
    /// Returns a measure of which less is better.
    pub(crate) const fn new(name: &'static str, unit: &'static str, decimals: usize) -> Measure {
        Measure {
            name,
            unit,
            decimals,
            better: Better::Lower,
            target: None,
            required: None,
            alone: false,
        }
    }

    /// The same with another good end.
    pub(crate) const fn better(self, better: Better) -> Measure {
        Measure { better, ..self }
    }

    /// The same with a requirement on Tidegate's side.
    pub(crate) const fn required(self, limit: Limit) -> Measure {
        Measure { required: Some(limit), ..self }
    }
}

/// The figures of one run of one server, in the order of the case's measures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub values: Vec<f64>,
    pub errors: u64,
    /// A note for readers of the figures.
    pub note: Option<String>,
}

/// The figure of a server that has no such function.
pub(crate) const NOT_SERVED: f64 = f64::INFINITY;

/// Whether no run of a side was served.
pub(crate) fn is_not_served(values: &[f64]) -> bool {
    values.contains(&NOT_SERVED) && !values.iter().any(|value| value.is_finite())
}

impl Sample {
    /// The sample of a server that has no such function.
    pub(crate) fn not_served(measures: usize, reason: &str) -> Sample {
        let note = Some(format!("not served: {reason}"));
        Sample { values: vec![NOT_SERVED; measures], errors: 0, note }
    }
}

/// One line of the report: a measure of a case on both sides, run by run.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub case: &'static str,
    pub measure: Measure,
    pub tidegate: Vec<f64>,
    pub nginx: Vec<f64>,
    /// Wrong responses of both sides.
    pub errors: u64,
    /// Tidegate's share of them.
    pub tidegate_errors: u64,
}

impl Row {
    /// Tidegate's figure divided by nginx's, run by run.
    pub(crate) fn ratio(&self) -> Option<Spread> {
        if self.measure.better == Better::Fact {
            return None;
        }
        Spread::of_ratios(&self.tidegate, &self.nginx)
    }

    /// Whether the requirement holds or, without one, the target is reached.
    pub(crate) fn verdict(&self) -> TargetResult {
        match self.measure.required {
            Some(limit) => limit.judge(&self.tidegate),
            None => TargetResult::of(self.ratio(), self.measure.target, self.errors),
        }
    }

    /// The reason why the row makes the program fail. Targets and wrong responses do so if `strict` only.
    pub(crate) fn unmet(&self, strict: bool) -> Option<String> {
        let Row { case, measure, .. } = self;
        let Measure { name, decimals, .. } = *measure;
        if is_not_served(&self.tidegate) {
            let counts = strict && (measure.required.is_some() || measure.target.is_some());
            return counts.then(|| format!("{case}: {name}: not served"));
        }
        if let Some(limit) = measure.required {
            let worst = || match Spread::of(&self.tidegate) {
                Some(Spread { minimum, maximum, .. }) if minimum != maximum => {
                    format!("{minimum:.decimals$} to {maximum:.decimals$}")
                }
                Some(Spread { maximum, .. }) => format!("{maximum:.decimals$}"),
                None => "unknown".to_owned(),
            };
            let counts = strict || !limit.is_goal();
            return (counts && self.verdict() == TargetResult::Missed)
                .then(|| format!("{case}: {name} is {}, must be {limit}", worst()));
        }
        if !strict {
            None
        } else if self.tidegate.is_empty() {
            Some(format!("{case}: {name}: failed"))
        } else if self.tidegate_errors > 0 {
            Some(format!("{case}: {} wrong responses", self.tidegate_errors))
        } else if measure.target.is_some() && self.verdict() != TargetResult::Met {
            Some(match (self.ratio(), measure.target) {
                (Some(ratio), Some(target)) if self.errors == 0 => {
                    format!("{case}: {name}: ratio {:.2}, target {target:.2}", ratio.median)
                }
                _ => format!("{case}: {name}: nginx gave nothing to compare with"),
            })
        } else {
            None
        }
    }

    /// The quotient of the best runs. A busy machine only ever adds to a cost, so that with
    /// many rounds this is the steadier figure.
    pub(crate) fn best_ratio(&self) -> Option<f64> {
        let (tidegate, nginx) = (Spread::of(&self.tidegate)?, Spread::of(&self.nginx)?);
        let (numerator, denominator) = match self.measure.better {
            Better::Lower => (tidegate.minimum, nginx.minimum),
            Better::Higher => (tidegate.maximum, nginx.maximum),
            Better::Neither | Better::Fact => return None,
        };
        (denominator != 0.0).then(|| numerator / denominator)
    }
}

/// The results of a case.
#[derive(Clone, Debug, Default)]
pub(crate) struct CaseReport {
    pub rows: Vec<Row>,
    pub notes: Vec<String>,
}

/// Runs both sides alternately, A B A B …, and sorts the figures into rows. A side that fails is
/// not run again and keeps its figures; the notes have the reason.
pub(crate) fn alternate(
    context: &Context,
    case: &'static str,
    measures: &[Measure],
    run: impl FnMut(&Binary, bool) -> Result<Sample, String>,
) -> CaseReport {
    Alternation::new(context, case, measures).all(run)
}

/// Runs Tidegate alone, N times.
pub(crate) fn alone(
    context: &Context,
    rounds: u32,
    case: &'static str,
    measures: &[Measure],
    mut run: impl FnMut(&Binary) -> Result<Sample, String>,
) -> CaseReport {
    let measures: Vec<Measure> =
        measures.iter().map(|measure| Measure { alone: true, ..*measure }).collect();
    let mut alternation = Alternation::new(context, case, &measures);
    alternation.rounds = rounds;
    alternation.sides[1].binary = None;
    alternation.all(|binary, _| run(binary))
}

/// A case whose rounds may alternate with those of others.
pub(crate) struct Alternation {
    case: &'static str,
    measures: Vec<Measure>,
    rounds: u32,
    sides: [Side; 2],
    besides: Vec<Beside>,
    notes: Vec<String>,
}

impl Alternation {
    pub(crate) fn new(context: &Context, case: &'static str, measures: &[Measure]) -> Alternation {
        let (tidegate, nginx) = (Some(context.tidegate.clone()), context.nginx.clone());
        Alternation {
            case,
            measures: measures.to_vec(),
            rounds: context.options.rounds,
            sides: [Side::new(SIDES[0], tidegate), Side::new(SIDES[1], nginx)],
            besides: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The same with other programs in its rounds.
    pub(crate) fn beside(self, besides: impl IntoIterator<Item = Beside>) -> Alternation {
        Alternation { besides: besides.into_iter().collect(), ..self }
    }

    /// All rounds, one after the other.
    pub(crate) fn all(
        mut self,
        mut run: impl FnMut(&Binary, bool) -> Result<Sample, String>,
    ) -> CaseReport {
        for round in 1..=self.rounds {
            self.round(round, &mut run);
        }
        self.report()
    }

    /// One run of each side.
    pub(crate) fn round(
        &mut self,
        round: u32,
        mut run: impl FnMut(&Binary, bool) -> Result<Sample, String>,
    ) {
        let (case, rounds) = (self.case, self.rounds);
        let Measure { name, unit, decimals, .. } = self.measures[0];
        let mut notes = Vec::new();
        for (index, side) in self.sides.iter_mut().enumerate() {
            notes.extend(side.run(|binary| {
                let sample = run(binary, index == 0)?;
                let first = sample.values.first().copied().unwrap_or_default();
                eprintln!(
                    "{case}: round {round}/{rounds} {} {name} {first:.decimals$} {unit}",
                    SIDES[index]
                );
                Ok(sample)
            }));
        }
        for beside in &mut self.besides {
            notes.extend(beside.round(|binary| run(binary, false)));
        }
        for note in notes.into_iter().map(|note| format!("{case}: {note}")) {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// The figures as rows.
    pub(crate) fn report(self) -> CaseReport {
        let sides = &self.sides;
        let [tidegate_errors, nginx_errors] = [sides[0].errors(), sides[1].errors()];
        let rows = self.measures.iter().enumerate().map(|(index, measure)| Row {
            case: self.case,
            measure: *measure,
            tidegate: sides[0].values(index),
            nginx: sides[1].values(index),
            errors: tidegate_errors + nginx_errors,
            tidegate_errors,
        });
        let mut report = CaseReport { rows: rows.collect(), notes: self.notes };
        let besides: Vec<String> =
            self.besides.iter().filter_map(|beside| beside.note(&report)).collect();
        report.notes.extend(besides);
        report
    }
}

/// The names of the two sides of a case.
const SIDES: [&str; 2] = ["tidegate", "nginx"];

/// A program's runs in a case.
struct Side {
    name: String,
    /// `None`: absent, or failed before.
    binary: Option<Binary>,
    samples: Vec<Sample>,
}

impl Side {
    fn new(name: impl Into<String>, binary: Option<Binary>) -> Side {
        Side { name: name.into(), binary, samples: Vec::new() }
    }

    /// Measures one run, if there is a program; returns a note for readers. After a failure there are no more runs.
    fn run(&mut self, run: impl FnOnce(&Binary) -> Result<Sample, String>) -> Option<String> {
        let note = match run(self.binary.as_ref()?) {
            Ok(sample) => {
                let note = sample.note.clone();
                self.samples.push(sample);
                note?
            }
            Err(reason) => {
                self.binary = None;
                format!("failed: {reason}")
            }
        };
        Some(format!("{}: {note}", self.name))
    }

    fn errors(&self) -> u64 {
        self.samples.iter().map(|sample| sample.errors).sum()
    }

    fn values(&self, index: usize) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| sample.values.get(index).copied()).collect()
    }
}
