//! The steps from a parsed configuration to a plan: outline, inherit, prepare, freeze.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_conf::{Diagnostic, Span, Statement};
use tidegate_core::figures::Catalog;
use tidegate_core::listen::ListenerPlan;
use tidegate_core::main_settings::MainSettings;
use tidegate_core::phases::{EnteringHandler, Phase};
use tidegate_core::plan::{Location, Plan, PlanExtensions, Server};
use tidegate_core::variables::VariableTable;

use crate::admin_socket;
use crate::main_core;
use crate::outline::{Outline, Outliner};
use crate::plan_builder::{Environment, PlanBuilder};
use crate::resources::ResourceNames;
use crate::values::DirectiveValue;
use crate::{locations, servers};

/// Builds a plan; returns it with its warnings. The statements are dropped when they have been read, to make room for
/// the plan.
///
/// # Errors
/// All diagnostics, where one of them is an error. Nothing has changed then.
pub fn build(
    environment: &Environment<'_>,
    statements: Vec<Statement>,
    span: Span,
) -> Result<(Plan, Vec<Diagnostic>), Vec<Diagnostic>> {
    let names = ResourceNames(environment.resources);
    // Its clients may have the configuration explained.
    let has_socket = |statement: &Statement| {
        statement.name.bytes == b"admin_socket"
            && statement.args.first().is_some_and(|word| word.bytes != b"off")
    };
    let written_of = statements.iter().any(has_socket).then_some(environment.sources);
    let machine = environment.resources.machine();
    let mut outliner = Outliner::new(environment.modules, &names, machine, written_of);
    let mut root = outliner.outline(&statements, span);
    drop(statements);
    let mut diagnostics = std::mem::take(&mut outliner.diagnostics);
    let values = std::mem::take(&mut outliner.values);
    let main = match main_core::prepare(environment, &root) {
        Ok(main) => main,
        Err(diagnostic) => {
            diagnostics.push(diagnostic);
            return Err(diagnostics);
        }
    };
    if let Some(socket) = &main.admin_socket {
        diagnostics.extend(admin_socket::add(&mut outliner, &mut root, socket, &main.prefix));
    }
    let mut part = |block: Option<&Outline>, stream: bool| {
        let (plan, found) = build_block(environment, &main, (block, stream), &values);
        diagnostics.extend(found);
        plan
    };
    let plan = part(root.blocks("http").next(), false);
    let mut openings = Vec::new();
    let sessions = match root.blocks("stream").next() {
        Some(block) => part(Some(block), true).map(|mut plan| {
            openings.append(&mut plan.openings);
            Some(Arc::new(plan))
        }),
        None => Some(None),
    };
    remove_consequences(&mut diagnostics);
    let fatal = diagnostics.iter().any(|diagnostic| diagnostic.severity.is_fatal());
    match (plan, sessions) {
        (Some(mut plan), Some(sessions)) if !fatal => {
            // Background work of both blocks is one list.
            plan.services.extend(sessions.iter().flat_map(|plan| plan.services.iter().cloned()));
            plan.openings.extend(openings);
            Ok((Plan { sessions, ..plan }, diagnostics))
        }
        _ => Err(diagnostics),
    }
}

/// Builds the plan of the `http` block or of the `stream` block: each has its own servers and variables.
fn build_block(
    environment: &Environment<'_>,
    main: &MainSettings,
    (block, stream): (Option<&Outline>, bool),
    values: &[DirectiveValue],
) -> (Option<Plan>, Vec<Diagnostic>) {
    let declared = environment.modules.iter().flat_map(|module| match stream {
        false => module.variables(),
        true => module.session_variables(),
    });
    let mut plan = PlanBuilder {
        environment,
        main,
        variables: VariableTable::new(declared),
        locations: Vec::new(),
        servers: Vec::new(),
        services: Vec::new(),
        figures: Catalog::default(),
        openings: Vec::new(),
        timelines: false,
        entering: Vec::new(),
        extensions: PlanExtensions::default(),
        shared: HashMap::default(),
        server_names: Vec::new(),
        block: None,
        stream,
        diagnostics: Vec::new(),
    };
    // Without a block there are no servers, but the plan of `http` exists all the same.
    let listeners = match block {
        Some(block) => plan.fill(block),
        None => Vec::new(),
    };
    plan.check_values(values);
    let unresolved = plan.variables.unresolved();
    plan.diagnostics.extend(unresolved);
    let PlanBuilder {
        variables,
        locations,
        servers,
        services,
        openings,
        figures,
        timelines,
        entering,
        extensions,
        diagnostics,
        ..
    } = plan;
    // A location that could not be built has a diagnostic and no plan.
    let locations: Option<Vec<Location>> = locations.into_iter().collect();
    let locations = locations.map(|locations| with_entering(locations, &servers, &entering));
    let plan = locations.map(|locations| Plan {
        main: main.clone(),
        listeners,
        servers,
        locations,
        timelines: timelines || shows_timelines(&variables),
        slot_count: variables.slot_count(),
        variables,
        generation: environment.generation,
        openings,
        figures,
        entering,
        extensions,
        services,
        sessions: None,
    });
    (plan, diagnostics)
}

/// Puts the handlers that run first into the post-read phases of servers.
fn with_entering(
    mut locations: Vec<Location>,
    servers: &[Server],
    entering: &[EnteringHandler],
) -> Vec<Location> {
    for server in servers {
        let phases = &mut locations[server.location.0 as usize].phases;
        for handler in entering.iter().rev().cloned() {
            phases.push_first(Phase::PostRead, Box::new(move |x| handler(x)));
        }
        phases.shrink();
    }
    locations
}

/// Returns whether the configuration uses a variable for which requests record where their time goes.
fn shows_timelines(variables: &VariableTable) -> bool {
    ["request_timeline", "request_verdict"].iter().any(|name| variables.find(name).is_some())
}

/// Removes diagnostics about missing parts of a block where another error may be their cause.
fn remove_consequences(diagnostics: &mut Vec<Diagnostic>) {
    let is_consequence = |diagnostic: &Diagnostic| {
        [locations::NO_HANDLER, servers::NO_LISTEN].contains(&diagnostic.message.as_str())
    };
    let is_cause = |found: &Diagnostic| found.severity.is_fatal() && !is_consequence(found);
    if diagnostics.iter().any(is_cause) {
        diagnostics.retain(|found| !is_consequence(found));
    }
}

impl<'e> PlanBuilder<'e> {
    /// Prepares the block and builds all of its servers.
    fn fill<'b>(&mut self, block: &'b Outline) -> Vec<ListenerPlan>
    where
        'b: 'e,
    {
        self.block = Some(block);
        for (module, conf) in self.environment.modules.iter().zip(block.confs.iter()) {
            let prepared = match self.stream {
                false => module.prepare_http(conf, self),
                true => module.prepare_stream(conf, self),
            };
            if let Err(diagnostic) = prepared {
                self.diagnostics.push(diagnostic);
            }
        }
        let servers: Vec<&Outline> = block.blocks("server").collect();
        self.servers.reserve_exact(servers.len());
        self.locations.reserve_exact(servers.iter().map(|server| server.blocks_within()).sum());
        for server in &servers {
            self.server(server);
        }
        self.listeners(&servers)
    }

    /// Compiles values of the plan's block for their errors alone. With earlier errors nothing is compiled: the same
    /// errors would be reported twice.
    fn check_values(&mut self, values: &[DirectiveValue]) {
        if self.diagnostics.iter().any(|found| found.severity.is_fatal()) {
            return;
        }
        let stream = self.stream;
        for value in values.iter().filter(|value| value.stream == stream) {
            let word = &value.word;
            let text = word.bytes.strip_prefix(b"~").filter(|_| value.may_be_regex);
            let found = match text {
                Some([b'*', regex @ ..] | regex) => self.regex(regex, true, word.span).map(drop),
                None => self.template(word).map(drop),
            };
            self.diagnostics.extend(found.err());
        }
    }
}
