//! Checks `resolver` directives that nothing uses, so that their errors are reported, and finds their status zones.

use std::time::Duration;

use tidegate_conf::{Diagnostic, Span};
use tidegate_core::figures::Kind;
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::{Outline, PlanBuilder};
use tidegate_upstream::resolve::{Resolver, ResolverZone};

/// Reports the errors in the `resolver`s of a block and of those within it.
pub(super) fn check(block: &Outline, plan: &mut PlanBuilder<'_>) {
    let mut read = Vec::new();
    within(block, plan, &mut read);
}

/// Checks a block. `read`: inherited directives are checked once.
fn within(block: &Outline, plan: &mut PlanBuilder<'_>, read: &mut Vec<Span>) {
    let words = block.conf::<HttpCore>().and_then(|core| core.resolver.as_deref());
    if let Some(words @ [first, ..]) = words
        && !read.contains(&first.span)
    {
        read.push(first.span);
        let texts: Vec<String> = words.iter().map(|word| word.display().into_owned()).collect();
        let resources = plan.environment.resources;
        let found = Resolver::parse(&texts, Duration::ZERO, |host| resources.addresses(host));
        match found {
            Ok(resolver) => show_zone(&resolver, plan),
            Err(error) => {
                plan.diagnostics.push(Diagnostic::emerg(error.to_string()).at(first.span));
            }
        }
    }
    for child in &block.children {
        within(child, plan, read);
    }
}

/// Shows a group's resolver to tests, and its figures to those who show the plan's zones.
pub(super) fn show(resolver: Option<&Resolver>, plan: &mut PlanBuilder<'_>) {
    plan.show(&resolver);
    if let Some(resolver) = resolver {
        show_zone(resolver, plan);
    }
}

fn show_zone(resolver: &Resolver, plan: &mut PlanBuilder<'_>) {
    if let Some(ResolverZone { name, tally }) = &resolver.zone {
        plan.figures.add_tally(Kind::Resolver, name, tally.clone());
    }
}
