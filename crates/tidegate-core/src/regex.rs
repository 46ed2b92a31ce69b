//! Regular expressions with PCRE2's semantics, compiled once, with a limit on backtracking.

mod list;
mod needs;
mod of_requests;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::{error, fmt};

use pcre2::bytes::{CaptureLocations, Regex as Pcre, RegexBuilder};

use crate::exchange::modules::{Captures, ModuleState};

use needs::needed_texts;

pub use list::RegexList;

/// Backtracking steps after which a match is an error: about 20 ms of work. PCRE2's default is 10,000,000, long
/// enough for one request to block an event loop.
const MATCH_LIMIT: &str = "(*LIMIT_MATCH=1000000)";

/// Most match buffers kept for each expression: a thread uses one at a time.
const FREE_MAX: usize = 64;

/// An expression and the variables of its named groups.
pub struct Regex {
    /// Its compiled form. One of very many is valid, and is compiled when a subject has a text that it needs; `None`: that has
    /// failed, for want of memory.
    compiled: OnceLock<Option<Pcre>>,
    caseless: bool,
    /// Groups, not counting the whole match.
    groups: usize,
    /// Pairs of group number and slot of the variable with the group's name.
    named: Box<[(usize, usize)]>,
    text: String,
    /// Match buffers that are not in use.
    free: Mutex<Vec<CaptureLocations>>,
}

/// The error of a match that has reached the backtracking limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchLimit;

impl fmt::Display for MatchLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("matching hit the backtracking limit")
    }
}

impl error::Error for MatchLimit {}

/// Why an expression is invalid, in nginx's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegexError(String);

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for RegexError {}

/// Shows the expression.
impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl Regex {
    /// Compiles `text`; each named group is stored in the slot that `slot_of` returns for its name. The error has
    /// nginx's words. Without `jit` it is one of very many.
    pub(crate) fn with_slots(
        text: &str,
        caseless: bool,
        jit: bool,
        mut slot_of: impl FnMut(&str) -> Result<usize, RegexError>,
    ) -> Result<Regex, RegexError> {
        let pcre = build(text, caseless, jit).map_err(|error| regex_error(text, &error))?;
        let mut named = Vec::new();
        for (group, name) in pcre.capture_names().iter().enumerate() {
            if let Some(name) = name {
                named.push((group, slot_of(name)?));
            }
        }
        let is_late = !jit && needed_texts(text).is_some();
        let regex = Regex { named: named.into(), ..Regex::of(pcre, text, caseless) };
        Ok(if is_late { Regex { compiled: OnceLock::new(), ..regex } } else { regex })
    }

    fn of(pcre: Pcre, text: &str, caseless: bool) -> Regex {
        let (groups, text) = (pcre.captures_len().saturating_sub(1), text.to_owned());
        let compiled = OnceLock::from(Some(pcre));
        Regex { compiled, caseless, groups, named: Box::default(), text, free: Mutex::default() }
    }

    /// Returns the compiled form, compiled now where that was left for later.
    fn pcre(&self) -> Result<&Pcre, MatchLimit> {
        let compile = || build(&self.text, self.caseless, false).ok();
        self.compiled.get_or_init(compile).as_ref().ok_or(MatchLimit)
    }

    /// Compiles an expression of a response (SSI). Its named groups are no variables of the configuration: see
    /// [`Regex::names`].
    ///
    /// # Errors
    /// For an invalid expression.
    pub fn compile_late(text: &str) -> Result<Regex, RegexError> {
        let pcre = build(text, false, false).map_err(|error| regex_error(text, &error))?;
        Ok(Regex::of(pcre, text, false))
    }

    /// Returns numbers and names of the named groups.
    pub fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        let names = self.pcre().map(Pcre::capture_names).unwrap_or_default();
        names.iter().enumerate().filter_map(|(group, name)| Some((group, name.as_deref()?)))
    }

    /// Returns the expression as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of groups, not counting the whole match.
    pub fn group_count(&self) -> usize {
        self.groups
    }

    /// Copies captures of this expression to the variables of its named groups.
    pub fn store_named(&self, modules: &mut ModuleState) {
        for (group, slot) in &self.named {
            let value = modules.captures.group(*group).unwrap_or_default().into();
            if let Some(place) = modules.slots.get_mut(*slot) {
                *place = Some(value);
            }
        }
    }

    /// Matches without an exchange; `captures` is unchanged when there is no match.
    ///
    /// # Errors
    /// When the backtracking limit is reached.
    pub fn capture_into(
        &self,
        captures: &mut Captures,
        subject: &[u8],
    ) -> Result<bool, MatchLimit> {
        let pcre = self.pcre()?;
        if self.groups == 0 {
            let found = pcre.find(subject).map_err(|_| MatchLimit)?;
            let Some(found) = found else { return Ok(false) };
            captures.clear();
            captures.subject.extend_from_slice(subject);
            captures.ranges.push(Some((found.start(), found.end())));
            return Ok(true);
        }
        let mut locations = self.take_locations(pcre);
        let found = pcre.captures_read(&mut locations, subject);
        if let Ok(Some(_)) = found {
            fill(captures, &locations, subject);
        }
        self.give_locations(locations);
        found.map(|found| found.is_some()).map_err(|_| MatchLimit)
    }

    /// Takes a match buffer. A used one is much cheaper: a new one maps a stack.
    fn take_locations(&self, pcre: &Pcre) -> CaptureLocations {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.pop().unwrap_or_else(|| pcre.capture_locations())
    }

    fn give_locations(&self, locations: CaptureLocations) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < FREE_MAX {
            free.push(locations);
        }
    }

    /// Returns whether `subject` matches, without storing captures.
    ///
    /// # Errors
    /// When the backtracking limit is reached.
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, MatchLimit> {
        self.pcre()?.is_match(subject).map_err(|_| MatchLimit)
    }
}

fn build(text: &str, caseless: bool, jit: bool) -> Result<Pcre, pcre2::Error> {
    RegexBuilder::new()
        .caseless(caseless)
        .jit_if_available(jit)
        .max_jit_stack_size(Some(1 << 20))
        .build(&format!("{MATCH_LIMIT}{text}"))
}

fn fill(captures: &mut Captures, locations: &CaptureLocations, subject: &[u8]) {
    captures.clear();
    captures.subject.extend_from_slice(subject);
    captures.ranges.extend((0..locations.len()).map(|group| locations.get(group)));
}

/// Formats the error of an expression: PCRE2's reason, and the text from the error's position on.
fn regex_error(text: &str, error: &pcre2::Error) -> RegexError {
    let shown = error.to_string();
    let reason = shown.split_once(" at offset ").and_then(|(_, rest)| rest.split_once(": "));
    let reason = reason.map_or(shown.as_str(), |(_, reason)| reason);
    let rest = error.offset().and_then(|offset| text.get(offset.checked_sub(MATCH_LIMIT.len())?..));
    RegexError(match rest.unwrap_or_default() {
        "" => format!("pcre2_compile() failed: {reason} in \"{text}\""),
        rest => format!("pcre2_compile() failed: {reason} in \"{text}\" at \"{rest}\""),
    })
}
