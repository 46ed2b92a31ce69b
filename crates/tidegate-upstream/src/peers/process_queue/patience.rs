//! The patience of requests that wait: one timer for all of a thread's requests in a line, since each request to a busy
//! application waits.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use tidegate_rt::timer::sleep;
use tidegate_rt::{clock, spawn_local};

use super::{ProcessQueue, send_there};

/// A line in which requests of this thread wait. Each of them holds it, and so does the task, [`run`], which ends when it
/// is the only one at the end of a pause.
pub(super) struct Watch {
    pub queue: Arc<ProcessQueue>,
}

thread_local! {
    static WATCHES: RefCell<Vec<Weak<Watch>>> = const { RefCell::new(Vec::new()) };
}

/// Returns the watch of a line, for a request that begins to wait in it.
pub(super) fn watch(queue: &Arc<ProcessQueue>) -> Rc<Watch> {
    find(queue).unwrap_or_else(|| {
        let watch = Rc::new(Watch { queue: queue.clone() });
        WATCHES.with_borrow_mut(|all| all.push(Rc::downgrade(&watch)));
        spawn_local(run(watch.clone()));
        watch
    })
}

/// Returns the watch of a line, if it has one.
pub(super) fn find(queue: &Arc<ProcessQueue>) -> Option<Rc<Watch>> {
    WATCHES.with_borrow(|all| {
        all.iter().filter_map(Weak::upgrade).find(|watch| Arc::ptr_eq(&watch.queue, queue))
    })
}

impl Drop for Watch {
    fn drop(&mut self) {
        // A thread that ends has no list.
        let _ = WATCHES.try_with(|all| all.borrow_mut().retain(|watch| watch.strong_count() > 0));
    }
}

async fn run(watch: Rc<Watch>) {
    let queue = &watch.queue;
    let patience = queue.change(|line| line.patience());
    loop {
        sleep(patience).await;
        if Rc::strong_count(&watch) == 1 {
            return;
        }
        send_there(queue.change(|line| line.lose_patience(clock::exact_now())));
    }
}
