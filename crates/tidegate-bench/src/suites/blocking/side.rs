//! A server with its application, for the suite blocking.

use super::SLOW_CLIENTS;
use super::php::{self, Php};
use crate::config::Scenario;
use crate::load::{LossPolicy, Mode, Plan, TestRequest};
use crate::procfs::CpuTime;
use crate::server::{Binary, Job, Server};
use crate::suites::Context;

/// The application that makes the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Application {
    /// Handlers in Tidegate.
    Handlers,
    /// A WebAssembly component in Tidegate.
    Component,
    /// php-fpm.
    Php,
    /// php-fpm over kept connections.
    PhpKept,
    /// PHP in the server.
    Within,
}

/// How a server and its application are started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// The processor of PHP's processes, and their number.
    pub php_cpu: usize,
    pub php_children: usize,
    /// Long iterations of event loops are counted. That reads clocks, so it is off where processor time is the figure.
    pub is_watched: bool,
}

impl Start {
    /// Beside the server, for figures of processor time.
    pub(super) fn for_cost(context: &Context) -> Start {
        let php_cpu = context.processors.server;
        Start { php_cpu, php_children: SLOW_CLIENTS, is_watched: false }
    }

    /// Beside the server, for figures of waits and of memory.
    pub(super) fn for_waits(context: &Context) -> Start {
        Start { is_watched: true, ..Start::for_cost(context) }
    }
}

/// A server with its application.
pub(super) struct Side {
    pub server: Server,
    /// Dropped after the server.
    php: Option<Php>,
    application: Application,
}

impl Side {
    pub(super) fn start(
        Start { php_cpu, php_children, is_watched }: Start,
        context: &Context,
        binary: &Binary,
        application: Application,
    ) -> Result<Side, String> {
        let scenario = match application {
            Application::Handlers => Scenario::Handlers,
            Application::Component => Scenario::Component,
            Application::Php | Application::Within => Scenario::Php,
            Application::PhpKept => Scenario::PhpKept,
        };
        let job = context.job(scenario, 4096);
        let job = Job { watchdog: is_watched || job.watchdog, ..job };
        let server = Server::start(binary, job)?;
        let php = match application {
            Application::Handlers | Application::Component => None,
            Application::Php | Application::PhpKept => {
                Some(Php::start(server.directory(), php_cpu, php_children)?)
            }
            Application::Within => {
                php::write_scripts(server.directory()).map_err(|error| format!("php: {error}"))?;
                None
            }
        };
        Ok(Side { server, php, application })
    }

    /// Each server with its own means for blocking work.
    pub(super) fn start_own(
        start: Start,
        context: &Context,
        binary: &Binary,
        ours: bool,
    ) -> Result<Side, String> {
        let application = if ours { Application::Handlers } else { Application::Php };
        Side::start(start, context, binary, application)
    }

    pub(super) fn target(&self, name: &str) -> String {
        let extension = match self.application {
            Application::Handlers | Application::Component => "",
            Application::Php | Application::PhpKept | Application::Within => ".php",
        };
        format!("/{name}{extension}")
    }

    /// Processor time of all.
    pub(super) fn cpu_time(&self) -> CpuTime {
        let (server, php) = (self.server.cpu_time(), self.php.as_ref().map(Php::cpu_time));
        let php = php.unwrap_or_default();
        CpuTime { user: server.user + php.user, system: server.system + php.system }
    }

    pub(super) fn plan(&self, target: String, body_bytes: u64, connections: usize) -> Plan {
        Plan {
            address: self.server.address(),
            asks: vec![TestRequest::counted(target, body_bytes)],
            connections,
            mode: Mode::KeepAlive,
            loss_policy: LossPolicy::Count,
        }
    }
}
