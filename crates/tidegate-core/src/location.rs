//! Which location serves a path: exact name, longest prefix, first matching regular expression.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::exchange::{Exchange, PathState};
use crate::plan::{LocationId, Plan};
use crate::regex::{MatchLimit, Regex};
use crate::step::Step;

/// The locations of one level (a server or an outer location).
#[derive(Default)]
pub struct LocationSet {
    exact: HashMap<Vec<u8>, LocationId>,
    /// Sorted by name; each with the nearest shorter entry that is its prefix.
    prefixes: Vec<Prefix>,
    regexes: Vec<(Regex, LocationId)>,
    /// Prefix locations of gateways by their names without the final slash, where no other location has that name.
    redirects: HashMap<Vec<u8>, LocationId>,
    /// Lengths of the names in `redirects`, one bit each, counted modulo 64: most paths have another.
    redirect_lengths: u64,
}

struct Prefix {
    name: Vec<u8>,
    location: LocationId,
    parent: Option<usize>,
}

impl LocationSet {
    /// Builds the search structure. `redirects` has the names of locations to which clients are sent that leave out
    /// the final slash; a prefix location of such a name, without the slash, comes before it.
    pub fn new(
        exact: HashMap<Vec<u8>, LocationId>,
        mut prefixes: Vec<(Vec<u8>, LocationId)>,
        regexes: Vec<(Regex, LocationId)>,
        mut redirects: HashMap<Vec<u8>, LocationId>,
    ) -> LocationSet {
        for (name, _) in &prefixes {
            redirects.remove(name);
        }
        prefixes.sort_by(|a, b| a.0.cmp(&b.0));
        let mut sorted: Vec<Prefix> = Vec::with_capacity(prefixes.len());
        for (name, location) in prefixes {
            let mut parent = sorted.len().checked_sub(1);
            while let Some(index) = parent
                && !name.starts_with(&sorted[index].name)
            {
                parent = sorted[index].parent;
            }
            sorted.push(Prefix { name, location, parent });
        }
        let lengths = redirects.keys().map(|name| length_bit(name));
        let redirect_lengths = lengths.fold(0, |all, bit| all | bit);
        LocationSet { exact, prefixes: sorted, regexes, redirects, redirect_lengths }
    }

    /// The longest prefix location of `path`.
    fn longest_prefix(&self, path: &[u8]) -> Option<LocationId> {
        let above = self.prefixes.partition_point(|prefix| prefix.name.as_slice() <= path);
        let mut candidate = above.checked_sub(1);
        while let Some(index) = candidate {
            let prefix = &self.prefixes[index];
            if path.starts_with(&prefix.name) {
                return Some(prefix.location);
            }
            candidate = prefix.parent;
        }
        None
    }

    /// The location whose name is `path` and a slash, if the client is to be sent there.
    fn redirect(&self, path: &[u8]) -> Option<LocationId> {
        let may_be = self.redirect_lengths & length_bit(path) != 0;
        may_be.then(|| self.redirects.get(path).copied()).flatten()
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty() && self.regexes.is_empty()
    }
}

fn length_bit(name: &[u8]) -> u64 {
    1 << (name.len() % 64)
}

/// How a search ended, best last.
enum Found {
    Nothing,
    /// A prefix: regular expressions of outer levels may still win.
    Prefix(LocationId),
    /// Exact or by regular expression: final.
    Final(LocationId),
    /// The name of this location without its slash: the client is sent to the name with it.
    Redirect(LocationId),
}

fn search(x: &mut Exchange, plan: &Plan, set: &LocationSet) -> Result<Found, MatchLimit> {
    if set.is_empty() {
        return Ok(Found::Nothing);
    }
    if let Some(location) = set.exact.get(&x.request.path) {
        return Ok(Found::Final(*location));
    }
    if let Some(location) = set.redirect(&x.request.path) {
        return Ok(Found::Redirect(location));
    }
    let mut best = Found::Nothing;
    let mut regex_allowed = true;
    if let Some(id) = set.longest_prefix(&x.request.path) {
        let location = plan.location(id);
        regex_allowed = !location.no_regex;
        best = match search(x, plan, &location.nested)? {
            found @ (Found::Final(_) | Found::Redirect(_)) => return Ok(found),
            // A `^~` of a nested location excludes the expressions of its own level alone, and that has been done.
            inner @ Found::Prefix(_) => inner,
            Found::Nothing => Found::Prefix(id),
        };
    }
    if regex_allowed && !set.regexes.is_empty() {
        let path = std::mem::take(&mut x.request.path);
        let matched = first_match(x, set, &path);
        x.request.path = path;
        if let Some(id) = matched? {
            let nested = &plan.location(id).nested;
            return Ok(match search(x, plan, nested)? {
                Found::Prefix(inner) | Found::Final(inner) => Found::Final(inner),
                Found::Nothing => Found::Final(id),
                redirect @ Found::Redirect(_) => redirect,
            });
        }
    }
    Ok(best)
}

fn first_match(
    x: &mut Exchange,
    set: &LocationSet,
    path: &[u8],
) -> Result<Option<LocationId>, MatchLimit> {
    for (regex, location) in &set.regexes {
        if regex.capture(x, path)? {
            return Ok(Some(*location));
        }
    }
    Ok(None)
}

/// The FindConfig step: chooses the location and applies what the core itself decides there.
pub fn find_config(x: &mut Exchange, plan: &Plan) -> Step<'static> {
    let server = plan.server(x.routing.server);
    x.routing.location = server.location;
    x.routing.path = PathState::Matched;
    let Ok(found) = search(x, plan, &server.locations) else { return Step::Status(500) };
    match found {
        Found::Prefix(id) | Found::Final(id) | Found::Redirect(id) => x.routing.location = id,
        Found::Nothing => {}
    }
    let location = plan.location(x.routing.location);
    if location.settings.internal && !x.routing.is_internal() {
        return Step::Status(404);
    }
    if let Err(status) = limit_body(x) {
        return Step::Status(status);
    }
    if let Some((methods, other)) = location.limit_except
        && methods & x.request.method.bit() == 0
    {
        x.routing.location = other;
    }
    // Only here: the redirect is a response of the location that it leads to, with its rules and fields.
    match found {
        Found::Redirect(_) => redirect_to_slash(x),
        _ => Step::Decline,
    }
}

/// Makes the present location's `client_max_body_size` the body's limit; the error is the status for a client that
/// announces more.
pub fn limit_body(x: &mut Exchange) -> Result<(), u16> {
    let max = x.settings().client_max_body_size;
    x.request.body.set_limit(max);
    let announced = x.request.body.length.filter(|length| max.is_some_and(|max| *length > max));
    // A part of a response may be for a location with another limit: the client has sent nothing for that.
    if let Some(length) = announced.filter(|_| !x.is_subrequest()) {
        x.disposition.close_connection();
        x.request.body.abandon();
        x.log(
            crate::error_log::Level::Error,
            format_args!("client intended to send too large body: {length} bytes"),
        );
        return Err(413);
    }
    Ok(())
}

/// `/dir` goes to `/dir/` where a prefix location `/dir/` is served by a gateway.
#[cold]
fn redirect_to_slash(x: &mut Exchange) -> Step<'static> {
    let mut place = Vec::new();
    tidegate_http::uri::escape(&x.request.path, tidegate_http::uri::Escape::Uri, &mut place);
    place.push(b'/');
    if !x.request.args.is_empty() {
        place.push(b'?');
        place.extend_from_slice(&x.request.args);
    }
    crate::error_page::redirect_headers(x, &place);
    Step::Status(301)
}
