//! The common part of HTTP checks and session checks: their parameters, their `match` blocks by name, and their
//! start.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_conf::{Args, Diagnostic, Span, Statement};
use tidegate_plan::PlanBuilder;
use tidegate_rt::clock;
use tidegate_upstream::Group;
use tidegate_upstream::care::BackgroundTasks;
use tidegate_upstream::care::checks::{CheckPlan, CheckTask, Probe};
use tidegate_upstream::peers::CheckRule;

/// One `health_check` as written, without the parameters of its kind.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    plan: CheckPlan,
    /// `match`
    pub rules: Option<String>,
    pub port: Option<u16>,
    mandatory: bool,
    persistent: bool,
    span: Span,
}

/// The `match` blocks as written.
#[derive(Default)]
pub(crate) struct MatchBlocks(Vec<(String, Span, Vec<Statement>)>);

/// The `match` blocks of one kind by name.
struct MatchesByName<R>(HashMap<String, Arc<R>>);

impl<R> Default for MatchesByName<R> {
    fn default() -> Self {
        MatchesByName(HashMap::new())
    }
}

impl MatchBlocks {
    /// Adds a block.
    pub(crate) fn add(&mut self, args: &Args<'_>) -> Result<(), Diagnostic> {
        let (name, span) = (args.text(0)?.to_owned(), args.word(0).span);
        self.0.push((name, span, args.entries()?.to_vec()));
        Ok(())
    }

    /// Compiles all blocks, so that checks find them.
    ///
    /// # Errors
    /// The errors of `compile`; two blocks of the same name.
    pub(crate) fn compile<R: Send + Sync + 'static>(
        &self,
        plan: &mut PlanBuilder<'_>,
        compile: fn(&[Statement], &mut PlanBuilder<'_>) -> Result<R, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        for (name, span, entries) in &self.0 {
            let rules = Arc::new(compile(entries, plan)?);
            if plan.shared::<MatchesByName<R>>().0.insert(name.clone(), rules).is_some() {
                let message = format!("duplicate match \"{name}\"");
                return Err(Diagnostic::emerg(message).at(*span));
            }
        }
        Ok(())
    }
}

impl Schedule {
    /// Parses a directive; parameters that are not common to all checks are given to `other`, which may reject them.
    ///
    /// # Errors
    /// Unknown parameters and values out of bounds.
    pub(crate) fn parse(
        args: &Args<'_>,
        mut other: impl FnMut(usize, &str, Option<&str>) -> Result<bool, Diagnostic>,
    ) -> Result<Schedule, Diagnostic> {
        let span = args.word(0).span;
        let (plan, rules) = (CheckPlan::default(), None);
        let mut schedule =
            Schedule { plan, rules, port: None, mandatory: false, persistent: false, span };
        for index in 0..args.len() {
            let (name, value) = args.parameter(index)?;
            if !schedule.take(name, value, || args.invalid_parameter(index))?
                && !other(index, name, value)?
            {
                return Err(args.invalid_parameter(index));
            }
        }
        if schedule.persistent && !schedule.mandatory {
            let what = "\"persistent\" requires \"mandatory\" in \"health_check\"";
            return Err(args.error_here(what));
        }
        Ok(schedule)
    }

    /// Parses one parameter; `false`: it is not common to all checks.
    fn take(
        &mut self,
        name: &str,
        value: Option<&str>,
        invalid: impl Fn() -> Diagnostic,
    ) -> Result<bool, Diagnostic> {
        let time = || value.and_then(|value| tidegate_conf::parse_milliseconds(value.as_bytes()));
        let number = || value.and_then(|value| value.parse::<u32>().ok()).filter(|n| *n > 0);
        match (name, value) {
            ("interval", Some(_)) => {
                let time = time().filter(|time| !time.is_zero());
                self.plan.interval = time.ok_or_else(invalid)?;
            }
            ("jitter", Some(_)) => self.plan.jitter = time().ok_or_else(invalid)?,
            ("fails", Some(_)) => self.plan.fails = number().ok_or_else(invalid)?,
            ("passes", Some(_)) => self.plan.passes = number().ok_or_else(invalid)?,
            ("match", Some(name)) if !name.is_empty() => self.rules = Some(name.to_owned()),
            ("port", Some(text)) => {
                let port = text.parse().ok().filter(|port| *port > 0);
                self.port = Some(port.ok_or_else(invalid)?);
            }
            ("mandatory", None) => self.mandatory = true,
            ("persistent", None) => self.persistent = true,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Makes an error of this directive.
    pub(crate) fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::emerg(message).at(self.span)
    }

    /// Returns the rules that `match` names.
    ///
    /// # Errors
    /// There are none of that name.
    pub(crate) fn named<R: Send + Sync + 'static>(
        &self,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Option<Arc<R>>, Diagnostic> {
        let Some(name) = &self.rules else { return Ok(None) };
        let known = plan.shared::<MatchesByName<R>>().0.get(name).cloned();
        known.map(Some).ok_or_else(|| self.error(format!("match \"{name}\" not found")))
    }

    /// Starts the checks of a group's servers. `name` tells the check from others of the group, over reloads too.
    ///
    /// # Errors
    /// The group cannot be changed at run time.
    pub(crate) fn begin(
        &self,
        name: String,
        group: Arc<Group>,
        probe: Arc<dyn Probe>,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<(), Diagnostic> {
        if !group.is_changing() {
            let what =
                format!("health checks require upstream \"{}\" in shared memory", group.name);
            return Err(self.error(what).help("add `zone NAME SIZE;` to the group"));
        }
        let Schedule { mandatory, persistent, .. } = *self;
        let number =
            group.add_check(CheckRule { name: name.into(), mandatory, persistent }, clock::now());
        let log = plan.main.error_log.clone();
        let tasks = plan.shared::<BackgroundTasks>().clone();
        tasks.add(Arc::new(CheckTask { group, number, plan: self.plan, probe, log }));
        Ok(())
    }
}
