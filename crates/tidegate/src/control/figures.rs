//! `status`, `top`, `metrics`: the server's figures, as sums and as rates.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_rt::timer::pause;

use super::Session;
use super::failure::Failure;
use super::screen::{Screen, bytes, members, number, text};

/// Rows of a table; the rest is counted.
const ROWS_MAX: usize = 40;

/// `status`.
pub(super) fn status(session: &Session) -> Result<(), Failure> {
    session.given.no_words()?;
    let now = session.client()?.get(SNAPSHOT)?;
    if session.json() {
        return session.screen.json(&now);
    }
    show(&session.screen, &now, None)
}

const SNAPSHOT: &str = "tidegate/snapshot";

/// `top`.
pub(super) fn top(session: &Session) -> Result<(), Failure> {
    session.given.no_words()?;
    let interval = match session.given.value("interval") {
        None => 1,
        Some(text) => text
            .parse()
            .ok()
            .filter(|seconds| (1..=60).contains(seconds))
            .ok_or_else(|| Failure::Usage(format!("invalid interval \"{text}\"")))?,
    };
    let client = session.client()?;
    let once = session.given.flag("once") || !session.screen.is_terminal;
    let mut before = client.get(SNAPSHOT)?;
    loop {
        pause(Duration::from_secs(interval));
        let now = client.get(SNAPSHOT)?;
        session.screen.clear()?;
        match session.json() {
            true => session.screen.json(&json!({ "before": before, "now": now }))?,
            false => show(&session.screen, &now, Some(&before))?,
        }
        if once {
            return Ok(());
        }
        before = now;
    }
}

/// `metrics`.
pub(super) fn metrics(session: &Session) -> Result<(), Failure> {
    session.given.no_words()?;
    if session.json() {
        return Err(Failure::Usage("metrics are text; \"tidegate status --json\" is JSON".into()));
    }
    let text = session.client()?.metrics()?;
    session.screen.text(&text)
}

/// `certs`.
pub(super) fn certs(session: &Session) -> Result<(), Failure> {
    session.given.no_words()?;
    let all = session.client()?.get("tidegate/certificates")?;
    if session.json() {
        return session.screen.json(&all);
    }
    let mut rows: Vec<(i64, Vec<String>)> = Vec::new();
    for (file, certificate) in all.as_object().into_iter().flatten() {
        // One that is ordered and was not there before has no end.
        let left = certificate["seconds_left"].as_i64();
        let words = |name: &str| {
            let all = certificate[name].as_array().into_iter().flatten();
            all.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
        };
        rows.push((
            left.unwrap_or(i64::MIN),
            vec![
                words("names"),
                text(certificate, "/issuer").to_owned(),
                text(certificate, "/expires").to_owned(),
                left.map_or_else(String::new, days),
                words("servers"),
                text(certificate, "/acme/state").to_owned(),
                file.clone(),
            ],
        ));
    }
    if rows.is_empty() {
        return session.screen.line("no server has a certificate in a file");
    }
    // What ends first is first.
    rows.sort_by_key(|(left, _)| *left);
    let titles = ["names", "issuer", "not after", "left", "servers", "acme", "file"];
    limited(&session.screen, &titles, rows.into_iter().map(|(_, row)| row).collect())
}

fn days(seconds: i64) -> String {
    match seconds {
        ..=0 => "expired".to_owned(),
        1..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Prints all parts: sums, or rates between two snapshots.
fn show(screen: &Screen, now: &Value, before: Option<&Value>) -> Result<(), Failure> {
    screen.line(&headline(now))?;
    let figures = Figures::new(now, before);
    let one = |key: &str, path: &str| number(&now[key], path);
    screen.line(&format!(
        "connections: {} active, {} idle, {} accepted{}, {} dropped",
        one("connections", "/active"),
        one("connections", "/idle"),
        figures.count("connections", "/accepted"),
        figures.unit(),
        one("connections", "/dropped"),
    ))?;
    screen.line(&format!(
        "requests: {} in progress, {}{}",
        one("http/requests", "/current"),
        figures.count("http/requests", "/total"),
        figures.unit(),
    ))?;
    if let Some(percent) = figures.processor() {
        screen.line(&format!("processor: {percent:.0} %"))?;
    }
    for (title, key) in [
        ("server zone", "http/server_zones"),
        ("location zone", "http/location_zones"),
        ("stream zone", "stream/server_zones"),
    ] {
        figures.zones(screen, title, key)?;
    }
    figures.groups(screen, "upstream server", "http/upstreams")?;
    figures.groups(screen, "stream upstream server", "stream/upstreams")?;
    figures.caches(screen)
}

fn headline(now: &Value) -> String {
    let nginx = &now["nginx"];
    format!(
        "tidegate {}: process {}, generation {} since {}",
        text(nginx, "/version"),
        number(nginx, "/pid"),
        number(nginx, "/generation"),
        text(nginx, "/load_timestamp")
    )
}

/// Two snapshots, or one.
struct Figures<'a> {
    now: &'a Value,
    before: Option<&'a Value>,
    /// Seconds between the two.
    seconds: f64,
}

impl<'a> Figures<'a> {
    fn new(now: &'a Value, before: Option<&'a Value>) -> Figures<'a> {
        let at = |snapshot: &Value| number(&snapshot["api"], "/time_ms");
        let millis = before.map_or(0, |before| at(now).saturating_sub(at(before)));
        Figures { now, before, seconds: (millis as f64 / 1000.0).max(0.001) }
    }

    fn unit(&self) -> &'static str {
        if self.before.is_some() { " a second" } else { "" }
    }

    /// Returns how much a counter has grown; itself without an earlier snapshot. One that was reset begins anew.
    fn grown(&self, now: u64, find: impl Fn(&Value) -> u64) -> u64 {
        match self.before {
            None => now,
            Some(before) => now.checked_sub(find(before)).unwrap_or(now),
        }
    }

    fn rate(&self, grown: u64) -> f64 {
        grown as f64 / self.seconds
    }

    /// Returns a counter, or its rate, as text.
    fn shown(&self, grown: u64) -> String {
        match self.before {
            None => grown.to_string(),
            Some(_) => format!("{:.1}", self.rate(grown)),
        }
    }

    fn shown_bytes(&self, grown: u64) -> String {
        match self.before {
            None => bytes(grown),
            Some(_) => format!("{}/s", bytes(self.rate(grown) as u64)),
        }
    }

    fn count(&self, key: &str, path: &str) -> String {
        let of = |snapshot: &Value| number(&snapshot[key], path);
        self.shown(self.grown(of(self.now), of))
    }

    /// Returns the processor time between the snapshots, of one processor.
    fn processor(&self) -> Option<f64> {
        let of = |snapshot: &Value| number(&snapshot["api"], "/cpu_ms");
        let before = self.before?;
        let grown = of(self.now).saturating_sub(of(before));
        Some(grown as f64 / 10.0 / self.seconds)
    }

    fn zones(&self, screen: &Screen, title: &str, key: &str) -> Result<(), Failure> {
        // Sessions have a counter of another name.
        let total = |zone: &Value| number(zone, "/requests") + number(zone, "/connections");
        let of = |name: &str, path: &str, zone: &Value| {
            self.grown(number(zone, path), |before| number(&before[key][name], path))
        };
        let mut rows: Vec<(u64, Vec<String>)> = members(self.now, key)
            .map(|(name, zone)| {
                let grown = self.grown(total(zone), |before| total(&before[key][name]));
                let mut row = vec![name.clone(), self.shown(grown)];
                row.push(number(zone, "/processing").to_string());
                let counters = if zone["responses"].is_object() { "responses" } else { "sessions" };
                for class in ["2xx", "3xx", "4xx", "5xx"] {
                    row.push(self.shown(of(name, &format!("/{counters}/{class}"), zone)));
                }
                row.push(self.shown_bytes(of(name, "/received", zone)));
                row.push(self.shown_bytes(of(name, "/sent", zone)));
                (grown, row)
            })
            .collect();
        rows.sort_by_key(|(grown, _)| std::cmp::Reverse(*grown));
        let titles = [title, "requests", "now", "2xx", "3xx", "4xx", "5xx", "received", "sent"];
        limited(screen, &titles, rows.into_iter().map(|(_, row)| row).collect())
    }

    fn groups(&self, screen: &Screen, title: &str, key: &str) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for (group, value) in members(self.now, key) {
            for (place, peer) in value["peers"].as_array().into_iter().flatten().enumerate() {
                let total = |peer: &Value| number(peer, "/requests") + number(peer, "/connections");
                let grown = self.grown(total(peer), |before| {
                    let known = &before[key][group.as_str()]["peers"][place];
                    if known["id"] == peer["id"] { total(known) } else { total(peer) }
                });
                rows.push(vec![
                    format!("{group} {} {}", number(peer, "/id"), text(peer, "/server")),
                    text(peer, "/state").to_owned(),
                    number(peer, "/weight").to_string(),
                    number(peer, "/active").to_string(),
                    self.shown(grown),
                    number(peer, "/fails").to_string(),
                    number(peer, "/unavail").to_string(),
                    bytes(number(peer, "/received")),
                ]);
            }
        }
        let titles = [title, "state", "weight", "now", "requests", "fails", "unavail", "received"];
        limited(screen, &titles, rows)
    }

    fn caches(&self, screen: &Screen) -> Result<(), Failure> {
        let rows = members(self.now, "http/caches").map(|(name, cache)| {
            let of = |kinds: &[&str], cache: &Value| -> u64 {
                kinds.iter().map(|kind| number(cache, &format!("/{kind}/responses"))).sum()
            };
            let grown = |kinds: &[&str]| {
                self.grown(of(kinds, cache), |before| of(kinds, &before["http/caches"][name]))
            };
            let (served, fetched) = (grown(SERVED), grown(FETCHED));
            vec![
                name.clone(),
                bytes(number(cache, "/size")),
                cache
                    .get("max_size")
                    .map_or_else(String::new, |_| bytes(number(cache, "/max_size"))),
                self.shown(served),
                self.shown(fetched),
                ratio(served, fetched),
            ]
        });
        limited(screen, &["cache", "size", "max", "served", "fetched", "hits"], rows.collect())
    }
}

/// Responses from a cache, and those from an origin.
pub(super) const SERVED: &[&str] = &["hit", "stale", "updating", "revalidated"];
pub(super) const FETCHED: &[&str] = &["miss", "expired", "bypass"];

/// Returns the share of responses from the cache.
pub(super) fn ratio(served: u64, fetched: u64) -> String {
    match served + fetched {
        0 => String::new(),
        all => format!("{:.1} %", served as f64 * 100.0 / all as f64),
    }
}

/// Prints a table's first rows.
pub(super) fn limited(
    screen: &Screen,
    titles: &[&str],
    mut rows: Vec<Vec<String>>,
) -> Result<(), Failure> {
    let more = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    screen.table(titles, &rows)?;
    match more {
        0 => Ok(()),
        more => screen.line(&format!("… and {more} more; --json prints all")),
    }
}
