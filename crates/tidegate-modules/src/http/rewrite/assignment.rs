//! `set`, of requests and of sessions.

use tidegate_conf::{Args, Diagnostic, Span, Word};
use tidegate_core::variables::{Changeable, VariableId, VariableSetter};
use tidegate_core::{Exchange, Level, Template};
use tidegate_plan::PlanBuilder;

/// A `set` as written.
#[derive(Clone)]
pub(crate) struct SetConf {
    name: String,
    value: Word,
    span: Span,
}

/// Bytes of the longest value. One that contains itself (`set $a $a$a`) doubles with each rewrite and each
/// subrequest.
const VALUE_BYTES_MAX: usize = 16 << 20;

/// A value is above [`VALUE_BYTES_MAX`], which has been logged.
#[derive(Debug)]
pub(crate) struct TooLong;

/// A compiled `set`.
#[derive(Debug)]
pub(crate) struct Assignment {
    target: Target,
    value: Template,
}

/// The variable that a statement gives a value.
#[derive(Debug)]
pub(crate) enum Target {
    Slot(usize),
    BuiltIn(VariableSetter),
    Stored(VariableId),
}

impl SetConf {
    pub(crate) fn read(args: &Args<'_>) -> Result<SetConf, Diagnostic> {
        let name = tidegate_plan::made_variable::name(args, 0)?;
        Ok(SetConf { name, value: args.word(1).clone(), span: args.word(0).span })
    }

    pub(crate) fn compile(&self, plan: &mut PlanBuilder<'_>) -> Result<Assignment, Diagnostic> {
        let value = plan.template(&self.value)?;
        Ok(Assignment { target: Target::compile(&self.name, self.span, plan)?, value })
    }
}

impl Target {
    /// Finds or defines the variable.
    ///
    /// # Errors
    /// It is a built-in one that cannot be changed.
    pub(crate) fn compile(
        name: &str,
        span: Span,
        plan: &mut PlanBuilder<'_>,
    ) -> Result<Target, Diagnostic> {
        match plan.variables.changeable(name) {
            Changeable::By(setter) => Ok(Target::BuiltIn(setter)),
            Changeable::Stored(id) => Ok(Target::Stored(id)),
            Changeable::Free => Ok(Target::Slot(plan.variables.define_slot(name))),
            Changeable::Never => {
                let message = format!("the duplicate \"{name}\" variable");
                Err(Diagnostic::emerg(message).at(span).label("cannot be changed"))
            }
        }
    }

    /// Returns the value so far, empty without one; that of another variable is given by its template.
    pub(crate) fn value(&self, own: Option<&Template>, x: &mut Exchange) -> Vec<u8> {
        match self {
            Target::Slot(slot) => x.slot(*slot).unwrap_or_default().to_vec(),
            Target::BuiltIn(_) | Target::Stored(_) => {
                own.map(|own| own.value(x)).unwrap_or_default()
            }
        }
    }

    /// Assigns the variable.
    ///
    /// # Errors
    /// The value is too long; the variable keeps its old one.
    pub(crate) fn put(&self, x: &mut Exchange, value: &[u8]) -> Result<(), TooLong> {
        match self {
            Target::Slot(_) if value.len() > VALUE_BYTES_MAX => {
                let message =
                    format_args!("a value for \"set\" is longer than {VALUE_BYTES_MAX} bytes");
                x.log(Level::Error, message);
                Err(TooLong)
            }
            Target::Slot(slot) => {
                x.set_slot(*slot, Some(value));
                Ok(())
            }
            Target::BuiltIn(setter) => {
                setter(x, value);
                Ok(())
            }
            Target::Stored(id) => {
                x.store_variable(*id, value);
                Ok(())
            }
        }
    }
}

impl Assignment {
    /// Assigns the variable.
    ///
    /// # Errors
    /// See [`Target::put`].
    pub(crate) fn apply(&self, x: &mut Exchange) -> Result<(), TooLong> {
        match self.value.literal() {
            Some(text) => self.target.put(x, text),
            None => {
                let value = self.value.value(x);
                self.target.put(x, &value)
            }
        }
    }
}
