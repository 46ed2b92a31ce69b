//! Everything in one process: `master_process off`.

use std::process::ExitCode;
use std::sync::Arc;

use tidegate_core::builder::Survivors;
use tidegate_core::error_log::Level;
use tidegate_core::log_file::LogFiles;
use tidegate_rt::signal::ProcessSignal;

use crate::configuration::{Making, Origin, Parsed};
use crate::events;
use crate::listening::{self, open_patiently};
use crate::report::Report;
use crate::resources::Opened;
use crate::worker::{Server, threads};

enum Event {
    Signal(ProcessSignal),
    ThreadEnded(usize),
}

impl From<ProcessSignal> for Event {
    fn from(signal: ProcessSignal) -> Event {
        Event::Signal(signal)
    }
}

pub fn run(origin: &Origin, mut parsed: Parsed, report: &Report, test: bool) -> ExitCode {
    let logs = LogFiles::default();
    let survivors = Survivors::default();
    let resources = Opened::new(&logs);
    let making =
        Making { resources: &resources, survivors: &survivors, generation: 1, for_use: !test };
    let plan = parsed.plan(origin, &making);
    report.diagnostics(&parsed.diagnostics, &parsed.sources);
    let Some(plan) = plan else { return ExitCode::FAILURE };
    let plan = Arc::new(plan);
    let mut present = Vec::new();
    let opening =
        open_patiently(&plan.listeners, &mut present, threads::count(&plan.main), |error| {
            report.say(Level::Emerg, &error.to_string());
        });
    if !opening.failed.is_empty() {
        return ExitCode::FAILURE;
    }
    let (sender, events) = events::queue();
    if events::watch_signals(sender.clone()).is_err() {
        return ExitCode::FAILURE;
    }
    let ended = Arc::new(move |number| drop(sender.send(Event::ThreadEnded(number))));
    let Ok(mut server) = Server::start(plan.clone(), &opening.listening, ended) else {
        return ExitCode::FAILURE;
    };
    if let Err(error) = std::fs::write(&plan.main.pid, format!("{}\n", std::process::id())) {
        report.say(Level::Emerg, &crate::report::open_failed(&plan.main.pid, &error));
        return ExitCode::FAILURE;
    }
    while let Ok(event) = events.recv() {
        match event {
            Event::Signal(ProcessSignal::Quit) => server.finish(),
            Event::Signal(ProcessSignal::Terminate | ProcessSignal::Interrupt) => server.stop(),
            Event::Signal(_) => {}
            Event::ThreadEnded(number) => {
                if server.thread_ended(number, &opening.listening) {
                    break;
                }
            }
        }
    }
    server.close();
    for listening in &opening.listening {
        listening::socket_file(&listening.address).map(std::fs::remove_file);
    }
    let _ = std::fs::remove_file(&plan.main.pid);
    ExitCode::SUCCESS
}
