//! The sessions of a thread, for those who end them from outside: shutdown, `worker_shutdown_timeout`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};

use tidegate_core::Exchange;

/// All sessions of a thread.
#[derive(Default)]
pub struct Sessions(Rc<RefCell<slab::Slab<Rc<Handle>>>>);

struct Handle {
    generation: u64,
    datagram: bool,
    aborted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A session's place among them, until it is dropped.
pub(super) struct Running {
    all: Rc<RefCell<slab::Slab<Rc<Handle>>>>,
    handle: Rc<Handle>,
    key: usize,
}

impl Sessions {
    /// How many run.
    pub fn count(&self) -> usize {
        self.0.borrow().len()
    }

    /// Ends those of generations before `generation` at once.
    pub fn abort_older(&self, generation: u64) {
        self.abort(|handle| handle.generation < generation);
    }

    /// Ends those of UDP: their socket is closed, and nothing can come any more.
    pub fn end_datagrams(&self) {
        self.abort(|handle| handle.datagram);
    }

    pub(super) fn enter(&self, x: &Exchange) -> Running {
        let handle = Rc::new(Handle {
            generation: x.plan.generation,
            datagram: x.session().is_some_and(|session| session.is_datagram()),
            aborted: Cell::new(false),
            waker: RefCell::new(None),
        });
        let key = self.0.borrow_mut().insert(handle.clone());
        Running { all: self.0.clone(), handle, key }
    }

    fn abort(&self, which: impl Fn(&Handle) -> bool) {
        let handles: Vec<Rc<Handle>> =
            self.0.borrow().iter().map(|(_, handle)| handle.clone()).collect();
        for handle in handles.into_iter().filter(|handle| which(handle)) {
            handle.aborted.set(true);
            if let Some(waker) = &*handle.waker.borrow() {
                waker.wake_by_ref();
            }
        }
    }
}

impl Running {
    /// Whether the session shall end now; remembers whom to wake otherwise.
    pub(super) fn is_aborted(&self, context: &Context<'_>) -> bool {
        let mut waker = self.handle.waker.borrow_mut();
        match &*waker {
            Some(known) if known.will_wake(context.waker()) => {}
            _ => *waker = Some(context.waker().clone()),
        }
        self.handle.aborted.get()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.all.borrow_mut().try_remove(self.key);
    }
}
