//! The worker threads: their number, their work, their end.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use tidegate_core::listen::ListenerKey;
use tidegate_core::main_settings::{Affinity, Count, MainSettings};
use tidegate_core::plan::Plan;
use tidegate_front::Shared;
use tidegate_os::OwnedSocket;
use tidegate_os::affinity::{cpu_count_online, pin_thread, thread_cpus};
use tidegate_os::listen::HAS_REUSEPORT;
use tidegate_rt::Worker;
use tidegate_rt::sync::Semaphore;

use super::local::{self, Local};
use super::quic::{self, PacketMail};
use crate::listening::Listening;

/// Called on a worker thread when it ends, with its number.
pub(crate) type EndCallback = Arc<dyn Fn(usize) + Send + Sync>;

/// One socket for each address, for one thread. Threads share sockets, so that their number does not count for the limit
/// of descriptors.
pub(crate) type Sockets = Vec<ThreadSocket>;

/// A socket of a thread.
pub(crate) struct ThreadSocket {
    pub place: ListenerKey,
    /// Equal where an earlier generation had the same socket under another descriptor.
    pub identity: u64,
    pub socket: Arc<OwnedSocket>,
}

/// Longest wait for running threads to take over a plan.
const APPLY_TIME: Duration = Duration::from_secs(1);

/// The worker threads of this process.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    /// Packets of QUIC between the threads.
    mail: Arc<PacketMail>,
    /// The permit to accept, with `accept_mutex`.
    permit: Arc<Semaphore>,
    running: Vec<Thread>,
    /// Another process receives the packets of QUIC.
    without_quic: bool,
    /// The processors that the running threads are bound to.
    affinity: Option<Affinity>,
    next_number: usize,
    ended: EndCallback,
}

struct Thread {
    number: usize,
    /// The socket of each address that is its own, and its processor, are those of this position.
    position: usize,
    /// Its number in those of its connections of QUIC.
    quic_number: u16,
    worker: Worker,
    /// It was asked to end.
    ending: bool,
}

/// Returns the number of threads of a plan.
pub(crate) fn count(main: &MainSettings) -> usize {
    match main.worker_processes {
        Count::Auto => cpu_count_online(),
        Count::Number(count) => count.max(1),
    }
}

impl Threads {
    pub(crate) fn new(ended: EndCallback) -> Threads {
        Threads {
            shared: Arc::default(),
            mail: Arc::default(),
            permit: Arc::new(Semaphore::new(1)),
            running: Vec::new(),
            without_quic: false,
            affinity: None,
            next_number: 0,
            ended,
        }
    }

    /// Applies a plan to all threads: running ones swap it, missing ones are started, surplus ones finish their
    /// connections. Connections stay on their threads. When this returns, running threads have taken over, unless one
    /// is blocked for longer than [`APPLY_TIME`].
    ///
    /// # Errors
    /// No thread is available; running threads continue.
    ///
    /// | a thread is | then |
    /// |---|---|
    /// | at one of the first `wanted` positions | swaps the plan and its sockets on its own event loop |
    /// | beyond them | finishes its connections, within `worker_shutdown_timeout` |
    /// | missing | started, after the others |
    ///
    /// Invariant: each position of `wanted` has one thread that is not ending, with the sockets and processors of that
    /// position, which it keeps. The wait for running ones is bounded ([`APPLY_TIME`]): a blocked event loop takes over
    /// later. Packets of QUIC are steered to fewer threads before the others end, and to more after they have started.
    /// Sources: `worker_processes`, `worker_cpu_affinity`, `accept_mutex`, `reuseport`, `listen … quic`.
    pub(crate) fn apply(&mut self, plan: &Arc<Plan>, listening: &[Listening]) -> io::Result<()> {
        let wanted = count(&plan.main);
        let serves = |one: &&Listening| !self.without_quic || !plan.serves_quic(&one.place);
        let listening: Vec<&Listening> = listening.iter().filter(serves).collect();
        let listening = &listening[..];
        self.shared.set_threads(wanted);
        let limit = plan.main.worker_shutdown_timeout;
        let affinity = plan.main.worker_cpu_affinity.clone();
        let is_bound_anew = affinity != self.affinity;
        self.affinity = affinity;
        self.mail.set_count(wanted);
        if self.running.iter().any(|thread| thread.position >= wanted) {
            quic::steer(plan, listening, wanted);
        }
        let (done, all_done) = channel::<()>();
        for thread in &mut self.running {
            let position = thread.position;
            if thread.ending || position >= wanted {
                let done = done.clone();
                let is_new = !std::mem::replace(&mut thread.ending, true);
                // Another thread receives from the same socket.
                let shares = position < wanted || !HAS_REUSEPORT;
                let ends = thread.run(move |local| {
                    if shares {
                        local.stop_receiving();
                    }
                    if is_new {
                        local.finish(limit);
                    }
                    drop(done);
                });
                if is_new {
                    ends?;
                }
                continue;
            }
            let (plan, sockets) = (plan.clone(), sockets(listening, position));
            let permit = (wanted > 1).then(|| self.permit.clone());
            let done = done.clone();
            let cpus = is_bound_anew.then(|| cpus(&plan, position)).flatten();
            thread.run(move |local| {
                // A mask without any processor of this machine changes nothing, as at the start.
                let _ = cpus.map(|mask| pin_thread(&mask));
                local.apply(plan, sockets, permit);
                drop(done);
            })?;
        }
        drop(done);
        // Nothing is ever sent: the channel closes when the last thread is done.
        let _ = all_done.recv_timeout(APPLY_TIME);
        for position in 0..wanted {
            if !self.running.iter().any(|thread| !thread.ending && thread.position == position) {
                self.start(plan, sockets(listening, position), position, wanted)?;
            }
        }
        quic::steer(plan, listening, wanted);
        Ok(())
    }

    /// Lets all threads finish their connections, within `limit` if there is one.
    pub(crate) fn finish(&mut self, limit: Option<Duration>) {
        for thread in &mut self.running {
            thread.ending = true;
            let _ = thread.run(move |local| local.finish(limit));
        }
    }

    /// Ends all threads and their connections at once.
    pub(crate) fn stop(&mut self) {
        for thread in &mut self.running {
            thread.ending = true;
            let _ = thread.run(|local| local.stop());
        }
    }

    /// Ends the connections of QUIC and stops receiving their packets, until [`Threads::resume_quic`].
    pub(crate) fn leave_quic(&mut self) {
        self.without_quic = true;
        for thread in &self.running {
            let _ = thread.run(|local| local.leave_quic());
        }
    }

    /// Lets the next [`Threads::apply`] receive packets of QUIC again.
    pub(crate) fn resume_quic(&mut self) {
        self.without_quic = false;
    }

    /// Ends connections that still serve a request of a generation before `generation`.
    pub(crate) fn abort_older(&self, generation: u64) {
        for thread in &self.running {
            let _ = thread.run(move |local| local.abort_older(generation));
        }
    }

    /// Calls a function once every event loop has run what it is asked to run here. A thread that ends counts as well.
    pub(crate) fn when_all_responded(&self, responded: impl FnOnce() + Send + Sync + 'static) {
        let responded = Arc::new(Response(Some(responded)));
        for thread in &self.running {
            let response = responded.clone();
            // One that cannot be asked has ended; another event reports that.
            let _ = thread.run(move |_| drop(response));
        }
    }

    /// Records that a thread has ended: returns whether that was requested, and the message of the panic that ended it,
    /// if any.
    pub(crate) fn collect(&mut self, number: usize) -> (bool, Option<String>) {
        let Some(place) = self.running.iter().position(|thread| thread.number == number) else {
            return (true, None);
        };
        let thread = self.running.swap_remove(place);
        (thread.ending, thread.worker.join().err().map(|panic| panic.to_string()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    fn start(
        &mut self,
        plan: &Arc<Plan>,
        sockets: Sockets,
        position: usize,
        wanted: usize,
    ) -> io::Result<()> {
        let number = self.next_number;
        self.next_number += 1;
        let used: Vec<u16> = self.running.iter().map(|thread| thread.quic_number).collect();
        let quic_number = quic::thread_number(position, wanted, &used);
        let shared = (self.shared.clone(), self.mail.clone(), quic_number);
        let (plan, ended) = (plan.clone(), self.ended.clone());
        let permit = (wanted > 1).then(|| self.permit.clone());
        let pin = pin(self.affinity.as_ref(), position);
        let worker = Worker::run(&format!("worker-{number}"), pin, move |_| async move {
            let _notifier = EndNotifier { number, ended };
            local::run(plan, shared, sockets, permit).await;
        })?;
        self.running.push(Thread { number, position, quic_number, worker, ending: false });
        Ok(())
    }
}

impl Thread {
    fn run(&self, closure: impl FnOnce(&std::rc::Rc<Local>) + Send + 'static) -> io::Result<()> {
        let closure = move || local::with(closure);
        self.worker.remote().run(closure).map_err(io::Error::other)
    }
}

/// A function that is called when this is dropped.
struct Response<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Response<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

/// Reports a thread's end, in whatever way it ends.
struct EndNotifier {
    number: usize,
    ended: EndCallback,
}

impl Drop for EndNotifier {
    fn drop(&mut self) {
        (self.ended)(self.number);
    }
}

/// Returns the sockets of the thread at `position`: its own one of a `reuseport` address, else the one that all share.
fn sockets(listening: &[&Listening], position: usize) -> Sockets {
    let own = |listening: &&Listening| {
        let own = position.checked_rem(listening.sockets.len())?;
        let socket = listening.sockets.get(own)?.clone();
        let identity = tidegate_os::socket::identity(&*socket);
        Some(ThreadSocket { place: listening.place.clone(), identity, socket })
    };
    listening.iter().filter_map(own).collect()
}

/// Returns the processors of a running thread at `position`: those of the process where it is no longer bound.
fn cpus(plan: &Plan, position: usize) -> Option<Vec<u64>> {
    let bound = pin(plan.main.worker_cpu_affinity.as_ref(), position);
    bound.or_else(|| thread_cpus().ok().map(|cpus| mask(&cpus)))
}

/// Returns the processors of the thread at `position`.
fn pin(affinity: Option<&Affinity>, position: usize) -> Option<Vec<u64>> {
    match affinity? {
        Affinity::Masks(masks) => {
            let mask = masks.get(position).or(masks.last())?;
            Some(vec![*mask])
        }
        Affinity::Auto(allowed) => {
            let mut cpus = thread_cpus().ok()?;
            if let Some(mask) = allowed {
                cpus.retain(|cpu| *cpu < 64 && mask >> cpu & 1 == 1);
            }
            let cpu = *cpus.get(position.checked_rem(cpus.len())?)?;
            Some(mask(&[cpu]))
        }
    }
}

/// Converts numbers of processors to a mask of 64-bit words.
fn mask(cpus: &[usize]) -> Vec<u64> {
    let words = cpus.iter().max().map_or(0, |last| last / 64 + 1);
    let mut mask = vec![0; words];
    for cpu in cpus {
        mask[cpu / 64] |= 1 << (cpu % 64);
    }
    mask
}

#[cfg(test)]
mod tests;
