//! What modules keep of a request: values by type, variables, and the groups of regular expressions.

use std::any::{Any, TypeId};
use std::rc::Rc;

use super::recycle::{buffers, recycled};

/// State of modules for one request.
#[derive(Default)]
pub struct ModuleState {
    pub extensions: Extensions,
    pub captures: Captures,
    /// Values of `set` variables, named captures and cached computed variables.
    pub(crate) slots: Vec<Option<Rc<[u8]>>>,
}

buffers!(Captures, Extensions);

recycled!(ModuleState:
    keeps { extensions, captures, slots }
    renews { }
);

impl ModuleState {
    /// Variables for another exchange of the same request; it has none of the modules' values by type.
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
    pub subject: Vec<u8>,
    pub ranges: Vec<Option<(usize, usize)>>,
}

impl Captures {
    /// Group `index`; 0 is the whole match.
    pub fn group(&self, index: usize) -> Option<&[u8]> {
        let (start, end) = (*self.ranges.get(index)?)?;
        self.subject.get(start..end)
    }

    pub fn clear(&mut self) {
        self.subject.clear();
        self.ranges.clear();
    }
}

/// State of modules for one request, by type. Few entries, so a list.
#[derive(Default)]
pub struct Extensions(pub(super) Vec<(TypeId, Box<dyn Any>)>);

impl Extensions {
    pub fn of<T: 'static>(&self) -> Option<&T> {
        self.0.iter().find(|(id, _)| *id == TypeId::of::<T>())?.1.downcast_ref()
    }

    pub fn of_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.0.iter_mut().find(|(id, _)| *id == TypeId::of::<T>())?.1.downcast_mut()
    }

    pub fn insert<T: 'static>(&mut self, value: T) {
        self.remove::<T>();
        self.0.push((TypeId::of::<T>(), Box::new(value)));
    }

    pub fn remove<T: 'static>(&mut self) -> Option<T> {
        let place = self.0.iter().position(|(id, _)| *id == TypeId::of::<T>())?;
        self.0.swap_remove(place).1.downcast().ok().map(|boxed| *boxed)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}
