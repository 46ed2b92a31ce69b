//! Three servers whose caches are one: how often the origin is asked for an object that clients of all servers want, and for what a lost
//! server had.
//!
//! It needs no test bed: servers, origin and clients are on loopback.

use std::path::{Path, PathBuf};
use std::sync::Barrier;

use super::local::{Server, start};
use super::origin::Origin;

const ADDRESSES: [&str; 3] = ["127.0.0.1:18491", "127.0.0.1:18492", "127.0.0.1:18493"];
const ORIGIN: &str = "127.0.0.1:18490";
/// Clients of each server that want the same object.
const CLIENTS: usize = 100;
/// Objects that they want, one after the other.
const ROUNDS: usize = 20;
/// The part of all objects that may be fetched again when one of three servers is lost: a third, and chance.
const GOAL: f64 = 1.05 / 3.0;

/// What is measured.
pub(super) struct RingArguments {
    /// The program of the servers.
    pub binary: PathBuf,
    pub objects: u64,
}

/// Prints the rows; `false`: a goal is not met.
///
/// # Errors
/// In words: a server that does not start, or does not respond.
pub(super) fn rows(arguments: &RingArguments) -> Result<bool, String> {
    let origin = Origin::start(ORIGIN).map_err(|error| format!("{ORIGIN}: {error}"))?;
    let place = std::env::temp_dir().join(format!("tidegate-ring-{}", std::process::id()));
    let measured = measure(arguments, &origin, &place);
    let _ = std::fs::remove_dir_all(&place);
    measured
}

fn node(arguments: &RingArguments, place: &Path, at: usize) -> Result<Server, String> {
    let (address, directory) = (ADDRESSES[at], place.join(at.to_string()));
    let servers = ADDRESSES.map(|address| format!("server {address} fail_timeout=1h;")).concat();
    let http = format!(
        "upstream ring {{ {servers} }}\n\
         proxy_cache_path {dir}/cache keys_zone=pages:10m;\n\
         server {{ listen {address};\n\
         location / {{ proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_key $uri; proxy_cache_valid 1h;\n\
         proxy_cache_peers ring self={address}; }}\n\
         location /api {{ api; }} }}",
        dir = directory.display()
    );
    let mut server = start(&arguments.binary, &directory, address, &http)?;
    server.node.until("/api/9/tidegate/cache_peers/ring", "\"asked\":0")?;
    Ok(server)
}

fn measure(arguments: &RingArguments, origin: &Origin, place: &Path) -> Result<bool, String> {
    let mut servers = Vec::new();
    for at in 0..ADDRESSES.len() {
        servers.push(node(arguments, place, at)?);
    }
    println!("{:<34} {:>24} {:>24}", "row", "found", "goal");
    let wrong = one_object(&servers, origin)?;
    let fetched = origin.requests() as f64 / ROUNDS as f64;
    let name = format!("one object, 3 x {CLIENTS} clients");
    println!("{name:<34} {:>24} {:>24}", format!("{fetched:.2} fetches"), "1.00");
    println!("{:<34} {wrong:>24} {:>24}", "  responses that are wrong", 0);
    let objects = arguments.objects;
    for object in 0..objects {
        servers[(object % 3) as usize].node.get(&format!("/object/{object}"))?;
    }
    let before = origin.requests();
    // The last one is lost.
    drop(servers.pop());
    let mut errors = 0;
    for object in 0..objects {
        let response = servers[(object % 2) as usize].node.get(&format!("/object/{object}"))?;
        errors += usize::from(response.status != 200);
    }
    let part = (origin.requests() - before) as f64 / objects as f64;
    let found = format!("{:.1} % of {objects}", 100.0 * part);
    println!("{:<34} {found:>24} {:>24}", "a lost server, fetched again", "a third");
    println!("{:<34} {errors:>24} {:>24}", "  responses that are errors", 0);
    Ok(fetched == 1.0 && wrong == 0 && part <= GOAL && errors == 0)
}

/// Lets clients of all servers ask for the same object at the same moment, several times. Returns how many got something else.
fn one_object(servers: &[Server], origin: &Origin) -> Result<usize, String> {
    let mut wrong = 0;
    let together = Barrier::new(servers.len() * CLIENTS);
    for round in 0..ROUNDS {
        let target = format!("/new/{round}");
        let version = origin.change(&target).to_string().into_bytes();
        let ask = |server: &Server| {
            let mut client = server.node.again();
            let (together, target, version) = (&together, &target, &version);
            move || {
                // The connection is there before.
                let known = client.get("/api");
                together.wait();
                known.and_then(|_| client.get(target)).map(|response| response.body == *version)
            }
        };
        let results: Vec<Result<bool, String>> = std::thread::scope(|scope| {
            let clients = servers.iter().flat_map(|server| (0..CLIENTS).map(move |_| server));
            let threads: Vec<_> = clients.map(|server| scope.spawn(ask(server))).collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended.map(|one| one.unwrap_or_else(|_| Err("a client ended".to_owned()))).collect()
        });
        for result in results {
            wrong += usize::from(!result?);
        }
    }
    Ok(wrong)
}
