//! Checks `resolver` directives that nothing uses, so that their errors are reported.

use std::time::Duration;

use tidegate_conf::{Diagnostic, Span};
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::{Outline, PlanBuilder};
use tidegate_upstream::resolve::Resolver;

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
        if let Err(error) = found {
            plan.diagnostics.push(Diagnostic::emerg(error.to_string()).at(first.span));
        }
    }
    for child in &block.children {
        within(child, plan, read);
    }
}
