//! The state of one worker thread: its front side, its acceptors, its end.

use std::cell::RefCell;
use std::io;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::client::Address;
use tidegate_core::error_log::Level;
use tidegate_core::listen::ListenerKey;
use tidegate_core::plan::Plan;
use tidegate_front::{Front, Shared, accept_connections, receive_datagrams};
use tidegate_os::OwnedSocket;
use tidegate_rt::iteration::{self, LongIteration};
use tidegate_rt::net::{Datagram, Listener};
use tidegate_rt::sync::{Notify, Semaphore};
use tidegate_rt::timer::{sleep, timeout};
use tidegate_rt::{Task, spawn_local};

use super::threads::Sockets;

/// Time that connections get to end after they were aborted.
const ABORT_GRACE: Duration = Duration::from_millis(200);

/// The state of a worker thread.
pub(super) struct Local {
    front: Rc<Front>,
    acceptors: RefCell<Vec<Acceptor>>,
    /// The task that alternates with other threads (`accept_mutex`).
    alternation: RefCell<Option<Running>>,
    end: Notify,
}

/// A task that is aborted when this value is dropped.
struct Running(Task<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Acceptor {
    place: ListenerKey,
    /// The inode of the socket, which may be replaced by another socket for the same address.
    inode: u64,
    /// `None` for UDP.
    listener: Option<Rc<Listener>>,
    _task: Running,
}

thread_local! {
    static LOCAL: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
}

/// Runs a closure with this thread's state, if it is a worker's.
pub(super) fn with(closure: impl FnOnce(&Rc<Local>)) {
    let local = LOCAL.with(|local| local.borrow().clone());
    if let Some(local) = local {
        closure(&local);
    }
}

/// Runs a worker thread until it is asked to end; connections that are left then are dropped. Closures of other threads
/// ([`with`]) find the state from the first poll to the end.
pub(super) async fn run(
    plan: Arc<Plan>,
    shared: Arc<Shared>,
    sockets: Sockets,
    permit: Option<Arc<Semaphore>>,
) {
    let front = tidegate_front::open(plan.clone(), shared);
    let local = Rc::new(Local {
        front,
        acceptors: RefCell::default(),
        alternation: RefCell::default(),
        end: Notify::new(),
    });
    LOCAL.with(|place| place.replace(Some(local.clone())));
    local.apply(plan, sockets, permit);
    local.end.notified().await;
    LOCAL.with(|place| place.replace(None));
}

impl Local {
    /// Changes to a plan and its sockets.
    pub(super) fn apply(&self, plan: Arc<Plan>, sockets: Sockets, permit: Option<Arc<Semaphore>>) {
        let permit = permit.filter(|_| plan.main.accept_mutex);
        let delay = plan.main.accept_mutex_delay;
        watch_iterations(&plan);
        self.front.set_plan(plan);
        self.listen(sockets);
        let listeners: Vec<_> =
            self.acceptors.borrow().iter().filter_map(|one| one.listener.clone()).collect();
        let alternation = permit.map(|permit| {
            listeners.iter().for_each(|listener| listener.pause());
            Running(spawn_local(accept_alternately(listeners.clone(), permit, delay)))
        });
        if alternation.is_none() {
            listeners.iter().for_each(|listener| listener.resume());
        }
        self.alternation.replace(alternation);
    }

    /// Lets the connections finish, within `limit` if there is one, then ends the thread.
    ///
    /// Invariant: nothing new is accepted from here on. Connections that are left when `limit` is over are aborted and
    /// get [`ABORT_GRACE`] for it; then the thread ends, whatever is left.
    pub(super) fn finish(self: &Rc<Self>, limit: Option<Duration>) {
        self.close_listeners();
        self.front.drain(tidegate_rt::clock::now());
        let local = self.clone();
        spawn_local(async move {
            let drained = local.front.drained();
            match limit {
                Some(limit) => {
                    if timeout(limit, drained).await.is_err() {
                        local.front.abort_all();
                        let _ = timeout(ABORT_GRACE, local.front.drained()).await;
                    }
                }
                None => drained.await,
            }
            local.end.notify_one();
        });
    }

    /// Ends the thread and its connections now.
    pub(super) fn stop(&self) {
        self.close_listeners();
        self.front.abort_all();
        self.end.notify_one();
    }

    /// Ends connections whose request belongs to an older generation.
    pub(super) fn abort_older(&self, generation: u64) {
        self.front.abort_older(generation);
    }

    fn close_listeners(&self) {
        self.alternation.replace(None);
        self.acceptors.borrow_mut().clear();
    }

    /// Starts acceptors for new sockets and ends those whose sockets are gone.
    fn listen(&self, sockets: Sockets) {
        let mut before = std::mem::take(&mut *self.acceptors.borrow_mut());
        for (place, socket) in sockets {
            let inode = tidegate_os::socket::identity(&socket);
            let known =
                before.iter().position(|known| known.inode == inode && known.place == place);
            let acceptor = match known {
                Some(place) => Ok(before.swap_remove(place)),
                None => self.acceptor(place.clone(), inode, socket),
            };
            match acceptor {
                Ok(acceptor) => self.acceptors.borrow_mut().push(acceptor),
                Err(error) => {
                    let log = self.front.plan().main.error_log.clone();
                    let address = place.address.text();
                    log.say(Level::Alert, format_args!("cannot accept at {address}: {error}"));
                }
            }
        }
    }
}

impl Local {
    /// Starts to accept from a socket.
    fn acceptor(
        &self,
        place: ListenerKey,
        inode: u64,
        socket: OwnedSocket,
    ) -> io::Result<Acceptor> {
        let (front, address) = (self.front.clone(), place.address.clone());
        if place.datagram {
            let socket = Rc::new(socket);
            let run = move || {
                let (front, address) = (front.clone(), address.clone());
                let socket = socket.try_clone().and_then(Datagram::from_fd);
                async move {
                    if let Ok(socket) = socket {
                        receive_datagrams(front, socket, address).await;
                    }
                }
            };
            let task = accepting(self.front.clone(), place.address.clone(), run);
            let task = Running(spawn_local(task));
            return Ok(Acceptor { place, inode, listener: None, _task: task });
        }
        let listener = Rc::new(Listener::from_fd(socket)?);
        let listening = listener.clone();
        let run = move || accept_connections(front.clone(), listening.clone(), address.clone());
        let task = accepting(self.front.clone(), place.address.clone(), run);
        let task = Running(spawn_local(task));
        Ok(Acceptor { place, inode, listener: Some(listener), _task: task })
    }
}

/// Starts or ends the watchdog (`loop_watchdog`).
fn watch_iterations(plan: &Plan) {
    let log = plan.main.error_log.clone();
    let report: iteration::Reporter = Box::new(move |long| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default();
        let LongIteration { length, runs, longest, what } = long;
        let (length, longest) = (length.as_millis(), longest.as_millis());
        let what = if what.is_empty() { "no request" } else { what };
        let message = format_args!(
            "the loop of {name} was held for {length} ms ({runs} runs of tasks, the longest {longest} ms): {what}"
        );
        log.say(Level::Warn, message);
    });
    iteration::watch(plan.main.loop_watchdog.map(|limit| (limit, report)));
}

/// Accepts for ever; a panic is logged, and accepting continues.
///
/// Never ends by itself; dropped at an await it accepts no more, and connections that it has begun continue. The pause
/// after a panic keeps a repeated one from taking the thread.
async fn accepting<F: Future<Output = ()>>(
    front: Rc<Front>,
    address: Address,
    run: impl Fn() -> F,
) {
    loop {
        let mut run = std::pin::pin!(run());
        std::future::poll_fn(|context| {
            let poll = AssertUnwindSafe(|| run.as_mut().poll(context));
            std::panic::catch_unwind(poll).unwrap_or(Poll::Ready(()))
        })
        .await;
        let log = front.plan().main.error_log.clone();
        log.say(Level::Alert, format_args!("accepting at {} panicked", address.text()));
        sleep(ABORT_GRACE).await;
    }
}

/// Accepts with `accept_mutex`: one thread at a time accepts, until it has accepted something or `delay` has elapsed:
/// so threads get connections evenly.
///
/// Invariant: the listeners are open only while the permit is held. Dropped at an await the permit is returned; the
/// caller that dropped it pauses or resumes the listeners ([`Local::apply`]). Sources: `accept_mutex`,
/// `accept_mutex_delay`.
async fn accept_alternately(listeners: Vec<Rc<Listener>>, permit: Arc<Semaphore>, delay: Duration) {
    while let Ok(_held) = permit.acquire().await {
        let done = Rc::new(Notify::new());
        listeners.iter().for_each(|listener| listener.resume_once(done.clone()));
        let _ = timeout(delay, done.notified()).await;
        listeners.iter().for_each(|listener| listener.pause());
    }
}
