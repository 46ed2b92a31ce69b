//! What a suite is made of: cases, runs of two sides in turn, rows of figures.

use std::net::SocketAddr;

use crate::machine::Processors;
use crate::options::Options;
use crate::origin::Origin;
use crate::server::Binary;
use crate::statistics::Spread;

mod idle;
pub mod quick;
pub(crate) mod streaming;

/// What all cases share.
pub struct Context {
    pub options: Options,
    pub processors: Processors,
    pub origin: Origin,
    pub tidegate: Binary,
    /// `None`: nginx is not installed.
    pub nginx: Option<Binary>,
}

impl Context {
    /// Address of the origin simulator.
    pub fn origin_address(&self) -> SocketAddr {
        self.origin.address()
    }
}

/// A figure that a case reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    pub name: &'static str,
    pub unit: &'static str,
    /// Digits after the point in the table.
    pub decimals: usize,
    /// Which figures are good.
    pub better: Better,
    /// Largest ratio Tidegate/nginx that is meant to hold.
    pub target: Option<f64>,
}

/// The good end of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Lower,
    Higher,
    /// The figure only helps to judge the others.
    Neither,
}

impl Measure {
    /// A measure of which less is better.
    pub const fn new(name: &'static str, unit: &'static str, decimals: usize) -> Measure {
        Measure { name, unit, decimals, better: Better::Lower, target: None }
    }

    /// The same with another good end.
    pub const fn better(self, better: Better) -> Measure {
        Measure { better, ..self }
    }
}

/// The figures of one run of one server, in the order of the case's measures.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub values: Vec<f64>,
    pub errors: u64,
    /// Something that a reader of the figures should know.
    pub note: Option<String>,
}

/// One line of the report: a measure of a case on both sides, run by run.
#[derive(Clone, Debug)]
pub struct Row {
    pub case: &'static str,
    pub measure: Measure,
    pub tidegate: Vec<f64>,
    pub nginx: Vec<f64>,
    /// Wrong answers of both sides.
    pub errors: u64,
}

impl Row {
    /// Tidegate's figure by nginx's, run by run.
    pub fn ratio(&self) -> Option<Spread> {
        Spread::of_ratios(&self.tidegate, &self.nginx)
    }

    /// The quotient of the best runs. A busy machine only ever adds to a cost, so that with
    /// many rounds this is the steadier figure.
    pub fn best_ratio(&self) -> Option<f64> {
        let (tidegate, nginx) = (Spread::of(&self.tidegate)?, Spread::of(&self.nginx)?);
        let (numerator, denominator) = match self.measure.better {
            Better::Lower => (tidegate.minimum, nginx.minimum),
            Better::Higher => (tidegate.maximum, nginx.maximum),
            Better::Neither => return None,
        };
        (denominator != 0.0).then(|| numerator / denominator)
    }
}

/// All that a case brought.
#[derive(Clone, Debug, Default)]
pub struct CaseReport {
    pub rows: Vec<Row>,
    pub notes: Vec<String>,
}

/// Runs both sides in turn, A B A B …, and sorts the figures into rows. A side that fails is
/// not tried again and keeps the figures it has; why is told in the notes.
pub fn alternate(
    context: &Context,
    case: &'static str,
    measures: &[Measure],
    mut run: impl FnMut(&Binary, bool) -> Result<Sample, String>,
) -> CaseReport {
    let mut sides = [Side::new("tidegate", Some(&context.tidegate)), Side::new("nginx", None)];
    sides[1].binary = context.nginx.as_ref();
    let mut notes: Vec<String> = Vec::new();
    for round in 1..=context.options.rounds {
        for (index, side) in sides.iter_mut().enumerate() {
            let Some(binary) = side.binary else { continue };
            let note = match run(binary, index == 0) {
                Ok(sample) => {
                    let first = sample.values.first().copied().unwrap_or_default();
                    let Measure { name, unit, decimals, .. } = measures[0];
                    eprintln!(
                        "{case}: round {round}/{} {} {name} {first:.decimals$} {unit}",
                        context.options.rounds, side.name
                    );
                    let note = sample.note.clone();
                    side.samples.push(sample);
                    note
                }
                Err(reason) => {
                    side.binary = None;
                    Some(format!("failed: {reason}"))
                }
            };
            let note = note.map(|note| format!("{case}: {}: {note}", side.name));
            notes.extend(note.filter(|note| !notes.contains(note)));
        }
    }
    let errors = sides.iter().flat_map(|side| &side.samples).map(|sample| sample.errors).sum();
    let rows = measures.iter().enumerate().map(|(index, measure)| Row {
        case,
        measure: *measure,
        tidegate: sides[0].values(index),
        nginx: sides[1].values(index),
        errors,
    });
    CaseReport { rows: rows.collect(), notes }
}

struct Side<'a> {
    name: &'static str,
    /// `None`: absent, or failed before.
    binary: Option<&'a Binary>,
    samples: Vec<Sample>,
}

impl<'a> Side<'a> {
    fn new(name: &'static str, binary: Option<&'a Binary>) -> Side<'a> {
        Side { name, binary, samples: Vec::new() }
    }

    fn values(&self, index: usize) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| sample.values.get(index).copied()).collect()
    }
}
