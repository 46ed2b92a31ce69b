//! The thread pool of a location: which one its requests use.

use std::sync::{Arc, OnceLock};

use tidegate_rt::blocking::ThreadPool;

use crate::blocking::{HANDLERS, default_pool, pool};
use crate::exchange::Exchange;
use crate::level::Level;
use crate::template::Template;

/// A pool that a location names (`aio threads=NAME`, `handler … pool=NAME`).
#[derive(Debug)]
pub struct PoolChoice(Choice);

#[derive(Debug)]
enum Choice {
    /// The pool is looked up once for each generation.
    Fixed(String, OnceLock<Arc<ThreadPool>>),
    Computed(Template),
}

impl PoolChoice {
    /// The pool of handlers.
    pub fn handlers() -> PoolChoice {
        PoolChoice::named(HANDLERS.to_owned())
    }

    /// The pool of this name.
    pub fn named(name: String) -> PoolChoice {
        PoolChoice(Choice::Fixed(name, OnceLock::new()))
    }

    /// The pool whose name has variables.
    pub fn computed(name: Template) -> PoolChoice {
        PoolChoice(Choice::Computed(name))
    }

    /// The pool for a request; `None`, which has been logged, when there is none of that name.
    pub fn pick(&self, x: &mut Exchange) -> Option<Arc<ThreadPool>> {
        let (name, found) = match &self.0 {
            Choice::Fixed(name, known) => {
                if let Some(known) = known.get() {
                    return Some(known.clone());
                }
                let found = pool(name);
                // Another thread may have looked it up meanwhile, to the same end.
                found.iter().for_each(|pool| drop(known.set(pool.clone())));
                (name.clone(), found)
            }
            Choice::Computed(template) => {
                let name = String::from_utf8_lossy(&template.value(x)).into_owned();
                let found = pool(&name);
                (name, found)
            }
        };
        if found.is_none() {
            x.log(Level::Error, format_args!("thread pool \"{name}\" not found"));
        }
        found
    }
}

/// The pool of the present location (`aio threads=`); `None`, which has been logged, when there is none of that name.
pub fn pool_of(x: &mut Exchange) -> Option<Arc<ThreadPool>> {
    match x.hold_location().extensions.of::<PoolChoice>() {
        Some(choice) => choice.pick(x),
        None => default_pool(),
    }
}
