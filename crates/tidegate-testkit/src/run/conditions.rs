//! Whether a condition of the script holds, and what was found instead.

use super::Runner;
use crate::bell::locked;
use crate::conditions::{Condition, Quantity, Source};
use crate::origin::Origin;
use crate::words::{Matcher, contains, shown};
use std::sync::atomic::Ordering;

impl Runner<'_> {
    pub(super) fn holds(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Holds(source, matcher) => matcher.matches(&self.text(source)),
            Condition::Lacks(source, matcher) => !matcher.matches(&self.text(source)),
            Condition::Exists(name) => self.directory.exists(name),
            Condition::Absent(name) => !self.directory.exists(name),
            Condition::Compare(quantity, comparison, number) => {
                self.quantity(quantity).is_some_and(|found| comparison.holds(found, *number))
            }
        }
    }

    pub(super) fn found(&self, condition: &Condition) -> String {
        match condition {
            Condition::Holds(source, Matcher::Exact(text) | Matcher::Contains(text)) => {
                format!("expected {}, found {}", shown(text), shown(&self.text(source)))
            }
            Condition::Holds(source, _) | Condition::Lacks(source, _) => {
                format!("found {}", shown(&self.text(source)))
            }
            Condition::Exists(_) => "it is absent".to_owned(),
            Condition::Absent(_) => "it exists".to_owned(),
            Condition::Compare(quantity, ..) => match self.quantity(quantity) {
                Some(found) => format!("found {found}"),
                None => "found nothing".to_owned(),
            },
        }
    }

    fn text(&self, source: &Source) -> Vec<u8> {
        match source {
            Source::Log => self.directory.read("error.log"),
            Source::Access => self.directory.read("access.log"),
            Source::File(name) => self.directory.read(name),
            Source::Output => self.last_output.clone(),
            Source::Process(receiver) => {
                let server = self.server.as_ref();
                server.and_then(|server| server.names(*receiver)).unwrap_or_default()
            }
            Source::State(receiver) => {
                let server = self.server.as_ref();
                server.and_then(|server| server.state(*receiver)).unwrap_or_default()
            }
            Source::Sink(name) => {
                self.sinks.get(name).map(|text| locked(text).clone()).unwrap_or_default()
            }
        }
    }

    fn quantity(&self, quantity: &Quantity) -> Option<i64> {
        match quantity {
            Quantity::Requests(name) => self.origins.get(name).map(Origin::requests),
            Quantity::Connections(name) => self.origins.get(name).map(Origin::connections),
            Quantity::Questions(name) => {
                self.questions.get(name).map(|count| count.load(Ordering::SeqCst))
            }
            Quantity::Relayed(name, direction, count) => {
                self.relays.get(name).map(|relay| relay.count(*direction, *count))
            }
            Quantity::Exit => Some(self.last_exit),
            Quantity::ServerExit => self.server.as_ref()?.exit(),
            Quantity::Files(name) => i64::try_from(self.directory.files(name).len()).ok(),
            Quantity::Size(name) => i64::try_from(self.directory.size(name)).ok(),
            Quantity::Mode(name) => self.directory.mode(name),
            Quantity::Lines(name) => {
                let content = self.directory.read(name);
                i64::try_from(content.iter().filter(|byte| **byte == b'\n').count()).ok()
            }
            Quantity::LogCount(text) => {
                i64::try_from(count(&self.directory.read("error.log"), text)).ok()
            }
        }
    }
}

/// Number of lines that contain a text.
pub(super) fn count(content: &[u8], text: &[u8]) -> usize {
    content.split(|byte| *byte == b'\n').filter(|line| contains(line, text)).count()
}
