//! The live log: requests as they end, for those who watch it by the API (`/tidegate/log?query=…`).
//!
//! Only a plan with `admin_socket` has it, since it shows what access logs do. Without watchers a request costs the
//! reading of one counter. A watcher has a queue with limits: a slow one loses requests, and sees how many; neither
//! requests nor other watchers wait for it.

mod filter;
mod record;
#[cfg(test)]
mod tests;
mod watchers;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::generated::generate;
use tidegate_core::plan::Service;
use tidegate_core::{Body, Chunk, Exchange};
use tidegate_plan::{LocationBuilder, PlanBuilder};
use tidegate_rt::timer;

pub(crate) use filter::Filter;
#[doc(hidden)]
pub use filter::fuzz_log_query;
pub(crate) use watchers::TooMany;

use bytes::Bytes;
use record::Record;
use watchers::{Next, Watcher};

/// Time after which a watcher without lines gets an empty one, so that both sides see whether the other is there.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// Makes requests of a location known to watchers.
pub(crate) fn tap(location: &mut LocationBuilder<'_, '_>) {
    end_with_plan(location.plan);
    location.logger(Box::new(publish));
}

fn publish(x: &mut Exchange) {
    if watchers::exist() && !x.is_subrequest() {
        watchers::offer(&Record::of(x));
    }
}

/// Begins to watch: the body has a JSON object a line. It ends with the plan, and where the process ends.
///
/// # Errors
/// There are too many watchers.
pub(crate) fn watch(filter: Filter, generation: u64) -> Result<Body, TooMany> {
    let watcher = watchers::add(filter, generation)?;
    Ok(generate(|out| async move {
        let watcher: Rc<Watcher> = Rc::new(watcher);
        // At once: the watcher sees that it is one.
        out.put(Chunk::Bytes(Bytes::from_static(b"\n"))).await;
        out.put(Chunk::Flush).await;
        loop {
            let text = match timer::timeout(SIGN_OF_LIFE, watcher.next()).await {
                Ok(Next::End) => return Ok(()),
                Ok(Next::Lines(text)) => text,
                Err(_) => b"\n".to_vec(),
            };
            out.put(Chunk::Bytes(Bytes::from(text))).await;
            out.put(Chunk::Flush).await;
        }
    }))
}

/// Ends watchers of plans before the one that serves, and all of them when the process ends gracefully: each would hold
/// its plan for as long as it likes.
struct Ending {
    generation: u64,
}

impl Service for Ending {
    fn name(&self) -> String {
        "live log".to_owned()
    }

    fn step(&self) -> Duration {
        watchers::end_before(self.generation);
        Duration::from_secs(3600)
    }

    fn drain(&self) {
        watchers::end_before(u64::MAX);
    }
}

fn end_with_plan(plan: &mut PlanBuilder<'_>) {
    #[derive(Default)]
    struct Added(bool);
    if !std::mem::replace(&mut plan.shared::<Added>().0, true) {
        plan.services.push(Arc::new(Ending { generation: plan.environment.generation }));
    }
}
