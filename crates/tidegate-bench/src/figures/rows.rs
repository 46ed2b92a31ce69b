//! The rows, each with its goal.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::collector;
use super::config::{self, PEERS, ZONES};
use super::target::{PAUSE, Target, fetch, sum_of};
use super::{Context, Row};
use crate::instructions;
use crate::load::Bound;

/// Connections of loads.
const CONNECTIONS: usize = 32;
/// The longest run of a load with a number of requests.
const LONG: Duration = Duration::from_secs(600);

/// Requests that were responded, beside the sums of the zones, over reloads.
pub(super) fn sums(context: &Context) -> Result<Vec<Row>, String> {
    let target = Target::start(context, config::counted)?;
    let stop = AtomicBool::new(false);
    let (wanted, requests) = (context.scale.reloads, context.scale.requests);
    let (outcome, reloads) = thread::scope(|scope| {
        let reloads = scope.spawn(|| reload(&target, wanted, &stop));
        let bound = Bound { duration: LONG, requests_max: requests };
        let outcome = target.load(["/a", "/b", "/c"].map(str::to_owned), CONNECTIONS, bound);
        stop.store(true, Ordering::Relaxed);
        (outcome, reloads.join().unwrap_or_else(|_| Err("a thread ended".to_owned())))
    });
    let (responded, reloads) = (outcome?.requests, reloads?);
    let of_server =
        target.wait_for("tidegate_server_responses_total", "zone=\"all\"", responded)?;
    let of_locations = target.wait_for("tidegate_location_responses_total", "", responded)?;
    Ok(vec![Row {
        name: "sums of zones",
        goal: format!("{requests} over {wanted} reloads, exactly"),
        figure: format!("{of_server} and {of_locations} of {responded}, {reloads} reloads"),
        met: (of_server, of_locations, reloads) == (responded, responded, wanted)
            && responded == requests,
    }])
}

/// Reloads again and again, each time until the configuration is in use; returns how often, before `stop`.
fn reload(target: &Target, wanted: u32, stop: &AtomicBool) -> Result<u32, String> {
    let first = target.sum("tidegate_generation", "")?;
    for done in 0..wanted {
        if stop.load(Ordering::Relaxed) {
            return Ok(done);
        }
        target.reload();
        target.wait_for("tidegate_generation", "", first + u64::from(done) + 1)?;
        thread::sleep(PAUSE);
    }
    Ok(wanted)
}

/// Instructions of a request with zones of its server and its location, beside one without.
pub(super) fn counting(context: &Context) -> Result<Vec<Row>, String> {
    let count = |name: &str| instructions::count_of(name, &context.tidegate);
    let (name, goal) = ("cost of counting", "at most 1 % of a request's instructions".to_owned());
    let (plain, counted) = match (count("fixed-location"), count("fixed-counted")) {
        (Ok(plain), Ok(counted)) => (plain, counted),
        (Err(reason), _) | (_, Err(reason)) => {
            return Ok(vec![Row {
                name,
                goal,
                figure: format!("not measured: {reason}"),
                met: true,
            }]);
        }
    };
    let part = (counted as f64 / plain as f64 - 1.0) * 100.0;
    let figure = format!("{part:.2} % ({counted} beside {plain})");
    Ok(vec![Row { name, goal, figure, met: part <= 1.0 }])
}

/// Memory of a zone, and of each thread that counts in it.
pub(super) fn memory(context: &Context) -> Result<Vec<Row>, String> {
    let target = Target::start(context, config::keyed)?;
    let half = ZONES / 2;
    let load = |first: usize, connections: usize| {
        let targets = (first..first + half).map(|z| format!("/?z={z}"));
        let bound = Bound { duration: LONG, requests_max: (connections * half) as u64 };
        target.load(targets, connections, bound)?;
        target.memory()
    };
    // The first half makes what there is once, for both threads.
    let before = load(0, CONNECTIONS)?;
    let one = load(half, 1)?;
    let both = load(half, CONNECTIONS)?;
    let part = |bytes: u64, less: u64| bytes.saturating_sub(less) as f64 / half as f64;
    let each = part(both, one);
    Ok(vec![Row {
        name: "memory of a zone and thread",
        goal: "at most 1024 bytes".to_owned(),
        figure: format!("{each:.0} bytes, and {:.0} of each zone", part(one, before) - each),
        met: each <= 1024.0,
    }])
}

/// Responses with very many servers and zones, and iterations of the event loops meanwhile.
pub(super) fn responses(context: &Context) -> Result<Vec<Row>, String> {
    let target = Target::start(context, config::large)?;
    let bound = Bound { duration: LONG, requests_max: ZONES as u64 };
    target.load((0..ZONES).map(|z| format!("/?z={z}")), 1, bound)?;
    let long = |target: &Target| -> Result<[u64; 2], String> {
        let (text, _) = fetch(target.addresses.figures, "/own")?;
        let text = String::from_utf8_lossy(&text);
        let names = ["tidegate_loop_long_cpu_turns_total", "tidegate_loop_long_turns_total"];
        Ok(names.map(|name| sum_of(&text, name, "")))
    };
    // Once: what a first response makes is not measured.
    fetch(target.addresses.figures, "/all")?;
    let before = long(&target)?;
    let mut rows = Vec::new();
    for (name, path) in [
        ("response of /api/9/http/upstreams", "/api/9/http/upstreams"),
        ("response of /tidegate/snapshot", "/api/9/tidegate/snapshot"),
        ("response of a zone by its name", "/api/9/http/location_zones/7"),
        ("response of metrics", "/own"),
    ] {
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..context.scale.rounds {
            let (body, time) = fetch(target.addresses.figures, path)?;
            (bytes, _) = (body.len(), times.push(time));
        }
        times.sort();
        let median = times[times.len() / 2];
        let size = bytes as f64 / 1e6;
        rows.push(Row {
            name,
            goal: format!("100 ms with {PEERS} servers, {ZONES} zones"),
            figure: format!("{:.1} ms for {size:.1} MB", millis(median)),
            met: median <= Duration::from_millis(100),
        });
    }
    let after = long(&target)?;
    let [cpu, turns] = std::array::from_fn(|which| after[which] - before[which]);
    rows.push(Row {
        name: "iterations meanwhile",
        goal: "none above 2 ms of processor time".to_owned(),
        // A thread that does not run for a while, on a busy machine, has long iterations too.
        figure: format!("{cpu} above 2 ms, {turns} by the clock"),
        met: cpu == 0,
    });
    Ok(rows)
}

/// Processor time of ten pages that are open.
pub(super) fn viewers(context: &Context) -> Result<Vec<Row>, String> {
    let target = Target::start(context, config::usual)?;
    let address = target.addresses.figures;
    fetch(address, "/status")?;
    fetch(address, "/api/9/tidegate/history")?;
    let (before, begun) = (target.cpu(), Instant::now());
    let end = begun + context.scale.time;
    let asked: Result<Vec<u64>, String> = thread::scope(|scope| {
        let viewer = |_| {
            scope.spawn(move || {
                let mut asked = 0;
                while Instant::now() < end {
                    fetch(address, "/api/9/tidegate/snapshot")?;
                    asked += 1;
                    thread::sleep(Duration::from_secs(1));
                }
                Ok(asked)
            })
        };
        let viewers: Vec<_> = (0..10).map(viewer).collect();
        let ended = |viewer: thread::ScopedJoinHandle<'_, Result<u64, String>>| {
            viewer.join().unwrap_or_else(|_| Err("a thread ended".to_owned()))
        };
        viewers.into_iter().map(ended).collect()
    });
    let (asked, time) = (asked?.iter().sum::<u64>(), begun.elapsed());
    let share = (target.cpu() - before).as_secs_f64() / time.as_secs_f64() * 100.0;
    Ok(vec![Row {
        name: "ten viewers of the page",
        goal: "at most 2 % of a processor".to_owned(),
        figure: format!("{share:.2} %, {asked} snapshots"),
        met: share <= 2.0,
    }])
}

/// Latency with spans for a collector that accepts connections and never responds, beside one that takes them. What spans
/// cost is shown as well.
pub(super) fn collector(context: &Context) -> Result<Vec<Row>, String> {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    let silent_at = silent.local_addr().map_err(|error| error.to_string())?;
    let (taking_at, taken) = collector::start().map_err(|error| error.to_string())?;
    let traced = |collector| Target::start(context, |at, path| config::traced(at, path, collector));
    let (without, alive, dead) =
        (traced(None)?, traced(Some(taking_at))?, traced(Some(silent_at))?);
    let p99 = |target: &Target| {
        let bound = Bound { duration: context.scale.time, requests_max: u64::MAX };
        let outcome = target.load(["/".to_owned()], 4, bound)?;
        Ok(outcome.latency.quantile(0.99).as_secs_f64())
    };
    let compared = |one: &Target, other: &Target| {
        let ratio = alternate(context, |is_other| p99(if is_other { other } else { one }))?;
        Ok::<_, String>((ratio - 1.0) * 100.0)
    };
    let of_spans = compared(&without, &alive)?;
    let of_silence = compared(&alive, &dead)?;
    let taken = taken.load(Ordering::Relaxed);
    Ok(vec![Row {
        name: "p99 with a silent collector",
        goal: "within 1 % of that with another one".to_owned(),
        figure: format!("{of_silence:+.1} %; spans alone {of_spans:+.1} %, {taken} exports"),
        met: of_silence <= 1.0 && taken > 0,
    }])
}

/// Requests while metrics are read every 10 ms, beside requests alone.
pub(super) fn scrapes(context: &Context) -> Result<Vec<Row>, String> {
    let target = Target::start(context, config::counted)?;
    let address = target.addresses.figures;
    let (mut failed, mut responded) = (0, 0);
    let ratio = alternate(context, |is_with| {
        let stop = AtomicBool::new(!is_with);
        thread::scope(|scope| {
            let scraper = scope.spawn(|| {
                let (mut responded, mut failed) = (0_u64, 0_u64);
                while !stop.load(Ordering::Relaxed) {
                    match fetch(address, "/all") {
                        Ok(_) => responded += 1,
                        Err(_) => failed += 1,
                    }
                    thread::sleep(Duration::from_millis(10));
                }
                (responded, failed)
            });
            let bound = Bound { duration: context.scale.time, requests_max: u64::MAX };
            let outcome = target.load(["/a".to_owned()], 4, bound);
            stop.store(true, Ordering::Relaxed);
            let (good, bad) = scraper.join().unwrap_or((0, 1));
            (responded, failed) = (responded + good, failed + bad);
            Ok(outcome?.requests_per_second())
        })
    })?;
    Ok(vec![Row {
        name: "metrics read every 10 ms",
        goal: "all responded, 80 % of the requests".to_owned(),
        figure: format!("{failed} of {responded} failed, {:.0} % of the requests", ratio * 100.0),
        met: failed == 0 && responded > 0 && ratio >= 0.8,
    }])
}

/// Measures without and with in turns; returns the ratio of the medians.
fn alternate(
    context: &Context,
    mut measure: impl FnMut(bool) -> Result<f64, String>,
) -> Result<f64, String> {
    let mut sides = [Vec::new(), Vec::new()];
    for _ in 0..context.scale.rounds {
        for (side, is_with) in [false, true].into_iter().enumerate() {
            sides[side].push(measure(is_with)?);
        }
    }
    let [without, with] = sides.map(|mut side| {
        side.sort_by(f64::total_cmp);
        side[side.len() / 2]
    });
    Ok(with / without.max(f64::MIN_POSITIVE))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
