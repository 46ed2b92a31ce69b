//! The result of each configuration, and of all of them.

use super::client::Response;
use super::compare::{Difference, common_text, compare};
use super::requests::Request;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Requests of one kind of difference that are shown with both responses.
const SHOWN_MAX: usize = 3;

/// The result of one configuration.
#[derive(Debug)]
pub struct Outcome {
    /// Repository and path.
    pub name: String,
    pub result: ComparisonResult,
    /// Directives left out because Tidegate has not built them.
    pub missing: Vec<String>,
}

#[derive(Debug)]
pub enum ComparisonResult {
    /// Missing or unusable.
    Skipped(String),
    /// nginx refuses it.
    Refused(String),
    /// nginx accepts it and Tidegate refuses it, although all of it is built.
    Mistaken(String),
    /// Without the unsupported directives it is not a configuration any more.
    Bare,
    /// A server did not start or did not end.
    Failed(String),
    Served(Served),
}

/// Responses of both, compared.
#[derive(Debug, Default)]
pub struct Served {
    pub equal: usize,
    pub different: Vec<Different>,
    /// Requests with intended differences only, by reason.
    pub meant: BTreeMap<&'static str, usize>,
    /// The begins of those requests' lines: method and target.
    pub meant_lines: BTreeSet<String>,
    /// Requests for which there was no time.
    pub unasked: usize,
    /// Lines of Tidegate's log that no server should write.
    pub complaints: Vec<String>,
    /// Differences between the logs.
    pub logs: Vec<String>,
}

/// A request whose responses differ.
#[derive(Debug)]
pub struct Different {
    pub request: Request,
    pub differences: Vec<Difference>,
    pub nginx: Response,
    pub tidegate: Response,
}

impl Served {
    /// Compares two responses and counts them.
    pub fn add(&mut self, request: &Request, nginx: Response, tidegate: Response) {
        let found = compare(request, &nginx, &tidegate);
        if found.is_empty() {
            self.equal += 1;
            return;
        }
        let differences: Vec<Difference> = found
            .iter()
            .filter(|(_, reason)| reason.is_none())
            .map(|(difference, _)| difference.clone())
            .collect();
        if differences.is_empty() {
            for reason in found.iter().filter_map(|(_, reason)| *reason).take(1) {
                *self.meant.entry(reason).or_default() += 1;
            }
            self.meant_lines.insert(format!("{} {} ", request.method, request.target));
            return;
        }
        self.different.push(Different { request: request.clone(), differences, nginx, tidegate });
    }
}

impl Outcome {
    /// Whether there is something to correct.
    pub fn failed(&self) -> bool {
        match &self.result {
            ComparisonResult::Skipped(_)
            | ComparisonResult::Refused(_)
            | ComparisonResult::Bare => false,
            ComparisonResult::Mistaken(_) | ComparisonResult::Failed(_) => true,
            ComparisonResult::Served(served) => {
                let quiet = served.complaints.is_empty() && served.logs.is_empty();
                !served.different.is_empty() || !quiet
            }
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.failed() { "FAILED" } else { "ok" };
        write!(f, "{mark} {}: ", self.name)?;
        match &self.result {
            ComparisonResult::Skipped(why) => write!(f, "skipped: {why}"),
            ComparisonResult::Refused(said) => write!(f, "nginx refuses: {said}"),
            ComparisonResult::Mistaken(said) => write!(f, "nginx takes it, Tidegate says: {said}"),
            ComparisonResult::Bare => write!(f, "nothing left without {}", self.missing.join(", ")),
            ComparisonResult::Failed(why) => write!(f, "{why}"),
            ComparisonResult::Served(served) => {
                let requests = served.equal + served.different.len();
                write!(f, "{requests} requests, {} different", served.different.len())?;
                if !served.meant.is_empty() {
                    write!(f, ", {} as meant", served.meant.values().sum::<usize>())?;
                }
                if served.unasked > 0 {
                    write!(f, ", {} not sent", served.unasked)?;
                }
                if !self.missing.is_empty() {
                    write!(f, ", without {}", self.missing.join(", "))?;
                }
                served.complaints.iter().try_for_each(|line| write!(f, "\n  log: {line}"))?;
                served.logs.iter().try_for_each(|line| write!(f, "\n  logs differ: {line}"))
            }
        }
    }
}

/// The result of the list.
#[derive(Debug)]
pub struct ConfigurationsReport {
    /// One for each configuration, sorted by name.
    pub outcomes: Vec<Outcome>,
}

impl ConfigurationsReport {
    /// Configurations with something to correct.
    pub fn failed(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.failed()).count()
    }

    fn served(&self) -> impl Iterator<Item = (&Outcome, &Served)> {
        self.outcomes.iter().filter_map(|outcome| match &outcome.result {
            ComparisonResult::Served(served) => Some((outcome, served)),
            _ => None,
        })
    }

    /// Differences by kind, the most frequent first, each with a few requests.
    fn kinds(&self) -> Vec<(String, Vec<(&Outcome, &Different)>)> {
        let mut kinds: BTreeMap<String, Vec<(&Outcome, &Different)>> = BTreeMap::new();
        for (outcome, served) in self.served() {
            for different in &served.different {
                kinds.entry(kind(different)).or_default().push((outcome, different));
            }
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, all)| std::cmp::Reverse(all.len()));
        kinds
    }
}

/// The key of a difference.
fn kind(different: &Different) -> String {
    let codes = format!("{}/{}", different.nginx.code(), different.tidegate.code());
    let names: Vec<&str> =
        different.differences.iter().map(|difference| difference.what.as_str()).collect();
    if names.contains(&"status") {
        return format!("status {codes}");
    }
    format!("{codes} {}", names.join(", "))
}

impl fmt::Display for ConfigurationsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, all) in self.kinds() {
            writeln!(f, "\n== {kind}: {} requests", all.len())?;
            // One request of a configuration, then of the next.
            let mut shown: Vec<&str> = Vec::new();
            for (outcome, different) in all {
                if shown.len() < SHOWN_MAX && !shown.contains(&outcome.name.as_str()) {
                    shown.push(&outcome.name);
                    show(f, outcome, different)?;
                }
            }
        }
        let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.outcomes.iter().flat_map(|outcome| &outcome.missing) {
            *missing.entry(name).or_default() += 1;
        }
        let count = |holds: fn(&ComparisonResult) -> bool| {
            self.outcomes.iter().filter(|outcome| holds(&outcome.result)).count()
        };
        let refused = count(|result| matches!(result, ComparisonResult::Refused(_)));
        let skipped = count(|result| matches!(result, ComparisonResult::Skipped(_)));
        let mistaken = count(|result| matches!(result, ComparisonResult::Mistaken(_)));
        let complete = self.served().filter(|(outcome, _)| outcome.missing.is_empty()).count();
        let total = self.outcomes.len();
        writeln!(f, "\n{total} configurations: {skipped} skipped, {refused} refused by nginx,")?;
        writeln!(
            f,
            "{} taken by nginx, {complete} by Tidegate as they are;",
            total - refused - skipped
        )?;
        writeln!(f, "{mistaken} refused by mistake; not built yet:")?;
        for (name, count) in missing {
            writeln!(f, "  {name}: {count}")?;
        }
        let mut meant: BTreeMap<&str, usize> = BTreeMap::new();
        for (reason, count) in self.served().flat_map(|(_, served)| &served.meant) {
            *meant.entry(reason).or_default() += count;
        }
        let equal: usize = self.served().map(|(_, served)| served.equal).sum();
        let different: usize = self.served().map(|(_, served)| served.different.len()).sum();
        let allowed: usize = meant.values().sum();
        writeln!(
            f,
            "{} requests: {equal} equal, {different} different, {allowed} as meant:",
            equal + different + allowed
        )?;
        for (reason, count) in meant {
            writeln!(f, "  {reason}: {count}")?;
        }
        write!(f, "{} passed, {} failed", total - self.failed() - skipped, self.failed())
    }
}

fn show(f: &mut fmt::Formatter<'_>, outcome: &Outcome, different: &Different) -> fmt::Result {
    writeln!(f, "  {}\n    {}", outcome.name, different.request)?;
    for difference in &different.differences {
        writeln!(
            f,
            "      {}: {:?} | {:?}",
            difference.what, difference.nginx, difference.tidegate
        )?;
    }
    if different.differences.iter().any(|difference| difference.what == "status") {
        for (name, response) in [("nginx", &different.nginx), ("tidegate", &different.tidegate)] {
            let text = common_text(response, &response.body);
            let text: String = text.chars().take(200).collect();
            writeln!(f, "      {name}: {} {text:?}", response.status)?;
        }
    }
    Ok(())
}
