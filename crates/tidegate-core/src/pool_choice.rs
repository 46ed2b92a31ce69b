//! The choice of a thread pool for a location's requests.

use std::sync::{Arc, OnceLock};

use tidegate_rt::blocking::ThreadPool;

use crate::blocking::{HANDLERS, default_pool, pool};
use crate::exchange::Exchange;
use crate::level::Level;
use crate::template::Template;

/// The pool that a location names (`aio threads=NAME`, `handler … pool=NAME`).
#[derive(Debug)]
pub struct PoolChoice(Choice);

#[derive(Debug)]
enum Choice {
    /// A constant name; the pool is looked up once per generation.
    Fixed(String, OnceLock<Arc<ThreadPool>>),
    Computed(Template),
}

impl PoolChoice {
    /// Chooses the pool of handlers.
    pub fn handlers() -> PoolChoice {
        PoolChoice::named(HANDLERS.to_owned())
    }

    /// Chooses the pool of this name.
    pub fn named(name: String) -> PoolChoice {
        PoolChoice(Choice::Fixed(name, OnceLock::new()))
    }

    /// Chooses a pool whose name has variables.
    pub fn computed(name: Template) -> PoolChoice {
        PoolChoice(Choice::Computed(name))
    }

    /// Returns the pool for a request; `None`, which is logged, where there is none of the name.
    pub fn pick(&self, x: &mut Exchange) -> Option<Arc<ThreadPool>> {
        let (name, found) = match &self.0 {
            Choice::Fixed(name, known) => {
                if let Some(known) = known.get() {
                    return Some(known.clone());
                }
                let found = pool(name);
                // Another thread may have set it meanwhile, to the same pool.
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

/// Returns the pool of the current location (`aio threads=`); `None`, which is logged, where there is none of the
/// name.
pub fn pool_of(x: &mut Exchange) -> Option<Arc<ThreadPool>> {
    match x.location_ref().extensions.of::<PoolChoice>() {
        Some(choice) => choice.pick(x),
        None => default_pool(),
    }
}
