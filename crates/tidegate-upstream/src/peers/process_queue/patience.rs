//! The patience of requests that wait: one timer for all of a thread's requests in a line, since each request to a busy
//! application waits.

use std::cell::RefCell;
use std::sync::Arc;

use tidegate_rt::timer::sleep;
use tidegate_rt::{clock, spawn_local};

use super::{ProcessQueue, send_there};

/// A line in which requests of this thread wait.
struct Watched {
    queue: Arc<ProcessQueue>,
    waits: usize,
}

thread_local! {
    /// Each has a task, [`run`], until no request of this thread has waited at the end of a pause.
    static WATCHED: RefCell<Vec<Watched>> = const { RefCell::new(Vec::new()) };
}

/// Watches for a request that begins to wait; [`end`] is called when it no longer does.
pub(super) fn watch(queue: &Arc<ProcessQueue>) {
    let is_new = WATCHED.with_borrow_mut(|all| {
        if let Some(watched) = all.iter_mut().find(|watched| Arc::ptr_eq(&watched.queue, queue)) {
            watched.waits += 1;
            return false;
        }
        all.push(Watched { queue: queue.clone(), waits: 1 });
        true
    });
    if is_new {
        spawn_local(run(Task(queue.clone())));
    }
}

/// Ends the watch for a request.
pub(super) fn end(queue: &Arc<ProcessQueue>) {
    // A thread that ends has none.
    let _ = WATCHED.try_with(|all| {
        let mut all = all.borrow_mut();
        if let Some(watched) = all.iter_mut().find(|watched| Arc::ptr_eq(&watched.queue, queue)) {
            watched.waits = watched.waits.saturating_sub(1);
        }
    });
}

fn has_waits(queue: &Arc<ProcessQueue>) -> bool {
    WATCHED.with_borrow(|all| {
        all.iter().any(|watched| watched.waits > 0 && Arc::ptr_eq(&watched.queue, queue))
    })
}

/// Returns whether a line has its task.
#[cfg(test)]
pub(super) fn is_watching(queue: &Arc<ProcessQueue>) -> bool {
    WATCHED.with_borrow(|all| all.iter().any(|watched| Arc::ptr_eq(&watched.queue, queue)))
}

/// The task of a line; dropped, with its loop or at its end, another one can begin.
struct Task(Arc<ProcessQueue>);

impl Drop for Task {
    fn drop(&mut self) {
        let _ = WATCHED.try_with(|all| {
            all.borrow_mut().retain(|watched| !Arc::ptr_eq(&watched.queue, &self.0));
        });
    }
}

async fn run(task: Task) {
    let queue = &task.0;
    let patience = queue.change(|line| line.patience());
    loop {
        sleep(patience).await;
        if !has_waits(queue) {
            return;
        }
        send_there(queue.change(|line| line.lose_patience(clock::exact_now())));
    }
}
