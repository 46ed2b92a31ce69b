//! The name of the variable that a directive (`map`, `geo`, `split_clients`, `keyval`) defines by others.

use crate::PlanBuilder;
use tidegate_conf::{Args, Diagnostic, Span};
use tidegate_core::variables::Changeable;

/// Returns the name of the variable that an argument gives as `$name`.
///
/// # Errors
/// It is no name of a variable.
pub fn name(args: &Args<'_>, index: usize) -> Result<String, Diagnostic> {
    match args.bytes(index) {
        [b'$', name @ ..] if !name.is_empty() => Ok(String::from_utf8_lossy(name).into_owned()),
        _ => {
            let name = args.word(index).display();
            Err(args.error(index, format!("invalid variable name \"{name}\"")))
        }
    }
}

/// Defines the variables of all `blocks`; an error in one of them does not hide errors in the others.
///
/// # Errors
/// None: they are among the diagnostics of the plan.
pub fn define_all<Block>(
    blocks: &[Block],
    plan: &mut PlanBuilder<'_>,
    define: impl Fn(&Block, &mut PlanBuilder<'_>) -> Result<(), Diagnostic>,
) -> Result<(), Diagnostic> {
    for block in blocks {
        if let Err(diagnostic) = define(block, plan) {
            plan.diagnostics.push(diagnostic);
        }
    }
    Ok(())
}

/// Refuses a name that a module reserves.
///
/// # Errors
/// The name is reserved.
pub fn check_free(plan: &PlanBuilder<'_>, name: &str, span: Span) -> Result<(), Diagnostic> {
    match plan.variables.changeable(name) {
        // What `set` then does to a name with a setter is still the setter's.
        Changeable::Free | Changeable::By(_) | Changeable::Stored(_) => Ok(()),
        Changeable::Never => Err(duplicate(name, span)),
    }
}

/// Makes the error for a name whose variable cannot be redefined.
pub fn duplicate(name: &str, span: Span) -> Diagnostic {
    Diagnostic::emerg(format!("the duplicate \"{name}\" variable")).at(span)
}
