//! Runs one case in one world: directory, ports, origins, server, then the script line by line.

mod conditions;

use crate::bell::{Bell, Deadline, Failure, locked};
use crate::case::Case;
use crate::client::{Client, Surroundings};
use crate::conditions::Condition;
use crate::directory::{Directory, open_directories, write_new};
use crate::failing::Failing;
use crate::frame::framed;
use crate::ops::{ClientOp, Row};
use crate::origin::{Origin, Shared};
use crate::places::{Implicit, Places};
use crate::relay::{Relay, RelayLine};
use crate::server::{Program, Server};
use crate::syntax::{self, Receiver, Signal, Step};
use crate::update::Received;
use crate::{CASE_TIME, World};
use conditions::count;
use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pause between two tries of `until`, and looks at a process, when nothing rings the bell.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Bytes of each log shown with a failure, from its end.
const LOG_SHOWN: usize = 6000;

/// The message of a worker that has stopped accepting: nginx's old worker, then Tidegate's old
/// generation. `reload` waits for one more of these.
const RELOADED: &[u8] = b"gracefully shutting down";

/// A run that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    /// What was expected, what was found, and the logs.
    pub text: String,
    /// What the failing row received in place of a literal.
    pub received: Option<Received>,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { text: failure.0, received: None }
    }
}

/// Runs the case.
pub(crate) fn run(case: &Case, program: &Program, modules: &str, keep: bool) -> Result<(), Failed> {
    let mut outcome = once(case, program, modules, keep);
    // Another process of this machine may have taken a port between our choice and the bind.
    for _ in 0..2 {
        match &outcome {
            Err(failed) if failed.text.contains("Address already in use") => {
                outcome = once(case, program, modules, keep);
            }
            _ => break,
        }
    }
    outcome
}

fn once(case: &Case, program: &Program, modules: &str, keep: bool) -> Result<(), Failed> {
    let made = tempfile::Builder::new().prefix("tidegate-case-").tempdir();
    let mut made = made.map_err(|error| Failure::new(format!("no directory: {error}")))?;
    made.disable_cleanup(keep);
    let open = std::fs::Permissions::from_mode(0o777);
    let _ = std::fs::set_permissions(made.path(), open);
    let shared = Arc::new(Shared {
        bell: Bell::default(),
        gates: Mutex::new(BTreeSet::new()),
        failures: Mutex::new(Vec::new()),
        over: AtomicBool::new(false),
        deadline: Deadline::after(CASE_TIME),
    });
    let mut runner = Runner::new(case, program, modules, made.path(), Arc::clone(&shared))?;
    let mut failures: Vec<Failure> = runner.script().err().into_iter().collect();
    let received = runner.received.take();
    failures.append(&mut locked(&shared.failures));
    shared.over.store(true, Ordering::SeqCst);
    shared.bell.ring();
    failures.extend(runner.finish(failures.is_empty()));
    if failures.is_empty() {
        return Ok(());
    }
    let mut text: Vec<_> = failures.into_iter().map(|failure| failure.0).collect();
    for name in ["nginx.conf", "output.log", "start.log", "error.log", "access.log"] {
        let content = std::fs::read(made.path().join(name)).unwrap_or_default();
        let tail = &content[content.len().saturating_sub(LOG_SHOWN)..];
        if !tail.is_empty() {
            text.push(format!("--- {name}\n{}", String::from_utf8_lossy(tail).trim_end()));
        }
    }
    if keep {
        text.push(format!("kept: {}", made.path().display()));
    }
    Err(Failed { text: text.join("\n"), received })
}

struct Runner<'a> {
    case: &'a Case,
    program: &'a Program,
    modules: &'a str,
    shared: Arc<Shared>,
    places: Places,
    directory: Directory,
    around: Surroundings,
    origins: BTreeMap<String, Origin>,
    sinks: BTreeMap<String, Arc<Mutex<Vec<u8>>>>,
    questions: BTreeMap<String, Arc<AtomicI64>>,
    relays: BTreeMap<String, Relay>,
    clients: BTreeMap<String, Client>,
    server: Option<Server>,
    last_exit: i64,
    last_output: Vec<u8>,
    /// Of the row that failed.
    received: Option<Received>,
}

impl<'a> Runner<'a> {
    fn new(
        case: &'a Case,
        program: &'a Program,
        modules: &'a str,
        path: &std::path::Path,
        shared: Arc<Shared>,
    ) -> Result<Self, Failure> {
        let mut texts: Vec<&str> = case.configs.iter().map(|config| config.text.as_str()).collect();
        texts.extend(case.files.iter().map(|(_, content)| content.as_str()));
        texts.push(&case.script_text);
        texts.extend(case.texts.contents());
        let mut places = Places::new(&program.path(path), &texts)?;
        let mut origins = BTreeMap::new();
        for (name, listener) in std::mem::take(&mut places.origins) {
            let origin = Origin::start(&name, listener, Arc::clone(&shared))?;
            origins.insert(name, origin);
        }
        let mut sinks = BTreeMap::new();
        for (name, socket) in std::mem::take(&mut places.sinks) {
            sinks.insert(name, sink(socket, Arc::clone(&shared)));
        }
        let mut questions = BTreeMap::new();
        for (name, socket) in std::mem::take(&mut places.name_servers) {
            questions.insert(name, crate::names::serve(socket, Arc::clone(&shared)));
        }
        open_directories(&path.join("html"))
            .map_err(|error| Failure::new(format!("html: {error}")))?;
        for (name, content) in &case.files {
            write_new(&path.join(name), places.fill(content).as_bytes())
                .map_err(|error| Failure::new(format!("{name}: {error}")))?;
        }
        if places.has_certificates {
            crate::certificates::write(path)?;
        }
        let directory = Directory::new(path.to_owned(), Arc::clone(&shared))?;
        let around = Surroundings {
            fronts: places.fronts.clone(),
            datagrams: places.datagrams.clone(),
            shared: Default::default(),
            quic: Default::default(),
            directory: path.to_owned(),
            deadline: shared.deadline,
        };
        let runner = Self {
            case,
            program,
            modules,
            shared,
            places,
            directory,
            around,
            origins,
            sinks,
            questions,
            relays: BTreeMap::new(),
            clients: BTreeMap::new(),
            server: None,
            last_exit: 0,
            last_output: Vec::new(),
            received: None,
        };
        let first = case.configs.first().map_or("main", |config| config.label.as_str());
        runner.configure(first)?;
        Ok(runner)
    }

    fn script(&mut self) -> Result<(), Failure> {
        if !self.case.script.no_start {
            self.start(&[])?;
        }
        let text = self.places.fill(&self.case.script_text);
        let texts = self.case.texts.map(|content| self.places.fill(content));
        let script = syntax::parse(&text, self.case.script_line, &texts).map_err(|mistakes| {
            Failure::new(mistakes.first().map_or(String::new(), |(_, mistake)| mistake.0.clone()))
        })?;
        for line in script.lines {
            if line.only.is_some_and(|world| !self.program.world.is(world)) {
                continue;
            }
            self.step(&line.step, line.number).map_err(|failure| {
                Failure::new(format!("line {}: {}\n{failure}", line.number, line.text))
            })?;
            if !locked(&self.shared.failures).is_empty() {
                return Err(Failure::new(format!("stopped after line {}", line.number)));
            }
        }
        Ok(())
    }

    fn finish(self, whole: bool) -> Vec<Failure> {
        let mut failures = Vec::new();
        let names = ["error.log", "output.log"];
        let before = names.map(|name| self.directory.read(name).len());
        if let Some(server) = self.server {
            failures.extend(server.finish().err());
        }
        drop(self.clients);
        for (_, origin) in self.origins {
            let unused = origin.finish();
            if whole {
                failures.extend(unused);
            }
        }
        for (name, before) in names.into_iter().zip(before) {
            let mut log = self.directory.read(name);
            if self.program.world == World::Nginx {
                // It kills a worker that has not ended a second after TERM, and calls that an alert.
                log.truncate(before);
            }
            let log = String::from_utf8_lossy(&log);
            let alarm = log.lines().find(|line| {
                ["[alert]", "[emerg]", "panicked at"].iter().any(|word| line.contains(word))
                    && !self.case.script.allowed.iter().any(|allowed| line.contains(allowed))
            });
            if let Some(line) = alarm.filter(|_| whole) {
                failures.push(Failure::new(format!("{name} has an alarm: {line}")));
            }
        }
        failures
    }

    fn step(&mut self, step: &Step, number: usize) -> Result<(), Failure> {
        match step {
            Step::Origin(name, line) => {
                let origin = self.origins.get_mut(name);
                let none = || Failure::new(format!("{{{name}}} is nowhere in the configuration"));
                origin.ok_or_else(none)?.apply(line, number)
            }
            Step::Client(names, ops) => self.client(names, ops),
            Step::Row(row) => {
                let mut client = Client::default();
                client.connect(&row.place, &self.around)?;
                for op in &row.ops {
                    client.run(std::slice::from_ref(op), &self.around).inspect_err(|_| {
                        let unfill = |text: &str| self.places.unfill(text);
                        self.received = Received::of(&client, op, number, unfill);
                    })?;
                }
                client.finish()
            }
            Step::Until(row) => {
                let mut tries = Vec::new();
                let shared = Arc::clone(&self.shared);
                // A bell of its own: the server's log would ring the common one at each try.
                let held = Bell::default().wait_until(shared.deadline, Some(TRY_AGAIN), || {
                    match self.row(row) {
                        Ok(()) => return Ok(true),
                        Err(failure) => tries.push(failure.0),
                    }
                    Ok(!locked(&shared.failures).is_empty())
                });
                tries.dedup();
                tries.drain(..tries.len().saturating_sub(3));
                let last = tries.join("\nthen: ");
                let with_tries = |failure| Failure::new(format!("{failure}; last tries: {last}"));
                held.map_err(with_tries)?;
                match locked(&shared.failures).is_empty() {
                    true => Ok(()),
                    false => Err(with_tries(Failure::new("given up"))),
                }
            }
            Step::Relay(name, line) => self.relay(name, line),
            Step::Open(gate) => {
                locked(&self.shared.gates).insert(gate.clone());
                self.shared.bell.ring();
                Ok(())
            }
            Step::Signal(signal, receiver) => self.server()?.signal(*signal, *receiver),
            Step::Reload(label) => self.reload(label.as_deref()),
            Step::Rewrite(label) => self.configure(label),
            Step::File(op) => self.directory.apply(op),
            Step::Check(condition) => match self.holds(condition) {
                true => Ok(()),
                false => Err(Failure::new(self.found(condition))),
            },
            Step::Wait(condition) => self.wait(condition),
            Step::Command(arguments) => {
                (self.last_exit, self.last_output) =
                    self.program.run(&self.directory.path, arguments, self.shared.deadline)?;
                Ok(())
            }
            Step::Start(failing) => self.start(failing),
            Step::Stop(signal) => {
                let server = self.server()?;
                server.signal(*signal, Receiver::Master)?;
                server.wait_exit().map(drop)
            }
        }
    }

    /// Starts a relay, which clients connect to by its name as to a UDP port, or changes it.
    fn relay(&mut self, name: &str, line: &RelayLine) -> Result<(), Failure> {
        let RelayLine::To(port) = line else {
            let relay = self.relays.get(name);
            return relay
                .ok_or_else(|| Failure::new("`relay NAME to PORT` starts it"))?
                .apply(line);
        };
        let server = self.around.datagrams.get(port);
        let server = *server.ok_or_else(|| Failure::new(format!("no UDP port {port}")))?;
        let relay = Relay::start(server, Arc::clone(&self.shared))?;
        self.around.datagrams.insert(name.to_owned(), relay.address);
        self.relays.insert(name.to_owned(), relay);
        Ok(())
    }

    fn server(&self) -> Result<&Server, Failure> {
        self.server.as_ref().ok_or_else(|| Failure::new("the server was not started"))
    }

    fn start(&mut self, failing: &[Failing]) -> Result<(), Failure> {
        let server = self.program.start(&self.directory.path, Arc::clone(&self.shared), failing)?;
        let server = self.server.insert(server);
        let conf = String::from_utf8_lossy(&self.directory.read("nginx.conf")).into_owned();
        let used = |front: &&std::net::SocketAddr| conf.contains(&front.to_string());
        let fronts: Vec<_> = self.places.fronts.values().filter(used).copied().collect();
        server.wait_ready(&fronts, conf.contains("master_process off"))
    }

    fn configure(&self, label: &str) -> Result<(), Failure> {
        let config = self.case.configs.iter().find(|config| config.label == label);
        let config = config.ok_or_else(|| Failure::new(format!("no ```nginx {label} block")))?;
        let text = match config.raw {
            true => config.text.clone(),
            false => framed(&config.text, self.program.world, self.modules),
        };
        std::fs::write(self.directory.path.join("nginx.conf"), self.places.fill(&text))
            .map_err(|error| Failure::new(format!("nginx.conf: {error}")))
    }

    fn reload(&mut self, label: Option<&str>) -> Result<(), Failure> {
        if let Some(label) = label {
            self.configure(label)?;
        }
        let before = count(&self.directory.read("error.log"), RELOADED);
        self.server()?.signal(Signal::Hup, Receiver::Master)?;
        let shared = Arc::clone(&self.shared);
        shared.bell.wait_until(shared.deadline, None, || {
            Ok(count(&self.directory.read("error.log"), RELOADED) > before)
        })
    }

    /// All named clients do the same at the same time.
    fn client(&mut self, names: &[String], ops: &[ClientOp]) -> Result<(), Failure> {
        let mut actors: Vec<(String, Client)> = Vec::new();
        for name in names {
            actors.push((name.clone(), self.clients.remove(name).unwrap_or_default()));
        }
        let around = &self.around;
        let outcome = std::thread::scope(|scope| {
            let handles: Vec<_> = actors
                .iter_mut()
                .map(|(name, client)| {
                    scope.spawn(move || {
                        let done = client.run(ops, around);
                        done.map_err(|failure| Failure::new(format!("{name}: {failure}")))
                    })
                })
                .collect();
            handles.into_iter().try_for_each(|handle| {
                handle.join().unwrap_or_else(|_| Err(Failure::new("a client panicked")))
            })
        });
        self.clients.extend(actors);
        outcome
    }

    fn row(&self, row: &Row) -> Result<(), Failure> {
        let mut client = Client::default();
        client.connect(&row.place, &self.around)?;
        client.run(&row.ops, &self.around)?;
        client.finish()
    }

    fn wait(&mut self, condition: &Condition) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        // No bell rings when a process changes its name.
        let again = condition.is_of_process().then_some(TRY_AGAIN);
        let waited = shared.bell.wait_until(shared.deadline, again, || {
            self.directory.watch_all();
            Ok(self.holds(condition) || !locked(&shared.failures).is_empty())
        });
        waited.map_err(|failure| Failure::new(format!("{failure}: {}", self.found(condition))))
    }
}

/// Gathers the datagrams of a syslog sink, one a line.
fn sink(socket: UdpSocket, shared: Arc<Shared>) -> Arc<Mutex<Vec<u8>>> {
    let text = Arc::new(Mutex::new(Vec::new()));
    let gathered = Arc::clone(&text);
    // The timeout only ends the thread of a case that is over.
    let _ = socket.set_read_timeout(Some(Duration::from_millis(200)));
    std::thread::spawn(move || {
        let mut datagram = [0; 65536];
        while !shared.over.load(Ordering::SeqCst) {
            if let Ok(length) = socket.recv(&mut datagram) {
                let mut gathered = locked(&gathered);
                gathered.extend_from_slice(&datagram[..length]);
                gathered.push(b'\n');
                shared.bell.ring();
            }
        }
    });
    text
}

/// Whether a world's run of the case is wanted, else the reason why not.
pub(crate) fn applies(case: &Case, world: World) -> Result<(), String> {
    if let Some((_, reason)) = case.script.skips.iter().find(|(other, _)| world.is(*other)) {
        return Err(reason.clone());
    }
    if case.script_text.contains("{implicit}") && Implicit::reserve().is_err() {
        return Err("another server has the port of servers without `listen`".to_owned());
    }
    Ok(())
}
