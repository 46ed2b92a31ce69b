//! `set`, of requests and of sessions.

use tidegate_conf::{Args, Diagnostic, Span, Word};
use tidegate_core::variables::{Changeable, Setter};
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
pub(crate) enum Assignment {
    Slot { slot: usize, value: Template },
    BuiltIn { setter: Setter, value: Template },
}

impl SetConf {
    pub(crate) fn read(args: &Args<'_>) -> Result<SetConf, Diagnostic> {
        let name = crate::http::made_variable::name(args, 0)?;
        Ok(SetConf { name, value: args.word(1).clone(), span: args.word(0).span })
    }

    pub(crate) fn compile(&self, plan: &mut PlanBuilder<'_>) -> Result<Assignment, Diagnostic> {
        let value = plan.template(&self.value)?;
        match plan.variables.changeable(&self.name) {
            Changeable::By(setter) => Ok(Assignment::BuiltIn { setter, value }),
            Changeable::Free => {
                Ok(Assignment::Slot { slot: plan.variables.define_slot(&self.name), value })
            }
            Changeable::Never => {
                let message = format!("the duplicate \"{}\" variable", self.name);
                Err(Diagnostic::emerg(message).at(self.span).label("cannot be changed"))
            }
        }
    }
}

impl Assignment {
    /// Assigns the variable.
    ///
    /// # Errors
    /// The value is too long; the variable keeps its old one.
    pub(crate) fn apply(&self, x: &mut Exchange) -> Result<(), TooLong> {
        match self {
            Assignment::Slot { slot, value } => match value.literal() {
                Some(text) => x.set_slot(*slot, Some(text)),
                None => {
                    let value = value.value(x);
                    if value.len() > VALUE_BYTES_MAX {
                        x.log(
                            Level::Error,
                            format_args!(
                                "a value for \"set\" is longer than {VALUE_BYTES_MAX} bytes"
                            ),
                        );
                        return Err(TooLong);
                    }
                    x.set_slot(*slot, Some(&value));
                }
            },
            Assignment::BuiltIn { setter, value } => {
                let value = value.value(x);
                setter(x, &value);
            }
        }
        Ok(())
    }
}
