//! Expressions of which the first that matches decides: locations, entries of a `map`, names of servers, referers.
//!
//! Of a long list most expressions cannot match a given subject, since a text that they need is not in it
//! ([`needed_texts`]). One search finds all such texts at once, and only expressions whose text was found are tried, beside
//! those of which nothing is known. So the cost of a request hardly grows with the list.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use foldhash::quality::RandomState;

use super::Regex;
use super::needs::needed_texts;

/// A shorter list is tried one by one.
const FILTERED_FROM: usize = 8;

thread_local! {
    /// Places that a search has found, kept for its memory.
    static FOUND: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

/// Expressions with a value each, in the order in which they are tried.
pub struct RegexList<T> {
    entries: Vec<(Arc<Regex>, T)>,
    filter: Option<Filter>,
}

/// Which entries can match a subject.
struct Filter {
    /// The texts, without their case.
    texts: AhoCorasick,
    /// The places of the entries that need a text.
    owners: Vec<Vec<u32>>,
    /// The places of those that are always tried, in ascending order.
    always: Vec<u32>,
}

impl<T> Default for RegexList<T> {
    fn default() -> RegexList<T> {
        RegexList { entries: Vec::new(), filter: None }
    }
}

impl<T> FromIterator<(Arc<Regex>, T)> for RegexList<T> {
    fn from_iter<I: IntoIterator<Item = (Arc<Regex>, T)>>(entries: I) -> RegexList<T> {
        let mut list = RegexList { entries: entries.into_iter().collect(), filter: None };
        list.finish();
        list
    }
}

impl<T> RegexList<T> {
    /// Adds an expression behind the others. It is found at once, and quickly after [`RegexList::finish`].
    pub fn push(&mut self, regex: Arc<Regex>, value: T) {
        self.entries.push((regex, value));
        self.filter = None;
    }

    /// Prepares the search among all expressions that were added.
    pub fn finish(&mut self) {
        self.filter = Filter::of(&self.entries);
    }

    /// Whether there is no expression.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the first entry whose expression matches `subject`, as `matches` says; it is not asked about expressions
    /// that cannot.
    ///
    /// # Errors
    /// The first error of `matches`.
    pub fn first<E>(
        &self,
        subject: &[u8],
        mut matches: impl FnMut(&Regex) -> Result<bool, E>,
    ) -> Result<Option<&(Arc<Regex>, T)>, E> {
        let Some(filter) = &self.filter else {
            return first_of(self.entries.iter(), matches);
        };
        let mut found = FOUND.take();
        filter.find(subject, &mut found);
        let places = merged(&found, &filter.always);
        let candidates = places.filter_map(|place| self.entries.get(place as usize));
        let first = first_of(candidates, &mut matches);
        FOUND.set(found);
        first
    }
}

fn first_of<'l, T, E>(
    mut entries: impl Iterator<Item = &'l (Arc<Regex>, T)>,
    mut matches: impl FnMut(&Regex) -> Result<bool, E>,
) -> Result<Option<&'l (Arc<Regex>, T)>, E> {
    entries
        .find_map(|entry| match matches(&entry.0) {
            Ok(true) => Some(Ok(entry)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        })
        .transpose()
}

impl Filter {
    /// `None` where it would exclude too little.
    fn of<T>(entries: &[(Arc<Regex>, T)]) -> Option<Filter> {
        if entries.len() < FILTERED_FROM {
            return None;
        }
        let mut places: HashMap<Vec<u8>, Vec<u32>, RandomState> = HashMap::default();
        let mut always = Vec::new();
        for (place, (regex, _)) in (0..).zip(entries) {
            match needed_texts(regex.text()) {
                None => always.push(place),
                Some(texts) => {
                    for text in texts {
                        places.entry(text.to_ascii_lowercase()).or_default().push(place);
                    }
                }
            }
        }
        if entries.len() - always.len() < FILTERED_FROM {
            return None;
        }
        let (texts, owners): (Vec<_>, Vec<_>) = places.into_iter().unzip();
        let texts = AhoCorasick::builder().ascii_case_insensitive(true).build(texts).ok()?;
        Some(Filter { texts, owners, always })
    }

    /// Puts the places of entries whose texts are in the subject into `found`, in ascending order.
    fn find(&self, subject: &[u8], found: &mut Vec<u32>) {
        found.clear();
        for text in self.texts.find_overlapping_iter(subject) {
            found.extend(self.owners.get(text.pattern().as_usize()).into_iter().flatten());
        }
        found.sort_unstable();
        found.dedup();
    }
}

/// Both ascending lists as one; they have no number in common.
fn merged<'l>(mut left: &'l [u32], mut right: &'l [u32]) -> impl Iterator<Item = u32> + 'l {
    std::iter::from_fn(move || {
        let from = match (left.first(), right.first()) {
            (Some(one), Some(other)) if one > other => &mut right,
            (None, _) => &mut right,
            _ => &mut left,
        };
        let (first, rest) = from.split_first()?;
        *from = rest;
        Some(*first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(expressions: &[&str]) -> RegexList<usize> {
        let compile = |text| Arc::new(Regex::compile_late(text).expect(text));
        (0..).zip(expressions).map(|(place, text)| (compile(text), place)).collect()
    }

    fn first(list: &RegexList<usize>, subject: &str) -> (Option<usize>, usize) {
        let mut tried = 0;
        let found = list.first(subject.as_bytes(), |regex| {
            tried += 1;
            regex.is_match(subject.as_bytes())
        });
        (found.expect("the limit").map(|(_, place)| *place), tried)
    }

    #[test]
    fn the_first_in_order_decides_whichever_text_was_found() {
        let names = [
            "^/x",
            "alpha",
            "beta|gamma",
            "alphabet",
            "[0-9]+$",
            "delta",
            "epsilon",
            "zeta",
            "eta/",
            "theta",
            "iota",
            "(?i)KAPPA",
        ];
        let list = list(&names);
        assert!(list.filter.is_some());
        let always = 2;
        for (subject, place, tried) in [
            ("/x", Some(0), 1),
            ("/alphabet", Some(1), always),
            ("/gamma", Some(2), always),
            ("/theta-alpha7", Some(1), 2),
            ("/zeta/", Some(7), 3),
            ("/7", Some(4), always),
            ("/Kappa", Some(11), always + 1),
            ("/KAPP", None, always),
            ("", None, always),
        ] {
            assert_eq!(first(&list, subject), (place, tried), "{subject}");
        }
    }

    #[test]
    fn a_short_list_and_one_without_texts_are_tried_one_by_one() {
        let short = list(&["alpha", "beta"]);
        assert_eq!(first(&short, "beta"), (Some(1), 2));
        let unknown = list(&[r"\d", r"\w", "a", "b", "c", "d", "e", "f", "g", "gamma"]);
        assert!(unknown.filter.is_none());
        assert_eq!(first(&unknown, "-"), (None, 10));
    }

    #[test]
    fn an_expression_that_is_added_later_is_found() {
        let mut list = list(&(0..20).map(|_| "alpha").collect::<Vec<_>>());
        list.push(Arc::new(Regex::compile_late("beta").expect("beta")), 20);
        assert_eq!(first(&list, "beta"), (Some(20), 21));
        list.finish();
        assert_eq!(first(&list, "beta"), (Some(20), 1));
    }

    #[test]
    fn an_error_ends_the_search() {
        let names: Vec<String> = (0..100).map(|number| format!("name{number}-")).collect();
        let list = list(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(list.first(b"/name7-", |_| Err(7)).map(|_| ()), Err(7));
        assert_eq!(first(&list, "/name99-"), (Some(99), 1));
    }
}
