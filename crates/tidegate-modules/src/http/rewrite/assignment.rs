//! `set`, of requests and of sessions.

use tidegate_conf::{Args, Diagnostic, Span, Word};
use tidegate_core::builder::PlanBuilder;
use tidegate_core::variables::{Changeable, Setter};
use tidegate_core::{Exchange, Template};

/// A `set` as written.
#[derive(Clone)]
pub struct SetConf {
    name: String,
    value: Word,
    span: Span,
}

/// A compiled `set`.
pub enum Assignment {
    Slot { slot: usize, value: Template },
    BuiltIn { setter: Setter, value: Template },
}

impl SetConf {
    pub fn read(args: &Args<'_>) -> Result<SetConf, Diagnostic> {
        let name = crate::http::made_variable::name(args, 0)?;
        Ok(SetConf { name, value: args.word(1).clone(), span: args.word(0).span })
    }

    pub fn compile(&self, plan: &mut PlanBuilder<'_>) -> Result<Assignment, Diagnostic> {
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
    /// Gives the variable its value.
    pub fn apply(&self, x: &mut Exchange) {
        match self {
            Assignment::Slot { slot, value } => match value.literal() {
                Some(text) => x.set_slot(*slot, Some(text)),
                None => {
                    let value = value.value(x);
                    x.set_slot(*slot, Some(&value));
                }
            },
            Assignment::BuiltIn { setter, value } => {
                let value = value.value(x);
                setter(x, &value);
            }
        }
    }
}
