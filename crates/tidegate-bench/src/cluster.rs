//! Three servers that share limits and purges, on the test bed of `scripts/cluster.sh`: what is admitted together, what the
//! engine's faults cost, whether a purge is ever missed, and how soon the servers of a group change. Counts are judged, and times that are far above what a busy
//! machine adds.

mod client;
mod clocks;
mod discovery;
mod envoy;
mod fail_over;
mod faults;
mod limits;
mod local;
mod origin;
mod purges;
mod ring;
mod tier;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::procfs;
use client::Node;
use envoy::Programs;
use origin::Origin;
use ring::RingArguments;
use tier::TierArguments;

/// The addresses of the test bed.
const NODES: [&str; 3] = ["10.99.0.1:80", "10.99.0.2:80", "10.99.0.3:80"];
const ORIGIN: &str = "10.99.0.12:9000";
/// The interval of `zone_sync_store`.
const INTERVAL: Duration = Duration::from_millis(50);

/// The parts of a run, in their order: the last two start servers and engine in another way.
const PARTS: [&str; 8] =
    ["limits", "wait", "envoy", "discovery", "purges", "faults", "clocks", "fail-over"];

/// What the command line asks for.
struct Arguments {
    script: PathBuf,
    purges: usize,
    partitions: usize,
    seconds: u64,
    /// `--only PART`, of [`PARTS`]; all if there is none.
    only: Vec<String>,
    /// `--envoy PATH --ratelimit PATH`.
    envoy: Option<PathBuf>,
    ratelimit: Option<PathBuf>,
    /// `--ring`: those rows alone, without the test bed.
    ring: bool,
    /// `--tier HOST:PORT`: that row alone, without the test bed.
    tier: Option<String>,
    bucket: String,
    credentials: Option<PathBuf>,
    tidegate: PathBuf,
    objects: u64,
}

/// The bed, and what has been found.
pub(super) struct Bed {
    script: PathBuf,
    nodes: Vec<Node>,
    origin: Origin,
    unmet: usize,
}

/// Runs `tidegate-bench cluster …`; `None` for any other command line. `false`: a goal is not met.
///
/// # Errors
/// In words: a wrong argument, a bed that does not serve.
pub(crate) fn run(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Option<Result<bool, String>> {
    let parser = crate::options::subcommand("cluster", arguments)?;
    Some(parse(parser).map_err(|error| error.to_string()).and_then(|arguments| measure(&arguments)))
}

fn parse(mut parser: lexopt::Parser) -> Result<Arguments, lexopt::Error> {
    use lexopt::prelude::*;
    let script = "scripts/cluster.sh".into();
    let mut arguments = Arguments {
        script,
        purges: 1000,
        partitions: 10,
        seconds: 12,
        only: Vec::new(),
        envoy: None,
        ratelimit: None,
        ring: false,
        tier: None,
        bucket: "tidegate".to_owned(),
        credentials: None,
        tidegate: "target/release/tidegate".into(),
        objects: 10_000,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("script") => arguments.script = parser.value()?.into(),
            Long("purges") => arguments.purges = parser.value()?.parse()?,
            Long("partitions") => arguments.partitions = parser.value()?.parse()?,
            Long("only") => arguments.only.push(parser.value()?.string()?),
            Long("envoy") => arguments.envoy = Some(parser.value()?.into()),
            Long("ratelimit") => arguments.ratelimit = Some(parser.value()?.into()),
            Long("ring") => arguments.ring = true,
            Long("tier") => arguments.tier = Some(parser.value()?.string()?),
            Long("bucket") => arguments.bucket = parser.value()?.string()?,
            Long("credentials") => arguments.credentials = Some(parser.value()?.into()),
            Long("tidegate") => arguments.tidegate = parser.value()?.into(),
            Long("objects") => arguments.objects = parser.value()?.parse()?,
            Long("seconds") => arguments.seconds = parser.value()?.parse()?,
            other => return Err(other.unexpected()),
        }
    }
    if arguments.envoy.is_some() != arguments.ratelimit.is_some() {
        return Err("--envoy and --ratelimit need each other".to_owned().into());
    }
    if let Some(part) = arguments.only.iter().find(|part| !PARTS.contains(&part.as_str())) {
        return Err(format!("there is no part \"{part}\", only {}", PARTS.join(", ")).into());
    }
    if arguments.objects == 0 {
        return Err("--objects is at least 1".to_owned().into());
    }
    if arguments.seconds < limits::SECONDS_MIN || arguments.partitions == 0 {
        let message = format!("--seconds is at least {}, --partitions 1", limits::SECONDS_MIN);
        return Err(message.into());
    }
    Ok(arguments)
}

fn measure(arguments: &Arguments) -> Result<bool, String> {
    if arguments.ring {
        let (binary, objects) = (arguments.tidegate.clone(), arguments.objects);
        return ring::rows(&RingArguments { binary, objects });
    }
    if let Some(store) = &arguments.tier {
        return tier::row(&TierArguments {
            store: store.clone(),
            bucket: arguments.bucket.clone(),
            credentials: arguments.credentials.clone(),
            binary: arguments.tidegate.clone(),
            objects: arguments.objects,
        });
    }
    let origin = Origin::start(ORIGIN).map_err(|error| format!("{ORIGIN}: {error}"))?;
    let nodes = NODES.iter().map(|address| Node::new(address)).collect();
    let mut bed = Bed { script: arguments.script.clone(), nodes, origin, unmet: 0 };
    for node in &mut bed.nodes {
        node.until("/api/9/tidegate/stores/default", "\"nodes\":3")?;
        node.until("/api/9/http/caches/pages", "\"state\":\"following\"")?;
    }
    println!("{:<34} {:>24} {:>24}", "row", "found", "goal");
    let envoy = arguments.envoy.clone().zip(arguments.ratelimit.clone());
    let programs = envoy.map(|(envoy, ratelimit)| Programs { envoy, ratelimit });
    let seconds = arguments.seconds;
    for part in PARTS {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|only| only == part) {
            continue;
        }
        match part {
            "limits" => limits::rows(&mut bed, seconds)?,
            "wait" => limits::exact(&mut bed, seconds)?,
            "envoy" => envoy::rows(&mut bed, seconds, programs.as_ref())?,
            "discovery" => discovery::times(&mut bed)?,
            "purges" => purges::rows(&mut bed, arguments.purges, arguments.partitions)?,
            "faults" => faults::rows(&mut bed)?,
            "clocks" => clocks::rows(&mut bed, seconds)?,
            _ => fail_over::rows(&mut bed, seconds)?,
        }
    }
    Ok(bed.unmet == 0)
}

impl Bed {
    /// Prints a row.
    pub(super) fn row(&mut self, name: &str, found: &str, goal: &str, met: bool) {
        println!("{name:<34} {found:>24} {goal:>24}{}", if met { "" } else { "  not met" });
        self.unmet += usize::from(!met);
    }

    /// Causes a fault, or ends it.
    pub(super) fn fault(&self, words: &[&str]) -> Result<(), String> {
        self.script("fault", words)
    }

    /// Runs a command of the script.
    pub(super) fn script(&self, name: &str, words: &[&str]) -> Result<(), String> {
        let done = Command::new(&self.script).arg(name).args(words).status();
        match done {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{name} {words:?}: {status}")),
            Err(error) => Err(format!("{}: {error}", self.script.display())),
        }
    }

    /// Returns the ids of processes and of what they have started.
    pub(super) fn processes(&self, what: &str) -> Result<Vec<i32>, String> {
        let done = Command::new(&self.script).args(["processes", what]).output();
        let done = done.map_err(|error| format!("{}: {error}", self.script.display()))?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let mut all = Vec::new();
        for id in text.split_whitespace() {
            let id = id.parse().map_err(|_| format!("processes {what}: {text}"))?;
            all.extend(procfs::family(id).map_err(|error| format!("process {id}: {error}"))?);
        }
        if all.is_empty() { Err(format!("there are no processes \"{what}\"")) } else { Ok(all) }
    }
}
