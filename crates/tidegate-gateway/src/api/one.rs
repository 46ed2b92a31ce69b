//! One object of a collection, by its name. A pool thread looks for it where there are many.

use std::io;

use tidegate_core::blocking;

use super::error::ApiError;
use super::objects::{Document, Object, Objects};
use super::query::CommandResult;
use super::source::Source;
use crate::exposition::WEIGHT_AT_ONCE;

/// An object that is asked for.
pub(super) struct Named {
    pub(super) source: Source,
    pub(super) all: fn(&Source) -> Objects,
    pub(super) name: String,
    /// Code and text of the error for a name that no object has.
    pub(super) missing: (&'static str, &'static str),
    pub(super) wish: Wish,
}

/// What is done with an object.
pub(super) enum Wish {
    /// It is shown with these fields; `None` for all.
    Show(Option<Vec<String>>),
    /// What it shows starts at zero again.
    Reset,
}

impl Named {
    /// Shows or resets the object.
    ///
    /// # Errors
    /// 404 where there is none, 503 where the pool has too much to do.
    pub(super) async fn carry_out(self) -> Result<CommandResult, ApiError> {
        let Named { source, all, name, missing: (code, text), wish } = self;
        let weight = source.weight;
        let find = move || all(&source).into_iter().find(|(known, _)| *known == name);
        let found = among(weight, find).await.map_err(|_| {
            ApiError::new(503, "FiguresUnavailable", "figures cannot be collected now")
        })?;
        let (_, object) = found.ok_or_else(|| ApiError::new(404, code, text))?;
        Ok(wish.carry_out(object))
    }
}

/// Looks for something among objects of this weight, at once or on a pool thread.
///
/// # Errors
/// The pool has too much to do.
pub(super) async fn among<T: Send + 'static>(
    weight: usize,
    find: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    if weight <= WEIGHT_AT_ONCE {
        return Ok(find());
    }
    blocking::run(move || Ok(find())).await
}

impl Wish {
    /// Shows or resets an object.
    pub(super) fn carry_out(self, object: Object) -> CommandResult {
        match self {
            Wish::Show(fields) => {
                CommandResult::new(Document { fields, ..Document::single(object) })
            }
            Wish::Reset => {
                object.reset();
                CommandResult::nothing()
            }
        }
    }
}
