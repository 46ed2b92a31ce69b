//! State that an exchange shares with the others of the same request.

use std::any::{Any, TypeId};
use std::cell::Cell;
use std::rc::Rc;

/// The position of an exchange among the others of the same request.
#[derive(Default)]
pub struct Lineage {
    /// Objects for subrequests and for the subrequests of these.
    pub inherited: Inherited,
    /// `Content-Type` of the client's response, of which this subrequest's response becomes a part.
    pub page_type: Option<Rc<[u8]>>,
    /// The method that `$request_method` shows in subrequests: that of the request.
    pub method: Option<Rc<[u8]>>,
    pub(crate) depth: u8,
    /// Number of subrequests made so far for the whole request; allocated with the first one.
    pub(crate) made: Option<Rc<Cell<u32>>>,
}

impl Lineage {
    /// Copies the position for another exchange of the same request.
    pub(crate) fn fork(&self) -> Lineage {
        Lineage {
            inherited: self.inherited.clone(),
            page_type: self.page_type.clone(),
            method: self.method.clone(),
            depth: self.depth,
            made: self.made.clone(),
        }
    }

    /// Returns whether it has its defaults.
    #[cfg(test)]
    pub(crate) fn is_fresh(&self) -> bool {
        let Lineage { inherited, page_type, method, depth, made } = self;
        inherited.0.is_empty()
            && page_type.is_none()
            && method.is_none()
            && *depth == 0
            && made.is_none()
    }
}

/// Objects that an exchange shares with its subrequests, by type.
#[derive(Clone, Default)]
pub struct Inherited(Vec<(TypeId, Rc<dyn Any>)>);

impl Inherited {
    /// Returns the object of this type.
    pub fn of<T: 'static>(&self) -> Option<Rc<T>> {
        let (_, object) = self.0.iter().find(|(id, _)| *id == TypeId::of::<T>())?;
        object.clone().downcast().ok()
    }

    /// Adds an object, in place of an earlier one of its type.
    pub fn insert<T: 'static>(&mut self, object: Rc<T>) {
        self.0.retain(|(id, _)| *id != TypeId::of::<T>());
        self.0.push((TypeId::of::<T>(), object));
    }
}
