//! Which object goes when room is needed: S3-FIFO, scan-resistant and aware of sizes.
//!
//! New objects enter a small queue, a tenth of the bytes. Those that were asked for again by the
//! time they reach its end move to the main queue, the rest leave and are remembered as ghosts;
//! who comes back while its ghost is known enters the main queue at once. The main queue gives
//! objects that were used another round for each use, three at most. So a scan passes through the
//! small queue and pushes nothing popular out, which least-recently-used does. (Yang et al.,
//! "FIFO queues are all you need for cache eviction", SOSP 2023.)
//!
//! Sizes count twice: the queues are balanced by bytes, and a large object needs one use more than
//! others to enter the main queue, where it takes the place of many.
//!
//! The queues hold tickets only; what is used how often is told by [`Residents`]. Tickets of
//! objects that are gone are passed over, and cleared away by [`Eviction::take_for_sweep`].

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use hashbrown::HashSet;

/// Most uses that are counted; each is worth one more round in the main queue.
pub(crate) const HEAT_MAX: u8 = 3;

/// Part of the bytes that new objects may take.
const SMALL_PART: u64 = 10;

/// Uses that bring an object from the small into the main queue.
const PROMOTE_HEAT: u8 = 1;

/// How many times larger than the mean an object is that needs one use more.
const LARGE_FACTOR: u64 = 8;

/// Keys without files may take this part of all keys before they go first.
const BARE_PART: usize = 4;

/// Ghosts that are remembered at least.
const GHOSTS_MIN: usize = 1024;

/// Tickets looked at in one search; then whatever is next goes, so that a search has a bound.
const SEARCH_STEPS_MAX: usize = 512;

/// Tickets of the gone that may pile up before a sweep is worth it.
const STALE_MIN: usize = 1024;

/// Names an object for as long as it stays in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(pub u64);

/// Where an object waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Queue {
    /// A key without a file: uses are counted, nothing can be freed.
    Bare,
    Small,
    Main,
}

/// What a policy has to know of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident {
    /// Uses since it entered its queue or was cooled, at most [`HEAT_MAX`].
    pub heat: u8,
    pub bytes: u64,
    /// Must not go now.
    pub busy: bool,
}

/// Totals of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    pub count: usize,
    pub bytes: u64,
}

/// The objects that a policy decides about.
pub(crate) trait Residents {
    /// `None`: the ticket is no longer valid.
    fn look(&self, ticket: Ticket) -> Option<Resident>;
    /// Takes one use away.
    fn cool(&self, ticket: Ticket);
    /// Moves an object to the main queue, without uses; its new ticket.
    fn promote(&self, ticket: Ticket) -> Option<Ticket>;
    fn total(&self, queue: Queue) -> Total;
}

/// What has to become free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Bytes on disk.
    Bytes,
    /// A key, with or without a file.
    Key,
}

/// A policy of eviction: the seam behind which another one would be put.
pub(crate) trait Eviction: Default + Send {
    /// An object has entered the bare or the small queue. `trace` is the same whenever this object
    /// comes.
    fn entered(&mut self, ticket: Ticket, queue: Queue, trace: u32, residents: &impl Residents);
    /// Chooses who goes next. The ticket is out of its queue: an object that stays after all is
    /// to be put back.
    fn victim(&mut self, need: Need, residents: &impl Residents) -> Option<(Ticket, Queue)>;
    fn put_back(&mut self, ticket: Ticket, queue: Queue);
    /// An object of that queue was removed for want of room.
    fn evicted(&mut self, queue: Queue, trace: u32, residents: &impl Residents);
    /// A queue with too many tickets of the gone, to be cleared and given back by
    /// [`Eviction::put_back_swept`]. Meanwhile its objects cannot be chosen.
    fn take_for_sweep(&mut self, residents: &impl Residents) -> Option<(Queue, VecDeque<Ticket>)>;
    fn put_back_swept(&mut self, queue: Queue, swept: VecDeque<Ticket>);
    /// Tickets of all files, each queue in its order.
    fn tickets(&self) -> Vec<Ticket>;
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct S3Fifo {
    bare: VecDeque<Ticket>,
    small: VecDeque<Ticket>,
    main: VecDeque<Ticket>,
    ghosts: Ghosts,
}

impl Eviction for S3Fifo {
    fn entered(&mut self, ticket: Ticket, queue: Queue, trace: u32, residents: &impl Residents) {
        if queue == Queue::Small
            && self.ghosts.take(trace)
            && let Some(promoted) = residents.promote(ticket)
        {
            self.main.push_back(promoted);
            return;
        }
        self.queue(queue).push_back(ticket);
    }

    /// Each turn of the loop takes a ticket that is void out of its queue, passes over one that is busy (once for each
    /// place in the queue), moves one on, which costs it uses, or ends. Bounded by the tickets there are and
    /// [`SEARCH_STEPS_MAX`]; what is next then goes, used or not.
    fn victim(&mut self, need: Need, residents: &impl Residents) -> Option<(Ticket, Queue)> {
        let mut steps = 0;
        // What is busy goes to the back; a queue where all are has nobody who can go.
        let mut busy = [0; 3];
        loop {
            let queue = self.choose(need, residents, &busy)?;
            let ticket = self.queue(queue).pop_front()?;
            let Some(resident) = residents.look(ticket) else { continue };
            if resident.busy {
                self.queue(queue).push_back(ticket);
                busy[queue as usize] += 1;
                continue;
            }
            steps += 1;
            if steps > SEARCH_STEPS_MAX {
                return Some((ticket, queue));
            }
            match queue {
                Queue::Small if resident.heat >= heat_needed(&resident, residents) => {
                    self.main.extend(residents.promote(ticket));
                }
                Queue::Main if resident.heat > 0 => {
                    residents.cool(ticket);
                    self.main.push_back(ticket);
                }
                _ => return Some((ticket, queue)),
            }
        }
    }

    fn put_back(&mut self, ticket: Ticket, queue: Queue) {
        self.queue(queue).push_back(ticket);
    }

    fn evicted(&mut self, queue: Queue, trace: u32, residents: &impl Residents) {
        if queue == Queue::Small {
            let most = residents.total(Queue::Main).count + residents.total(Queue::Small).count;
            self.ghosts.add(trace, most.max(GHOSTS_MIN));
        }
    }

    fn take_for_sweep(&mut self, residents: &impl Residents) -> Option<(Queue, VecDeque<Ticket>)> {
        let queues = [Queue::Bare, Queue::Small, Queue::Main];
        let queue = queues.into_iter().find(|queue| {
            self.queue(*queue).len() > 2 * residents.total(*queue).count + STALE_MIN
        })?;
        Some((queue, std::mem::take(self.queue(queue))))
    }

    fn put_back_swept(&mut self, queue: Queue, mut swept: VecDeque<Ticket>) {
        swept.append(self.queue(queue));
        swept.shrink_to(swept.len() * 2);
        *self.queue(queue) = swept;
    }

    fn tickets(&self) -> Vec<Ticket> {
        self.main.iter().chain(&self.small).copied().collect()
    }
}

impl S3Fifo {
    fn queue(&mut self, queue: Queue) -> &mut VecDeque<Ticket> {
        match queue {
            Queue::Bare => &mut self.bare,
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }

    /// Of which queue the next victim is.
    fn choose(&self, need: Need, residents: &impl Residents, busy: &[usize; 3]) -> Option<Queue> {
        let has = |queue: &VecDeque<Ticket>, busy: usize| queue.len() > busy;
        let has_bare = need == Need::Key && has(&self.bare, busy[Queue::Bare as usize]);
        let has_small = has(&self.small, busy[Queue::Small as usize]);
        let has_main = has(&self.main, busy[Queue::Main as usize]);
        let (small, main) = (residents.total(Queue::Small), residents.total(Queue::Main));
        if has_bare {
            let bare = residents.total(Queue::Bare).count;
            if bare * BARE_PART > bare + small.count + main.count {
                return Some(Queue::Bare);
            }
        }
        let small_is_full = small.bytes * SMALL_PART > small.bytes + main.bytes;
        match (has_small, has_main) {
            (true, false) => Some(Queue::Small),
            (true, true) if small_is_full => Some(Queue::Small),
            (_, true) => Some(Queue::Main),
            (false, false) => has_bare.then_some(Queue::Bare),
        }
    }
}

fn heat_needed(resident: &Resident, residents: &impl Residents) -> u8 {
    let (small, main) = (residents.total(Queue::Small), residents.total(Queue::Main));
    let mean = (small.bytes + main.bytes) / (small.count + main.count).max(1) as u64;
    let large = resident.bytes > mean.saturating_mul(LARGE_FACTOR);
    PROMOTE_HEAT + u8::from(large)
}

/// Traces of objects that left the small queue, oldest first.
#[derive(Default)]
struct Ghosts {
    known: HashSet<u32, RandomState>,
    order: VecDeque<u32>,
}

impl Ghosts {
    fn add(&mut self, trace: u32, most: usize) {
        if self.known.insert(trace) {
            self.order.push_back(trace);
        }
        while self.order.len() > most {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    /// Whether it was known; it no longer is. (Its place in the order stays until its turn.)
    fn take(&mut self, trace: u32) -> bool {
        self.known.remove(&trace)
    }
}
