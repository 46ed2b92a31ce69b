//! The directives of modules that do not belong to nginx, so that an error can name the module that a
//! configuration relies on.

use crate::diagnostic::Diagnostic;

/// Directive (with at most one `*` for any letters), module and the built-in replacement (may be empty),
/// separated by tabs. The first matching row counts.
const TABLE: &str = include_str!("../data/foreign-modules.tsv");

/// In place of a module: a directive that nginx itself once had.
const REMOVED: &str = "removed";

/// The module of a directive that is neither nginx's nor Tidegate's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// The module for messages: `Lua module (OpenResty)`.
    pub module: &'static str,
    /// The replacement to use, empty for none.
    pub advice: &'static str,
}

impl Foreign {
    /// Adds module and advice to the error for the unknown name.
    pub(crate) fn explain(self, error: Diagnostic) -> Diagnostic {
        let error = match self.module {
            REMOVED => error.label("newer versions of nginx do not have it"),
            module => error.label(format!("belongs to the {module}, which is not built in")),
        };
        match self.advice {
            "" => error,
            advice => error.help(format!("what is built in: {advice}")),
        }
    }
}

/// Finds the module of a directive.
pub(crate) fn find(name: &[u8]) -> Option<Foreign> {
    TABLE.lines().skip(1).find_map(|line| {
        let mut fields = line.split('\t');
        let pattern = fields.next()?;
        if !fits(pattern.as_bytes(), name) {
            return None;
        }
        Some(Foreign { module: fields.next()?, advice: fields.next().unwrap_or_default() })
    })
}

/// Returns whether the block of this directive contains Lua instead of directives.
pub(crate) fn has_lua_block(name: &[u8]) -> bool {
    name.ends_with(b"_by_lua_block")
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.iter().position(|byte| *byte == b'*') {
        None => pattern == name,
        Some(star) => {
            let (head, tail) = (&pattern[..star], &pattern[star + 1..]);
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        }
    }
}

#[cfg(test)]
mod tests;
