//! `tidegate tune`: compares the kernel's settings with a configuration: which matter for it, with the command that
//! changes them, and which do not. It reads, and changes nothing.

mod kernel;
mod logic;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tidegate_core::client::Address;
use tidegate_core::listen::ListenerPlan;
use tidegate_core::log_file::{LogFile, LogFiles};
use tidegate_core::plan::Plan;
use tidegate_os::platform;
use tidegate_plan::{ReloadState, Resources};

use crate::configuration::{self, Origin, PlanInputs};
use crate::listening::BACKLOG_DEFAULT;
use crate::worker::threads;
use logic::{Advice, Listener, Wanted};

/// The word on the command line.
pub(crate) const ARGUMENT: &str = "tune";

/// Reads the configuration and the kernel's settings, and prints the advice.
pub(crate) fn run(origin: &Origin) -> ExitCode {
    if !platform::HAS_KERNEL_SETTINGS {
        eprintln!(
            "nginx: \"{ARGUMENT}\" is about the settings of Linux' kernel, and there are none here"
        );
        return ExitCode::FAILURE;
    }
    let mut parsed = configuration::read(origin);
    let reload_state = ReloadState::default();
    let resources = ReadOnlyResources::default();
    let inputs = PlanInputs {
        resources: &resources,
        reload_state: &reload_state,
        parsed: &reload_state,
        generation: 1,
        is_checked: false,
    };
    let passes = parsed.has_directive_ending(PASSING);
    let plan = parsed.plan(origin, &inputs);
    let color = io::stderr().is_terminal();
    for diagnostic in &parsed.diagnostics {
        let _ = io::stderr().write_all(diagnostic.render(&parsed.sources, color).as_bytes());
    }
    let Some(plan) = plan else { return ExitCode::FAILURE };
    let wanted = wanted(&plan, passes);
    let advice = logic::advise(&wanted, &kernel::read());
    let text = text(origin, &wanted, &advice);
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Directives with this ending open connections to origins: `proxy_pass` and the like.
const PASSING: &str = "_pass";

/// Reads files; makes none and opens none for writing.
#[derive(Default)]
struct ReadOnlyResources(LogFiles);

impl Resources for ReadOnlyResources {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn log_file(&self, path: &Path) -> io::Result<Arc<LogFile>> {
        self.0.open(path, |_| std::fs::File::options().append(true).open(platform::NULL))
    }
}

fn wanted(plan: &Plan, passes: bool) -> Wanted {
    Wanted {
        threads: threads::count(&plan.main) as u64,
        connections: plan.main.worker_connections,
        files: plan.main.worker_rlimit_nofile,
        listeners: plan.all_listeners().map(listener).collect(),
        passes,
    }
}

fn listener(plan: &ListenerPlan) -> Listener {
    let socket = &plan.socket;
    Listener {
        text: plan.address.text(),
        port: plan.address.port().filter(|_| matches!(plan.address, Address::Inet(_))),
        datagram: plan.datagram,
        // -1 requests what the system allows.
        backlog: match socket.backlog {
            None => Some(u64::from(BACKLOG_DEFAULT)),
            Some(length) => u64::try_from(length).ok(),
        },
        fastopen: socket.fastopen.is_some(),
        rcvbuf: socket.rcvbuf.map(|bytes| bytes as u64),
        sndbuf: socket.sndbuf.map(|bytes| bytes as u64),
    }
}

fn text(origin: &Origin, wanted: &Wanted, advice: &[Advice]) -> String {
    let mut text = format!(
        "{}: {} worker thread(s) with {} connections each, {} listening socket(s){}.\n",
        origin.file.display(),
        wanted.threads,
        wanted.connections,
        wanted.listeners.len(),
        if wanted.passes { ", and origins" } else { "" }
    );
    for (matters, title, none) in [
        (true, "Would matter", "Nothing: the kernel's settings suit this configuration."),
        (false, "Would change nothing", ""),
    ] {
        text.push_str(&format!("\n{title}:\n"));
        let mut found = advice.iter().filter(|one| one.matters() == matters).peekable();
        if found.peek().is_none() && !none.is_empty() {
            text.push_str(&format!("  {none}\n"));
        }
        for one in found {
            text.push_str(&format!("  {}: {}\n", one.subject, one.text));
            for command in &one.commands {
                text.push_str(&format!("      {command}\n"));
            }
        }
    }
    text.push_str(
        "\nNothing was changed. What `sysctl -w` sets holds until the next boot; the same `name = value` in a \
         file\nbelow /etc/sysctl.d/ stays.\n",
    );
    text
}
