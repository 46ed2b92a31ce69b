//! The state of one worker thread: its front side, its acceptors, its end.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
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
use tidegate_front::{Front, Shared, accept_connections, receive_datagrams, serve_packets};
use tidegate_os::OwnedSocket;
use tidegate_rt::iteration::{self, LongIteration};
use tidegate_rt::net::{Datagram, Listener, Packets, StopReceiving};
use tidegate_rt::sync::{Notify, Semaphore};
use tidegate_rt::timer::{sleep, timeout};
use tidegate_rt::{Task, spawn_local};

use super::quic::PacketMail;
use super::threads::{Sockets, ThreadSocket};

/// Pause behind a failure to listen, which is logged each time.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// Time that connections get to end after they were aborted.
const ABORT_GRACE: Duration = Duration::from_millis(200);

/// The state of a worker thread.
pub(super) struct Local {
    front: Rc<Front>,
    /// This thread's number among those that pass packets of QUIC to each other.
    number: u16,
    mail: Arc<PacketMail>,
    acceptors: RefCell<Vec<Acceptor>>,
    /// Sockets of QUIC that accept no new connections; those that they have continue.
    leaving: RefCell<Vec<Acceptor>>,
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
    /// That of the socket, which may be replaced by another socket for the same address.
    identity: u64,
    transport: AcceptorTransport,
    task: Running,
}

enum AcceptorTransport {
    Connections(Rc<Listener>),
    Datagrams,
    Quic(Rc<QuicSocket>),
}

/// The state of a socket of QUIC, whose task has connections of its own: it ends behind the last one.
#[derive(Default)]
struct QuicSocket {
    stop: StopReceiving,
    /// No new connections are accepted.
    leaves: Cell<bool>,
}

impl Acceptor {
    fn listener(&self) -> Option<Rc<Listener>> {
        match &self.transport {
            AcceptorTransport::Connections(listener) => Some(listener.clone()),
            AcceptorTransport::Datagrams | AcceptorTransport::Quic(_) => None,
        }
    }

    fn quic(&self) -> Option<&QuicSocket> {
        match &self.transport {
            AcceptorTransport::Quic(socket) => Some(socket),
            AcceptorTransport::Connections(_) | AcceptorTransport::Datagrams => None,
        }
    }
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
    (shared, mail, number): (Arc<Shared>, Arc<PacketMail>, u16),
    sockets: Sockets,
    permit: Option<Arc<Semaphore>>,
) {
    let front = tidegate_front::open(plan.clone(), shared);
    let local = Rc::new(Local {
        front,
        number,
        mail,
        acceptors: RefCell::default(),
        leaving: RefCell::default(),
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
            self.acceptors.borrow().iter().filter_map(Acceptor::listener).collect();
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
    /// Invariant: nothing new is accepted from here on; sockets of QUIC stay open for their connections. Connections that
    /// are left when `limit` is over are aborted and get [`ABORT_GRACE`] for it; then the thread ends, whatever is left.
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

    /// Leaves packets of QUIC to another thread that has the same socket; those of this thread's connections are passed
    /// on from there.
    pub(super) fn stop_receiving(&self) {
        let (acceptors, leaving) = (self.acceptors.borrow(), self.leaving.borrow());
        acceptors
            .iter()
            .chain(&*leaving)
            .filter_map(Acceptor::quic)
            .for_each(|one| one.stop.stop());
    }

    /// Ends the connections of QUIC and stops receiving their packets: another process is to receive them.
    pub(super) fn leave_quic(&self) {
        self.acceptors.borrow_mut().retain(|one| one.quic().is_none());
        self.leaving.borrow_mut().clear();
    }

    /// Ends the thread and its connections now.
    pub(super) fn stop(&self) {
        self.close_listeners();
        self.leaving.borrow_mut().clear();
        self.front.abort_all();
        self.end.notify_one();
    }

    /// Ends connections whose request belongs to an older generation.
    pub(super) fn abort_older(&self, generation: u64) {
        self.front.abort_older(generation);
    }

    fn close_listeners(&self) {
        self.alternation.replace(None);
        let acceptors = std::mem::take(&mut *self.acceptors.borrow_mut());
        self.leave(acceptors);
    }

    /// Closes sockets, except those of QUIC that have connections.
    fn leave(&self, acceptors: impl IntoIterator<Item = Acceptor>) {
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|one| !one.task.0.is_finished());
        for acceptor in acceptors {
            if let Some(socket) = acceptor.quic() {
                socket.leaves.set(true);
                leaving.push(acceptor);
            }
        }
    }

    /// Starts acceptors for new sockets and ends those whose sockets are gone.
    fn listen(&self, sockets: Sockets) {
        let before = std::mem::take(&mut *self.acceptors.borrow_mut());
        let mut before: HashMap<_, _> = before
            .into_iter()
            .map(|one| ((one.place.clone(), one.identity, one.quic().is_some()), one))
            .collect();
        for ThreadSocket { place, identity, socket } in sockets {
            let is_quic = self.front.plan().serves_quic(&place);
            let acceptor = match before.remove(&(place.clone(), identity, is_quic)) {
                Some(known) => Ok(known),
                None => {
                    // A socket that left earlier would receive what is for this one.
                    self.leaving.borrow_mut().retain(|one| one.place != place);
                    self.acceptor(place.clone(), identity, socket)
                }
            };
            match acceptor {
                Ok(acceptor) => self.acceptors.borrow_mut().push(acceptor),
                Err(error) => say_cannot_accept(&self.front, &place.address, &error),
            }
        }
        self.leave(before.into_values());
    }
}

impl Local {
    /// Starts to accept from a socket.
    fn acceptor(
        &self,
        place: ListenerKey,
        identity: u64,
        socket: Arc<OwnedSocket>,
    ) -> io::Result<Acceptor> {
        let (front, address) = (self.front.clone(), place.address.clone());
        if self.front.plan().serves_quic(&place) {
            let (transport, task) = self.quic(address, socket);
            return Ok(Acceptor { place, identity, transport, task });
        }
        if place.datagram {
            let run = move || {
                let (front, address) = (front.clone(), address.clone());
                let socket = socket.try_clone().and_then(Datagram::from_fd);
                async move {
                    match socket {
                        Ok(socket) => receive_datagrams(front, socket, address).await,
                        Err(error) => say_cannot_accept(&front, &address, &error),
                    }
                }
            };
            let task = accepting(self.front.clone(), place.address.clone(), run, || true);
            let task = Running(spawn_local(task));
            let transport = AcceptorTransport::Datagrams;
            return Ok(Acceptor { place, identity, transport, task });
        }
        let listener = Rc::new(Listener::from_shared(socket)?);
        let listening = listener.clone();
        let run = move || accept_connections(front.clone(), listening.clone(), address.clone());
        let task = accepting(self.front.clone(), place.address.clone(), run, || true);
        let task = Running(spawn_local(task));
        Ok(Acceptor { place, identity, transport: AcceptorTransport::Connections(listener), task })
    }

    /// Starts to serve QUIC over a socket.
    fn quic(&self, address: Address, socket: Arc<OwnedSocket>) -> (AcceptorTransport, Running) {
        let state = Rc::new(QuicSocket::default());
        let (front, mail, number) = (self.front.clone(), self.mail.clone(), self.number);
        let (served, at) = (state.clone(), address.clone());
        let run = move || {
            let threads = mail.join(&at, number);
            let packets = socket.try_clone().and_then(Packets::from_socket);
            let packets = packets.map(|packets| packets.stopped_by(&served.stop));
            let (front, address) = (front.clone(), at.clone());
            async move {
                match packets {
                    Ok(packets) => serve_packets(front, packets, address, threads).await,
                    Err(error) => say_cannot_accept(&front, &address, &error),
                }
            }
        };
        let leaving = state.clone();
        let goes_on = move || !leaving.leaves.get();
        let task = Running(spawn_local(accepting(self.front.clone(), address, run, goes_on)));
        (AcceptorTransport::Quic(state), task)
    }
}

fn say_cannot_accept(front: &Front, address: &Address, error: &io::Error) {
    let log = front.plan().main.error_log.clone();
    log.say(Level::Alert, format_args!("cannot accept at {}: {error}", address.text()));
}

/// Starts or ends the watchdog (`loop_watchdog`).
fn watch_iterations(plan: &Plan) {
    let log = plan.main.error_log.clone();
    let report: iteration::Reporter = Box::new(move |long| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or_default();
        let LongIteration { length, cpu, runs, longest, what } = long;
        let [length, cpu, longest] = [length, cpu, longest].map(|time| time.as_millis());
        let what = if what.is_empty() { "no request" } else { what };
        let message = format_args!(
            "the loop of {name} was held for {length} ms ({cpu} ms of processor time, {runs} runs of tasks, the longest {longest} ms): {what}"
        );
        log.say(Level::Warn, message);
    });
    iteration::keep_times(plan.timelines);
    iteration::watch(plan.main.loop_watchdog.map(|limit| (limit, report)));
}

/// Accepts while `goes_on`; a panic is logged, and accepting continues. So it does after a failure, which `run` has
/// logged.
///
/// Dropped at an await it accepts no more, and connections over TCP that it has begun continue. The pause
/// after a panic keeps a repeated one from taking the thread.
async fn accepting<F: Future<Output = ()>>(
    front: Rc<Front>,
    address: Address,
    run: impl Fn() -> F,
    goes_on: impl Fn() -> bool,
) {
    loop {
        let mut run = std::pin::pin!(run());
        let has_panicked = std::future::poll_fn(|context| {
            let poll = AssertUnwindSafe(|| run.as_mut().poll(context));
            match std::panic::catch_unwind(poll) {
                Ok(polled) => polled.map(|()| false),
                Err(_) => Poll::Ready(true),
            }
        })
        .await;
        if !goes_on() {
            return;
        }
        if has_panicked {
            let log = front.plan().main.error_log.clone();
            log.say(Level::Alert, format_args!("accepting at {} panicked", address.text()));
        }
        sleep(if has_panicked { ABORT_GRACE } else { FAILURE_PAUSE }).await;
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
