//! A new server and the second tier of its cache: how much of what another one has stored it serves without the origin.
//!
//! It needs no test bed: two servers, an origin and a client are on loopback, and the store is wherever it is. Its bucket has to
//! exist.

use std::path::{Path, PathBuf};

use super::local::{Server, start};
use super::origin::Origin;

/// The store, and what is measured.
pub(super) struct TierArguments {
    /// `HOST:PORT`.
    pub store: String,
    pub bucket: String,
    /// A file with keys; requests are not signed without one.
    pub credentials: Option<PathBuf>,
    /// The program of both servers.
    pub binary: PathBuf,
    pub objects: u64,
}

/// Part of the objects that the origin must not be asked for.
const GOAL: f64 = 0.95;
const ADDRESSES: [&str; 2] = ["127.0.0.1:18481", "127.0.0.1:18482"];
const ORIGIN: &str = "127.0.0.1:18480";

fn node(
    arguments: &TierArguments,
    directory: &Path,
    address: &'static str,
) -> Result<Server, String> {
    let TierArguments { store, bucket, binary, .. } = arguments;
    let keys = arguments.credentials.as_ref();
    let keys = keys.map_or_else(String::new, |file| format!("credentials={}", file.display()));
    let run = std::process::id();
    let http = format!(
        "proxy_cache_tier t s3://{bucket}/run-{run} endpoint=http://{store} hedge=5s timeout=5s min_uses=2 upload=8 {keys};\n\
         proxy_cache_path {dir}/cache keys_zone=pages:10m tier=t;\n\
         server {{ listen {address};\n\
         location / {{ proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_key $uri; proxy_cache_valid 1h; }}\n\
         location /api {{ api; }} }}",
        dir = directory.display()
    );
    let mut server = start(binary, directory, address, &http)?;
    // It asks for nothing before it knows the purges.
    server.node.until("/api/9/tidegate/tiers/t", "\"lists\":1")?;
    Ok(server)
}

/// Fills the tier by one server, starts another one, and counts what the origin is asked for.
///
/// # Errors
/// In words: a server that does not start, a store that does not take the objects.
pub(super) fn row(arguments: &TierArguments) -> Result<bool, String> {
    let origin = Origin::start(ORIGIN).map_err(|error| format!("{ORIGIN}: {error}"))?;
    let place = std::env::temp_dir().join(format!("tidegate-tier-{}", std::process::id()));
    let measured = measure(arguments, &origin, &place);
    let _ = std::fs::remove_dir_all(&place);
    measured
}

fn measure(arguments: &TierArguments, origin: &Origin, place: &Path) -> Result<bool, String> {
    const TIER: &str = "/api/9/tidegate/tiers/t";
    let objects = arguments.objects;
    let mut one = node(arguments, &place.join("1"), ADDRESSES[0])?;
    for object in 0..objects {
        let target = format!("/object/{object}");
        origin.change(&target);
        for _ in 0..2 {
            one.node.get(&target)?;
        }
        // No more than its queue takes.
        while object % 256 == 0 && one.node.number(TIER, "queued")? > 256 {
            std::thread::yield_now();
        }
    }
    while one.node.number(TIER, "queued")? > 0 || one.node.number(TIER, "uploaded")? < objects {
        if one.node.number(TIER, "not_uploaded")? + one.node.number(TIER, "dropped")? > 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let uploaded = one.node.number(TIER, "uploaded")?;
    let mut two = node(arguments, &place.join("2"), ADDRESSES[1])?;
    let before = origin.requests();
    let mut wrong = 0;
    for object in 0..objects {
        let target = format!("/object/{object}");
        let body = two.node.get(&target)?.body;
        wrong += usize::from(body != origin.version(&target).to_string().into_bytes());
    }
    let asked = origin.requests() - before;
    let without = 1.0 - asked as f64 / objects as f64;
    println!("{:<34} {:>24} {:>24}", "row", "found", "goal");
    println!("{:<34} {uploaded:>24} {objects:>24}", "objects in the tier");
    let found = format!("{:.1} % of {objects}", 100.0 * without);
    println!("{:<34} {found:>24} {:>24}", "a new server, without the origin", "95 %");
    println!("{:<34} {wrong:>24} {:>24}", "  of them wrong", 0);
    Ok(without >= GOAL && wrong == 0)
}
