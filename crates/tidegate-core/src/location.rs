//! The choice of a location for a path: exact name, longest prefix, first matching regular expression.

use crate::exchange::{Exchange, PathState};
use crate::ids::LocationId;
pub use crate::location_set::LocationSet;
use crate::log_context::choose_tags;
use crate::plan::{Location, Plan};
use crate::refused::Refused;
use crate::regex::MatchLimit;
use crate::step::Step;

/// The result of a search, least specific first.
enum SearchResult {
    Nothing,
    /// A prefix location: regular expressions of outer levels still take precedence.
    Prefix(LocationId),
    /// An exact or regular-expression location: final.
    Final(LocationId),
    /// The path is this location's name without its slash: the client is redirected to the name with it.
    Redirect(LocationId),
}

fn search(x: &mut Exchange, plan: &Plan, set: &LocationSet) -> Result<SearchResult, MatchLimit> {
    if set.is_empty() {
        return Ok(SearchResult::Nothing);
    }
    if let Some(location) = set.exact.get(&x.request.path) {
        return Ok(SearchResult::Final(*location));
    }
    if let Some(location) = set.redirect(&x.request.path) {
        return Ok(SearchResult::Redirect(location));
    }
    // Inner levels precede the regular expressions of this level: an inner final match is used at once.
    let mut best = SearchResult::Nothing;
    let mut regex_allowed = true;
    if let Some(id) = set.longest_prefix(&x.request.path) {
        let location = plan.location(id);
        regex_allowed = !location.no_regex;
        best = match search_nested(x, plan, location)? {
            found @ (SearchResult::Final(_) | SearchResult::Redirect(_)) => return Ok(found),
            // A nested `^~` excludes the regular expressions of its own level alone; that is done already.
            inner @ SearchResult::Prefix(_) => inner,
            SearchResult::Nothing => SearchResult::Prefix(id),
        };
    }
    if regex_allowed && !set.regexes.is_empty() {
        let path = std::mem::take(&mut x.request.path);
        let matched = first_match(x, set, &path);
        x.request.path = path;
        if let Some(id) = matched? {
            return Ok(match search_nested(x, plan, plan.location(id))? {
                SearchResult::Prefix(inner) | SearchResult::Final(inner) => {
                    SearchResult::Final(inner)
                }
                SearchResult::Nothing => SearchResult::Final(id),
                redirect @ SearchResult::Redirect(_) => redirect,
            });
        }
    }
    Ok(best)
}

/// As [`search`], for the locations in another one.
fn search_nested(
    x: &mut Exchange,
    plan: &Plan,
    outer: &Location,
) -> Result<SearchResult, MatchLimit> {
    match &outer.nested {
        Some(nested) => search(x, plan, nested),
        None => Ok(SearchResult::Nothing),
    }
}

fn first_match(
    x: &mut Exchange,
    set: &LocationSet,
    path: &[u8],
) -> Result<Option<LocationId>, MatchLimit> {
    let first = set.regexes.first(path, |regex| regex.capture(x, path))?;
    Ok(first.map(|(_, location)| *location))
}

/// Returns the location that the exchange's path leads to in its server, and whether a client is redirected to that location's
/// name with a slash; the server's own location where no other fits. Changes nothing but captures.
///
/// # Errors
/// A regular expression needs too much backtracking.
pub fn look_up(x: &mut Exchange, plan: &Plan) -> Result<(LocationId, bool), MatchLimit> {
    let server = plan.server(x.routing.server);
    Ok(match search(x, plan, &server.locations)? {
        SearchResult::Prefix(id) | SearchResult::Final(id) => (id, false),
        SearchResult::Redirect(id) => (id, true),
        SearchResult::Nothing => (server.location, false),
    })
}

/// Runs the FindConfig phase: chooses the location and applies `internal`, the size limit and `limit_except`.
pub fn find_config(x: &mut Exchange, plan: &Plan) -> Step<'static> {
    let server = plan.server(x.routing.server);
    x.routing.location = server.location;
    x.routing.path = PathState::Matched;
    let Ok(found) = search(x, plan, &server.locations) else { return Step::Status(500) };
    match found {
        SearchResult::Prefix(id) | SearchResult::Final(id) | SearchResult::Redirect(id) => {
            x.routing.location = id
        }
        SearchResult::Nothing => {}
    }
    let location = plan.location(x.routing.location);
    x.debug(|| format!("using location \"{}\"", String::from_utf8_lossy(&location.name)));
    if location.settings.internal && !x.routing.is_internal() {
        return Step::Status(404);
    }
    if let Err(refused) = limit_body(x) {
        return refused.into();
    }
    enter_limit_except(x, location);
    choose_tags(x);
    // Behind the checks above: the redirect is a response of the location that it leads to, with its rules and fields.
    match found {
        SearchResult::Redirect(_) => redirect_to_slash(x),
        _ => Step::Decline,
    }
}

/// Sets the body's limit to the current location's `client_max_body_size`.
///
/// # Errors
/// 413 where the client has announced a larger body.
pub fn limit_body(x: &mut Exchange) -> Result<(), Refused> {
    let max = set_body_limits(x);
    let announced = x.request.body.length.filter(|length| max.is_some_and(|max| *length > max));
    // A subrequest may be in a location with a smaller limit: the client's body is not for that location.
    if let Some(length) = announced.filter(|_| !x.is_subrequest()) {
        x.disposition.close_connection();
        x.request.body.abandon();
        x.log(
            crate::error_log::Level::Error,
            format_args!("client intended to send too large body: {length} bytes"),
        );
        return Err(Refused::CONTENT_TOO_LARGE);
    }
    Ok(())
}

/// Enters the block of `limit_except` of a location that was chosen, where the method is not one of its.
pub(crate) fn enter_limit_except(x: &mut Exchange, location: &Location) {
    if let Some((methods, other)) = location.limit_except
        && methods & x.request.method.bit() == 0
    {
        x.routing.location = other;
    }
}

/// Lets the limits of the request's location hold for its body, as it arrives; returns that of its size.
pub(crate) fn set_body_limits(x: &mut Exchange) -> Option<u64> {
    let settings = x.settings();
    let (max, timeout) = (settings.client_max_body_size, settings.client_body_timeout);
    x.request.body.set_limit(max);
    x.request.body.set_timeout(timeout);
    max
}

/// Redirects `/dir` to `/dir/` where a gateway serves the prefix location `/dir/`.
#[cold]
fn redirect_to_slash(x: &mut Exchange) -> Step<'static> {
    let mut place = Vec::new();
    tidegate_codec::uri::escape(&x.request.path, tidegate_codec::uri::Escape::Uri, &mut place);
    place.push(b'/');
    if !x.request.args.is_empty() {
        place.push(b'?');
        place.extend_from_slice(&x.request.args);
    }
    crate::error_page::redirect_headers(x, &place);
    Step::Status(301)
}
