//! From statements to a program: regular expressions, templates and variables resolved.

use std::sync::Arc;

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::Template;
use tidegate_core::plan::LocationId;
use tidegate_core::regex::Regex;
use tidegate_plan::{LocationBuilder, Outline, PlanBuilder};

use super::Rewrite;
use super::assignment::Assignment;
use super::condition::{ConditionConf, FileTest};
use super::conf::{Conf, Flag, ReturnConf, RewriteConf, Statement};
use crate::http::set_misc::MiscOp;

/// An operation of a program.
#[derive(Debug)]
pub(super) enum Op {
    Rewrite(Box<RewriteOp>),
    Return { status: u16, text: Option<Template> },
    Set(Assignment),
    Misc(Box<MiscOp>),
    Break,
    If { condition: Condition, location: LocationId, log: bool, body: Box<[Op]> },
}

/// A `rewrite`.
#[derive(Debug)]
pub(super) struct RewriteOp {
    pub regex: Arc<Regex>,
    /// Path, or address without arguments.
    pub path: Template,
    /// The text behind the `?` of the replacement.
    pub args: Option<Template>,
    /// Whether the request's own arguments are appended: the replacement does not end in `?`.
    pub keeps_args: bool,
    pub flag: Flag,
    /// `rewrite_log`.
    pub log: bool,
}

/// A compiled condition.
#[derive(Debug)]
pub(super) enum Condition {
    True(Template),
    Equal { name: Template, text: Template, negated: bool },
    Match { name: Template, regex: Arc<Regex>, negated: bool },
    File { test: FileTest, path: Template, negated: bool },
}

/// Compiles the block's statements, those of its `if` blocks included.
pub(super) fn program(
    conf: &Conf,
    location: &mut LocationBuilder<'_, '_>,
) -> Result<Box<[Op]>, Diagnostic> {
    let outline = location.outline;
    let mut ifs = outline.children.iter().filter(|child| child.name == "if").enumerate();
    let mut ops = Vec::new();
    for statement in &conf.statements {
        let op = match statement {
            Statement::If(condition) => {
                let Some((index, block)) = ifs.next() else { continue };
                let Some(id) = location.if_location(index) else { continue };
                if_block(condition, block, id, location.plan)?
            }
            plain => op(plain, conf, location.plan)?,
        };
        ops.push(op);
    }
    Ok(ops.into())
}

fn if_block(
    condition: &ConditionConf,
    block: &Outline,
    location: LocationId,
    plan: &mut PlanBuilder<'_>,
) -> Result<Op, Diagnostic> {
    let condition = compile_condition(condition, plan)?;
    let mut body = Vec::new();
    let mut log = false;
    if let Some(conf) = block.conf::<Rewrite>() {
        log = conf.log.unwrap_or(false);
        for statement in &conf.statements {
            body.push(op(statement, conf, plan)?);
        }
    }
    Ok(Op::If { condition, location, log, body: body.into() })
}

fn op(statement: &Statement, conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<Op, Diagnostic> {
    match statement {
        Statement::Break => Ok(Op::Break),
        Statement::Rewrite(rewrite) => compile_rewrite(rewrite, conf, plan),
        Statement::Return(ReturnConf { status, text }) => {
            // As in nginx: an error without a text, or with an empty one, gets its error page.
            let text = text.as_ref().filter(|text| *status < 400 || !text.bytes.is_empty());
            let text = text.map(|text| plan.template(text)).transpose()?;
            Ok(Op::Return { status: *status, text })
        }
        Statement::Set(set) => set.compile(plan).map(Op::Set),
        Statement::Misc(misc) => Ok(Op::Misc(Box::new(misc.compile(&conf.misc, plan)?))),
        // `if` is allowed in servers and locations only, which the registry checks.
        Statement::If(_) => Err(Diagnostic::emerg("\"if\" directive is not allowed here")),
    }
}

fn compile_rewrite(
    rewrite: &RewriteConf,
    conf: &Conf,
    plan: &mut PlanBuilder<'_>,
) -> Result<Op, Diagnostic> {
    let regex = plan.regex(&rewrite.regex.bytes, false, rewrite.regex.span)?;
    let span = rewrite.replacement.span;
    let (text, keeps_args) = match rewrite.replacement.bytes.strip_suffix(b"?") {
        Some(text) => (text, false),
        None => (&rewrite.replacement.bytes[..], true),
    };
    let mut parts = text.splitn(2, |byte| *byte == b'?');
    let path = plan.template_text(parts.next().unwrap_or_default(), span)?;
    let args = parts.next().map(|args| plan.template_text(args, span)).transpose()?;
    Ok(Op::Rewrite(Box::new(RewriteOp {
        regex,
        path,
        args,
        keeps_args,
        flag: rewrite.flag,
        log: conf.log.unwrap_or(false),
    })))
}

fn compile_condition(
    condition: &ConditionConf,
    plan: &mut PlanBuilder<'_>,
) -> Result<Condition, Diagnostic> {
    let mut template = |word: &Word| plan.template(word);
    Ok(match condition {
        ConditionConf::True { name } => Condition::True(template(name)?),
        ConditionConf::Equal { name, text, negated } => {
            Condition::Equal { name: template(name)?, text: template(text)?, negated: *negated }
        }
        ConditionConf::Match { name, regex, caseless, negated } => Condition::Match {
            name: template(name)?,
            regex: plan.regex(&regex.bytes, *caseless, regex.span)?,
            negated: *negated,
        },
        ConditionConf::File { test, path, negated } => {
            Condition::File { test: *test, path: template(path)?, negated: *negated }
        }
    })
}
