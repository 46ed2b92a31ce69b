//! The core module's variables.
use crate::variables::Variable;
pub(super) const VARIABLES: &[Variable] = &[];
