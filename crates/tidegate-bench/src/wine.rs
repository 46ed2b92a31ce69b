//! The suite depth under Wine: three ways to make sure that a name is a file's own, in one program.
//!
//! A published comparison had a server on Windows lose most of its speed to the first way and get it back by the
//! second, which is not sound. All but the method is the same here: the program, its cache of open
//! files, the directories. The program is one built with the feature `name-rules`.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::config::{SMALL_FILE, directories};
use crate::json::Json;
use crate::load::{Bound, Load, LossPolicy, Mode, Plan, TestRequest};
use crate::machine::{Place, Processors, pin_current_thread};
use crate::options::Options;
use crate::pattern;
use crate::probe;
use crate::procfs;
use crate::report::{align, figures, json_side};
use crate::statistics::Spread;
use crate::suites::depth::DEPTHS;

/// One method to check names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub name: &'static str,
    /// For the program's environment.
    rule: &'static str,
    /// Whether it accepts another spelling of a name, by which it is detected.
    lets_pass: Option<bool>,
}

/// The last is Tidegate's.
pub(crate) const WAYS: [Way; 3] = [
    Way { name: "long name of the whole path", rule: "long", lets_pass: None },
    Way { name: "only paths with a tilde", rule: "tilde", lets_pass: Some(true) },
    Way { name: "own name (Tidegate)", rule: "", lets_pass: Some(false) },
];

/// Requests per second of all rounds: for each way, for files and for names that do not exist, at each depth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rates(pub [[[Vec<f64>; DEPTHS.len()]; 2]; WAYS.len()]);

/// Measures and reports; returns the goals that are not met, as text, if they count.
///
/// # Errors
/// A message: no Wine, or a program that cannot be measured.
pub(crate) fn run(options: &Options, program: &Path) -> Result<Vec<String>, String> {
    let wine = Wine::find(program)?;
    let processors = Processors::choose(options.server_cpu, options.client_cpu);
    let processors = processors.map_err(|error| error.to_string())?;
    let site = Site::new(&wine).map_err(|error| format!("files: {error}"))?;
    let mut rates = Rates::default();
    for round in 1..=options.rounds {
        for (index, way) in WAYS.iter().enumerate() {
            let server = Server::start(&wine, &site, *way, processors.server)?;
            pin_current_thread(Place::one(processors.client)).map_err(|error| error.to_string())?;
            for (kind, by_depth) in rates.0[index].iter_mut().enumerate() {
                for (depth, rates) in DEPTHS.into_iter().zip(by_depth) {
                    let rate = measure(server.address, depth, kind == 0, options);
                    let line = format!(
                        "round {round}: {}, {}, {depth} directories",
                        way.name, KINDS[kind]
                    );
                    match &rate {
                        Ok(rate) => eprintln!("{line}: {rate:.0}/s"),
                        // On a busy machine the slowest methods do not finish.
                        Err(reason) => eprintln!("{line}: failed: {reason}"),
                    }
                    rates.push(rate.unwrap_or(f64::NAN));
                }
            }
        }
    }
    let heading = heading(&wine, options, processors);
    print!("{}", rates.text(&heading));
    if let Some(path) = &options.json {
        let text = format!("{}\n", rates.json(&heading));
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(if options.strict { rates.unmet() } else { Vec::new() })
}

fn heading(wine: &Wine, options: &Options, processors: Processors) -> [(&'static str, String); 4] {
    let (kernel, processor) = procfs::machine();
    let seconds = options.run_time.as_secs_f64();
    let Processors { server, client, .. } = processors;
    let runs = format!(
        "{} rounds of {seconds} s, {} connections; server on CPU {server}, load on CPU {client}",
        options.rounds, options.connections
    );
    let program = format!("{} ({})", wine.program.display(), wine.version);
    [("tidegate", program), ("kernel", kernel), ("processor", processor), ("runs", runs)]
}

/// Requests per second at one depth, after a warm-up in which the response enters the cache.
fn measure(address: SocketAddr, depth: usize, hit: bool, options: &Options) -> Result<f64, String> {
    let name = if hit { FILE } else { "none" };
    let target = format!("{}/{name}", directories(depth));
    let response = probe::ask(address, &target, PATIENCE).map_err(|it| format!("{it:?}"))?;
    let status = if hit { 200 } else { 404 };
    if response.status != status {
        return Err(format!("status {}", response.status));
    }
    let ask = match hit {
        true => TestRequest {
            body: Some(small_file().into()),
            ..TestRequest::counted(target, SMALL_FILE.1)
        },
        false => TestRequest { status, ..TestRequest::counted(target, response.body.len() as u64) },
    };
    let plan = Plan {
        address,
        asks: vec![ask],
        connections: options.connections,
        mode: Mode::KeepAlive,
        loss_policy: LossPolicy::Count,
    };
    let mut load = Load::new(plan).map_err(|error| error.to_string())?;
    let mut run = |duration: Duration| {
        let bound = Bound { duration, requests_max: u64::MAX };
        let outcome = load.run(bound).map_err(|error| error.to_string())?;
        match outcome.first_error.clone() {
            Some(error) => Err(error),
            None => Ok(outcome.requests_per_second()),
        }
    };
    run(WARM_UP)?;
    run(options.run_time)
}

fn small_file() -> Vec<u8> {
    pattern::body(FILE.as_bytes(), SMALL_FILE.1)
}

impl Rates {
    fn at(&self, way: usize, kind: usize, depth: usize) -> &[f64] {
        &self.0[way][kind][depth]
    }

    /// The cost of depth for Tidegate's method: the rate at 55 directories divided by that at one.
    fn flat(&self) -> Option<Spread> {
        Spread::of_ratios(self.at(OWN, 0, DEEP), self.at(OWN, 0, 0))
    }

    /// The cost of querying the whole path at 55 directories: Tidegate's rate divided by that method's.
    fn gain(&self) -> Option<Spread> {
        Spread::of_ratios(self.at(OWN, 0, DEEP), self.at(WHOLE, 0, DEEP))
    }

    fn goals(&self) -> [(&'static str, Option<Spread>, f64); 2] {
        [
            ("Tidegate, 55 directories / 1 directory", self.flat(), FLAT_LEAST),
            ("55 directories, Tidegate / long name of the whole path", self.gain(), GAIN_LEAST),
        ]
    }

    /// Returns the goals that are not met, as text.
    pub(crate) fn unmet(&self) -> Vec<String> {
        let missed = self.goals().into_iter().filter_map(|(name, spread, least)| {
            let median = spread.map_or(0.0, |spread| spread.median);
            (median < least).then(|| format!("{name} is {median:.2}, must be ≥ {least}"))
        });
        missed.collect()
    }

    /// The table: a line for each way, for files and for names that do not exist.
    pub(crate) fn text(&self, heading: &[(&'static str, String)]) -> String {
        let mut lines = vec![["method", "response"].map(str::to_owned).to_vec()];
        lines[0].extend(DEPTHS.map(|depth| format!("{depth} directories")));
        for (way, kinds) in WAYS.iter().zip(&self.0) {
            for (kind, by_depth) in KINDS.iter().zip(kinds) {
                let mut line = vec![way.name.to_owned(), (*kind).to_owned()];
                let cell = |rates: &Vec<f64>| Spread::of(rates).map(|spread| figures(spread, 0));
                line.extend(by_depth.iter().map(|rates| cell(rates).unwrap_or_default()));
                lines.push(line);
            }
        }
        let mut text = String::new();
        for (name, value) in heading {
            text.push_str(&format!("{name:<10} {value}\n"));
        }
        text.push_str(&format!("\nRequests per second; a file of {} bytes.\n\n", SMALL_FILE.1));
        text.push_str(&align(&lines));
        text.push('\n');
        for (name, spread, least) in self.goals() {
            let ratio = spread.map_or_else(|| "-".to_owned(), |spread| figures(spread, 2));
            text.push_str(&format!("{name}: {ratio}, goal ≥ {least}\n"));
        }
        text.push_str(PUBLISHED);
        text
    }

    /// Everything, with each run's figures.
    pub(crate) fn json(&self, heading: &[(&'static str, String)]) -> Json {
        let environment = heading.iter().map(|(name, value)| (*name, Json::text(value)));
        let mut rows = Vec::new();
        for (way, kinds) in WAYS.iter().zip(&self.0) {
            for (kind, by_depth) in KINDS.iter().zip(kinds) {
                for (depth, rates) in DEPTHS.into_iter().zip(by_depth) {
                    rows.push(Json::Object(vec![
                        ("way", Json::text(way.name)),
                        ("response", Json::text(*kind)),
                        ("directories", Json::Number(depth as f64)),
                        ("requests_per_second", json_side(rates)),
                    ]));
                }
            }
        }
        let goals = self.goals().map(|(name, spread, least)| {
            let median = spread.map_or(Json::Null, |spread| Json::Number(spread.median));
            Json::Object(vec![
                ("name", Json::text(name)),
                ("median", median),
                ("least", Json::Number(least)),
            ])
        });
        Json::Object(vec![
            ("environment", Json::Object(environment.collect())),
            ("rows", Json::List(rows)),
            ("goals", Json::List(goals.into())),
        ])
    }
}

/// An installed Wine with its directory, and the program to run by it.
struct Wine {
    path: PathBuf,
    directory: PathBuf,
    program: PathBuf,
    version: String,
}

impl Wine {
    fn find(program: &Path) -> Result<Wine, String> {
        let path: PathBuf = std::env::var_os("WINE").map_or_else(|| WINE.into(), Into::into);
        let directory = std::env::var_os("WINEPREFIX").map(PathBuf::from);
        let directory = directory.filter(|directory| directory.join("drive_c").is_dir());
        let directory =
            directory.ok_or("WINEPREFIX names no directory of Wine's: scripts/windows.sh bench")?;
        let output = Command::new(&path).arg("--version").output();
        let output = output.map_err(|error| format!("{}: {error}", path.display()))?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !program.is_file() {
            return Err(format!("{}: no such program", program.display()));
        }
        Ok(Wine { path, directory, program: program.to_owned(), version })
    }
}

/// The files, at the begin of Wine's drive: its functions take no names of more than 259 characters.
struct Site {
    directory: tempfile::TempDir,
}

impl Site {
    fn new(wine: &Wine) -> io::Result<Site> {
        let drive = wine.directory.join("drive_c");
        let directory = tempfile::Builder::new().prefix("t").rand_bytes(4).tempdir_in(drive)?;
        for depth in DEPTHS {
            let below = directory.path().join(directories(depth).trim_start_matches('/'));
            fs::create_dir_all(&below)?;
            fs::write(below.join(FILE), small_file())?;
        }
        for name in ["conf", "logs"] {
            fs::create_dir(directory.path().join(name))?;
        }
        // The server does not cache files that were just created: its times would not show a change.
        std::thread::sleep(SETTLED);
        Ok(Site { directory })
    }

    /// The directory as the server sees it.
    fn prefix(&self) -> String {
        let name = self.directory.path().file_name().unwrap_or_default();
        format!("C:/{}", name.to_string_lossy())
    }
}

/// A running server; dropping it ends it.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(wine: &Wine, site: &Site, way: Way, cpu: usize) -> Result<Server, String> {
        let failed = |error: io::Error| format!("{}: {error}", wine.program.display());
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let address = address.map_err(failed)?;
        let prefix = site.prefix();
        let text = CONFIGURATION.replace("{listen}", &address.to_string());
        let text = text.replace("{prefix}", &prefix);
        fs::write(site.directory.path().join("conf/nginx.conf"), text).map_err(failed)?;
        // Its child processes inherit the processor.
        pin_current_thread(Place::one(cpu)).map_err(failed)?;
        let mut command = Command::new(&wine.path);
        command.arg(&wine.program).args(["-p", &prefix, "-c", "conf/nginx.conf"]);
        command.env("TIDEGATE_NAMES", way.rule).stdin(Stdio::null());
        let mut server = Server { child: command.spawn().map_err(failed)?, address };
        server.wait_ready()?;
        server.check(way)?;
        Ok(server)
    }

    fn wait_ready(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        while TcpStream::connect_timeout(&self.address, PATIENCE).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server ended at its start: {status}"));
            }
            if begun.elapsed() > READY_MAX {
                return Err("the server does not respond".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Detected by its response to another spelling of a file's name.
    fn check(&self, way: Way) -> Result<(), String> {
        let Some(lets_pass) = way.lets_pass else { return Ok(()) };
        let target = format!("{}/{}", directories(1), FILE.to_uppercase());
        let response = probe::ask(self.address, &target, PATIENCE);
        let status = response.map_err(|failure| format!("{target}: {failure:?}"))?.status;
        match (status == 200) == lets_pass {
            true => Ok(()),
            false => Err(format!(
                "{target}: {status} by the way \"{}\"; was the program built with the feature name-rules?",
                way.name
            )),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CONFIGURATION: &str = "
worker_processes 1;
error_log logs/error.log crit;
pid logs/tidegate.pid;
events { }
http {
    access_log off;
    keepalive_requests 1000000000;
    server { listen {listen}; root {prefix}; }
}
";
const KINDS: [&str; 2] = ["200", "404"];
const FILE: &str = "f.html";
const WINE: &str = "/usr/lib/wine/wine64";
/// Places in [`WAYS`] and in [`DEPTHS`].
const WHOLE: usize = 0;
const OWN: usize = WAYS.len() - 1;
const DEEP: usize = 2;
const FLAT_LEAST: f64 = 0.95;
const GAIN_LEAST: f64 = 5.0;
const WARM_UP: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(10);
const READY_MAX: Duration = Duration::from_secs(60);
const SETTLED: Duration = Duration::from_secs(3);
const PUBLISHED: &str = "Published for a server on Windows: 5645 with the first way and 9591 with the second at \
12 directories, 996 and 9030 at 55.\n";
