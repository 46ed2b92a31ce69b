//! The blocking suite: application code beside an event loop. On Tidegate's side it is a handler in the
//! server (the example crate), on nginx's side PHP behind FastCGI, with the same pages.
//!
//! PHP runs on the servers' processor, as handlers do: rates and costs are those of the whole.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::quick::{disturbance, new_load, run_checked};
use super::{Better, CaseReport, Context, Measure, Sample, alternate};
use crate::config::{COLD_FILE, DOCUMENT_BYTES, PHP_SOCKET, SMALL_FILE, Scenario};
use crate::load::{Ask, Bound, Mode, Outcome, Plan, Unanswered};
use crate::machine::Place;
use crate::procfs::{self, CpuTime};
use crate::server::{Binary, Job, Server};
use crate::statistics::Limit;

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub name: &'static str,
    pub about: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Document,
    Isolation,
    Cold,
}

/// The suite's table.
pub const CASES: [Case; 3] = [
    Case {
        name: "document",
        about: "a page of 10 kB made for each request: a Rust handler, beside nginx with php-fpm",
        kind: Kind::Document,
    },
    Case {
        name: "isolation",
        about: "a small file while 100 clients keep 100 ms of blocking work busy, and without them",
        kind: Kind::Isolation,
    },
    Case {
        name: "cold",
        about: "a small file while 64 MiB that the page cache lacks are read, and without that",
        kind: Kind::Cold,
    },
];

/// At least twice the rate of nginx with php-fpm, so at most half its cost.
const DOCUMENT_COST_RATIO: f64 = 0.5;
/// At least 0.60 of the rate of `return`: its rate by the handler's.
const RETURN_BY_DOCUMENT: Limit = Limit::MedianAtMost(1.67);
/// Static latency with blocking load by that without.
const ISOLATION: Limit = Limit::MedianAtMost(1.3);

const LATENCIES: [Measure; 5] = [
    Measure::new("p99 alone", "µs", 0),
    Measure::new("p99 beside it", "µs", 0),
    Measure::new("longest beside it", "µs", 0),
    Measure::new("p99 beside it / alone", "", 2),
    Measure::new("requests/s beside it", "", 0).better(Better::Higher),
];

impl Case {
    /// Measures both sides.
    pub fn measure(&self, context: &Context) -> CaseReport {
        let mut latencies = LATENCIES;
        let report = match self.kind {
            Kind::Document => {
                let cost = Measure::new("CPU per request, application too", "µs", 2);
                let measures = [
                    Measure { target: Some(DOCUMENT_COST_RATIO), ..cost },
                    Measure::new("requests/s", "", 0).better(Better::Higher),
                    Measure::new("p99", "µs", 0),
                    Measure::new("return of that size: requests/s", "", 0).better(Better::Higher),
                    Measure::new("return by document", "", 2).required(RETURN_BY_DOCUMENT),
                    Measure::new(super::quick::OTHERS, "%", 0).better(Better::Neither),
                ];
                alternate(context, self.name, &measures, |binary, ours| {
                    document(context, binary, ours)
                })
            }
            Kind::Isolation => {
                latencies[3] = latencies[3].required(ISOLATION);
                alternate(context, self.name, &latencies, |binary, ours| {
                    beside(context, binary, ours, slow_clients)
                })
            }
            Kind::Cold => alternate(context, self.name, &latencies, |binary, ours| {
                beside(context, binary, ours, cold_reader)
            }),
        };
        CaseReport {
            notes: [report.notes.clone(), disturbance(&report).into_iter().collect()].concat(),
            ..report
        }
    }
}

/// A server with its application.
struct Side {
    server: Server,
    /// Dropped after the server.
    php: Option<Php>,
    ours: bool,
}

impl Side {
    fn start(context: &Context, binary: &Binary, ours: bool) -> Result<Side, String> {
        let job = Job {
            scenario: if ours { Scenario::Handlers } else { Scenario::Php },
            origin: context.origin_address(),
            worker_connections: 4096,
            tempfile_directive: false,
            private_copy: false,
            place: Place::one(context.processors.server),
        };
        let server = Server::start(binary, job)?;
        let php = match ours {
            true => None,
            false => Some(Php::start(server.directory(), context.processors.server)?),
        };
        Ok(Side { server, php, ours })
    }

    fn target(&self, name: &str) -> String {
        format!("/{name}{}", if self.ours { "" } else { ".php" })
    }

    fn cpu_time(&self) -> CpuTime {
        let (server, php) = (self.server.cpu_time(), self.php.as_ref().map(Php::cpu_time));
        let php = php.unwrap_or_default();
        CpuTime { user: server.user + php.user, system: server.system + php.system }
    }

    fn plan(&self, target: String, body_bytes: u64, connections: usize) -> Plan {
        Plan {
            address: self.server.address(),
            asks: vec![Ask::counted(target, body_bytes)],
            connections,
            mode: Mode::KeepAlive,
            unanswered: Unanswered::Count,
        }
    }
}

fn document(context: &Context, binary: &Binary, ours: bool) -> Result<Sample, String> {
    let side = Side::start(context, binary, ours)?;
    let connections = context.options.connections;
    let busy = || procfs::processor_busy(context.processors.server);
    let constant = side.plan("/return".to_owned(), DOCUMENT_BYTES, connections);
    let constant = measured(constant, context.options.run_time)?;
    let plan = side.plan(side.target("document"), DOCUMENT_BYTES, connections);
    let mut load = new_load(plan)?;
    run_checked(&mut load, WARM_UP)?;
    let (cpu_before, busy_before, started) = (side.cpu_time(), busy(), Instant::now());
    let bound = Bound { duration: context.options.run_time, requests_max: u64::MAX };
    let outcome = load.run(bound).map_err(|error| format!("load: {error}"))?;
    let cpu = side.cpu_time().since(cpu_before).total();
    let others = (busy().since(busy_before).total() - cpu).max(0.0);
    let rate = outcome.requests_per_second();
    let values = vec![
        cpu / outcome.requests.max(1) as f64,
        rate,
        micros(outcome.latency.quantile(0.99)),
        constant.requests_per_second(),
        constant.requests_per_second() / rate,
        others / started.elapsed().as_secs_f64() / 1e4,
    ];
    Ok(sample(values, &outcome))
}

/// A small file's latency alone, then while `work` goes on in a thread of its own until it is told to stop.
fn beside(
    context: &Context,
    binary: &Binary,
    ours: bool,
    work: fn(&Side, &AtomicBool) -> Result<(), String>,
) -> Result<Sample, String> {
    let side = Side::start(context, binary, ours)?;
    let plan = || side.plan(format!("/{}", SMALL_FILE.0), SMALL_FILE.1, STATIC_CONNECTIONS);
    let alone = measured(plan(), context.options.run_time)?;
    let stop = AtomicBool::new(false);
    let (worked, outcome) = thread::scope(|scope| {
        let worker = scope.spawn(|| work(&side, &stop));
        let outcome = measured(plan(), context.options.run_time);
        stop.store(true, Ordering::Relaxed);
        (worker.join().unwrap_or_else(|_| Err("the other load panicked".to_owned())), outcome)
    });
    worked?;
    let outcome = outcome?;
    let p99 = |outcome: &Outcome| micros(outcome.latency.quantile(0.99));
    let values = vec![
        p99(&alone),
        p99(&outcome),
        micros(outcome.latency.maximum()),
        p99(&outcome) / p99(&alone).max(1.0),
        outcome.requests_per_second(),
    ];
    Ok(sample(values, &outcome))
}

/// 100 clients, each of which asks for 100 ms of blocking work again and again.
fn slow_clients(side: &Side, stop: &AtomicBool) -> Result<(), String> {
    let bytes = if side.ours { "That took 100 ms.\n".len() } else { PHP_SLOW_BYTES };
    let mut load = new_load(side.plan(side.target("slow"), bytes as u64, SLOW_CLIENTS))?;
    let bound = Bound { duration: Duration::from_secs(3600), requests_max: u64::MAX };
    let outcome = load.run_until(bound, stop).map_err(|error| format!("load: {error}"))?;
    checked(&outcome)
}

/// One client that asks for a large file, out of the page cache each time.
fn cold_reader(side: &Side, stop: &AtomicBool) -> Result<(), String> {
    let path = side.server.directory().join("html").join(COLD_FILE.0);
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut load = new_load(side.plan(format!("/{}", COLD_FILE.0), COLD_FILE.1, 1))?;
    while !stop.load(Ordering::Relaxed) {
        let advice = rustix::fs::Advice::DontNeed;
        rustix::fs::fadvise(&file, 0, None, advice).map_err(|error| error.to_string())?;
        let bound = Bound { duration: Duration::from_secs(60), requests_max: 1 };
        checked(&load.run(bound).map_err(|error| format!("load: {error}"))?)?;
    }
    Ok(())
}

fn measured(plan: Plan, time: Duration) -> Result<Outcome, String> {
    let mut load = new_load(plan)?;
    run_checked(&mut load, WARM_UP)?;
    let bound = Bound { duration: time, requests_max: u64::MAX };
    load.run(bound).map_err(|error| format!("load: {error}"))
}

fn checked(outcome: &Outcome) -> Result<(), String> {
    match &outcome.first_error {
        Some(error) => Err(format!("wrong answer to the other load: {error}")),
        None => Ok(()),
    }
}

fn sample(values: Vec<f64>, outcome: &Outcome) -> Sample {
    let note = outcome.first_error.as_ref().map(|error| format!("first error: {error}"));
    Sample { values, errors: outcome.errors, note }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// php-fpm with the scripts of this suite; dropping it stops it.
struct Php {
    child: Child,
}

impl Php {
    /// Starts it in a server's folder and waits for its socket.
    fn start(directory: &Path, cpu: usize) -> Result<Php, String> {
        write_scripts(directory).map_err(|error| format!("php: {error}"))?;
        let mut failure = "php-fpm is not installed".to_owned();
        for program in PHP_PROGRAMS {
            match Php::spawn(Path::new(program), directory, cpu) {
                Ok(child) => return Php { child }.ready(directory),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => failure = format!("{program}: {error}"),
            }
        }
        Err(failure)
    }

    fn spawn(program: &Path, directory: &Path, cpu: usize) -> io::Result<Child> {
        let output = File::create(directory.join("php-output.txt"))?;
        let mut command = Command::new(program);
        // -R: it may run as root, as the servers do when the bench does.
        command.args(["-F", "-R", "-n", "-y"]).arg(directory.join(PHP_CONFIG));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        thread::scope(|scope| {
            let starter = scope.spawn(|| {
                crate::machine::pin_current_thread(Place::one(cpu))?;
                command.spawn()
            });
            starter.join().unwrap_or_else(|_| Err(io::Error::other("starting thread panicked")))
        })
    }

    fn ready(mut self, directory: &Path) -> Result<Php, String> {
        let end = Instant::now() + PHP_READY;
        while Instant::now() < end {
            if directory.join(PHP_SOCKET).exists() {
                return Ok(self);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let text = std::fs::read_to_string(directory.join("php-output.txt"));
                return Err(format!("php-fpm ended ({status}): {}", text.unwrap_or_default()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err("php-fpm is not ready".to_owned())
    }

    fn cpu_time(&self) -> CpuTime {
        let root = self.child.id() as i32;
        procfs::cpu_time(&procfs::family(root).unwrap_or_else(|_| vec![root]))
    }
}

impl Drop for Php {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

/// The same pages as those of the example's handlers.
fn write_scripts(directory: &Path) -> io::Result<()> {
    let shown = directory.display();
    let user = match rustix::process::geteuid().is_root() {
        true => "user = root\ngroup = root\n",
        false => "",
    };
    let config = format!(
        "[global]\nerror_log = {shown}/php.log\ndaemonize = no\n[www]\n{user}\
         listen = {shown}/{PHP_SOCKET}\npm = static\npm.max_children = {PHP_CHILDREN}\n"
    );
    std::fs::write(directory.join(PHP_CONFIG), config)?;
    std::fs::write(directory.join("html/document.php"), DOCUMENT_PHP)?;
    std::fs::write(
        directory.join("html/slow.php"),
        "<?php usleep(100000); echo \"That took 100 ms.\\n\";",
    )
}

const DOCUMENT_PHP: &str = r#"<?php
$visit = hrtime(true) % 1000000;
$page = "<!DOCTYPE html><title>Visit $visit</title><p>You come from {$_SERVER['REMOTE_ADDR']}.</p><ul>\n";
for ($row = 1; strlen($page) < 10140; $row++) {
    $page .= "<li>Row $row of visit $visit: " . $row * $visit . "</li>\n";
}
echo str_pad($page, 10235), "</ul>";
"#;
const PHP_PROGRAMS: [&str; 4] =
    ["/usr/sbin/php-fpm8.4", "/usr/sbin/php-fpm8.3", "/usr/sbin/php-fpm8.2", "/usr/sbin/php-fpm"];
const PHP_CONFIG: &str = "php-fpm.conf";
const PHP_READY: Duration = Duration::from_secs(10);
/// As many as there are slow clients.
const PHP_CHILDREN: usize = SLOW_CLIENTS;
const PHP_SLOW_BYTES: usize = "That took 100 ms.\n".len();
const SLOW_CLIENTS: usize = 100;
const STATIC_CONNECTIONS: usize = 8;
const WARM_UP: Bound = Bound { duration: Duration::from_secs(1), requests_max: 5_000 };
