//! State of modules for a request: values by type, variables, and the groups of regular expressions.

use std::any::{Any, TypeId};
use std::rc::Rc;

use super::recycle::{buffers, recycled};

/// State of modules for one request.
#[derive(Default)]
pub struct ModuleState {
    /// Values of modules, by type.
    pub extensions: Extensions,
    /// Groups of the last match.
    pub captures: Captures,
    /// Values of `set` variables, named captures and cached computed variables, by slot.
    pub(crate) slots: Vec<Option<Rc<[u8]>>>,
}

buffers!(Captures, Extensions);

recycled!(ModuleState:
    keeps { extensions, captures, slots }
    renews { }
);

impl ModuleState {
    /// Copies the variables for another exchange of the same request; modules' values by type are not copied.
    pub(crate) fn fork(&self) -> ModuleState {
        let ModuleState { extensions: _, captures, slots } = self;
        ModuleState {
            extensions: Extensions::default(),
            captures: captures.clone(),
            slots: slots.clone(),
        }
    }
}

/// Groups of the last matching regular expression: `$1` to `$9` and beyond.
#[derive(Clone, Default)]
pub struct Captures {
    /// The text that was matched.
    pub subject: Vec<u8>,
    /// Start and end of each group in it; `None` for a group that took no part.
    pub ranges: Vec<Option<(usize, usize)>>,
}

impl Captures {
    /// Returns the text of group `index`; 0 is the whole match.
    pub fn group(&self, index: usize) -> Option<&[u8]> {
        let (start, end) = (*self.ranges.get(index)?)?;
        self.subject.get(start..end)
    }

    /// Removes all groups; the memory is kept.
    pub fn clear(&mut self) {
        self.subject.clear();
        self.ranges.clear();
    }
}

/// State of modules for one request, by type. Few entries, so a list.
#[derive(Default)]
pub struct Extensions(pub(super) Vec<(TypeId, Box<dyn Any>)>);

impl Extensions {
    /// Returns the value of this type.
    pub fn of<T: 'static>(&self) -> Option<&T> {
        self.0.iter().find(|(id, _)| *id == TypeId::of::<T>())?.1.downcast_ref()
    }

    /// Returns the value of this type.
    pub fn of_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.0.iter_mut().find(|(id, _)| *id == TypeId::of::<T>())?.1.downcast_mut()
    }

    /// Adds a value, in place of an earlier one of its type.
    pub fn insert<T: 'static>(&mut self, value: T) {
        self.remove::<T>();
        self.0.push((TypeId::of::<T>(), Box::new(value)));
    }

    /// Removes the value of this type and returns it.
    pub fn remove<T: 'static>(&mut self) -> Option<T> {
        let place = self.0.iter().position(|(id, _)| *id == TypeId::of::<T>())?;
        self.0.swap_remove(place).1.downcast().ok().map(|boxed| *boxed)
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
