//! Expressions of the configuration and requests: named groups are variables, and what matched is kept.

use super::{MatchLimit, Regex, RegexError};
use crate::exchange::Exchange;
use crate::level::Level;
use crate::variables::{Changeable, VariableTable};

impl Regex {
    /// Compiles `text`; named groups become variables. The error is worded as nginx's.
    pub fn compile(
        text: &str,
        caseless: bool,
        variables: &mut VariableTable,
    ) -> Result<Regex, RegexError> {
        Regex::with_slots(text, caseless, |name| match variables.changeable(name) {
            Changeable::Never => Err(RegexError(format!("the duplicate \"{name}\" variable"))),
            Changeable::Free | Changeable::By(_) => Ok(variables.define_slot(name)),
        })
    }

    /// Whether `subject` matches; stores groups and named variables in the exchange if it does.
    /// A match that hits the limit is logged and answered with an error (500).
    pub fn capture(&self, x: &mut Exchange, subject: &[u8]) -> Result<bool, MatchLimit> {
        match self.capture_into(&mut x.modules.captures, subject) {
            Ok(true) => {
                self.store_named(&mut x.modules);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(MatchLimit) => {
                let text = &self.text;
                x.log(Level::Alert, format_args!("matching \"{text}\" hit the backtracking limit"));
                Err(MatchLimit)
            }
        }
    }
}
