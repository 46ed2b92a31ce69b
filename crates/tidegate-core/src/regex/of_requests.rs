//! Regular expressions in the configuration: named groups are variables, and captures are stored in the exchange.

use super::{MatchLimit, Regex, RegexError};
use crate::exchange::Exchange;
use crate::level::Level;
use crate::variables::{Changeable, VariableTable};

impl Regex {
    /// Compiles `text`, to machine code with `jit`; named groups become variables.
    ///
    /// # Errors
    /// For an invalid expression and for a group named as a built-in variable, in nginx's words.
    pub fn compile(
        text: &str,
        caseless: bool,
        jit: bool,
        variables: &mut VariableTable,
    ) -> Result<Regex, RegexError> {
        Regex::with_slots(text, caseless, jit, |name| match variables.changeable(name) {
            Changeable::Never => Err(RegexError(format!("the duplicate \"{name}\" variable"))),
            Changeable::Free | Changeable::By(_) | Changeable::Stored(_) => {
                Ok(variables.define_slot(name))
            }
        })
    }

    /// Returns whether `subject` matches; stores groups and named variables in the exchange if it does.
    ///
    /// # Errors
    /// When the backtracking limit is reached, which is logged; the caller responds with 500.
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
