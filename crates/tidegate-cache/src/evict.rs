//! The choice of the object that is removed when room is needed: S3-FIFO, which resists scans and considers
//! sizes.
//!
//! New objects enter a small queue, which holds a tenth of the bytes. Objects that were used again by the
//! time they reach its end move to the main queue. The others are removed and remembered as ghosts. An object
//! that is stored again while its ghost is remembered enters the main queue at once. The main queue gives an
//! object another round for each use, at most three. So a scan passes through the small queue and evicts
//! nothing popular, as it would with least-recently-used. (Yang et al., "FIFO queues are all you need for
//! cache eviction", SOSP 2023.)
//!
//! Sizes count twice: the queues are balanced by bytes, and a large object needs one use more than others to
//! enter the main queue, where it occupies the room of many.
//!
//! The queues hold tickets only; [`Residents`] has the number of uses of each object. Tickets of removed
//! objects are skipped, and cleared by [`Eviction::take_for_sweep`].

use std::collections::VecDeque;

use foldhash::fast::RandomState;
use hashbrown::HashSet;

/// The highest use count; each use is worth one more round in the main queue.
pub(crate) const HEAT_MAX: u8 = 3;

/// New objects may take one part in this number of all bytes.
const SMALL_PART: u64 = 10;

/// Uses that move an object from the small into the main queue.
const PROMOTE_HEAT: u8 = 1;

/// An object needs one use more when it is this many times larger than the mean.
const LARGE_FACTOR: u64 = 8;

/// Keys without files are removed first once they are more than one part in this number of all keys.
const BARE_PART: usize = 4;

/// The least number of ghosts that are remembered.
const GHOSTS_MIN: usize = 1024;

/// Tickets examined in one search. The next one is then chosen in any case, so that a search is bounded.
const SEARCH_STEPS_MAX: usize = 512;

/// Void tickets that may accumulate before a sweep is worth its cost.
const STALE_MIN: usize = 1024;

/// The name of an object for as long as it is in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(pub u64);

/// The queue that an object is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Queue {
    /// Keys without a file: uses are counted, no bytes can be freed.
    Bare,
    Small,
    Main,
}

/// The properties of an object that a policy decides by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident {
    /// Uses since it entered its queue or was cooled, at most [`HEAT_MAX`].
    pub heat: u8,
    pub bytes: u64,
    /// Whether the object must not be removed now.
    pub busy: bool,
}

/// The totals of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    pub count: usize,
    pub bytes: u64,
}

/// The objects that a policy decides about.
pub(crate) trait Residents {
    /// Returns the object of a ticket; `None` when the ticket is no longer valid.
    fn look(&self, ticket: Ticket) -> Option<Resident>;
    /// Subtracts one use.
    fn cool(&self, ticket: Ticket);
    /// Moves an object to the main queue, without uses, and returns its new ticket.
    fn promote(&self, ticket: Ticket) -> Option<Ticket>;
    fn total(&self, queue: Queue) -> Total;
}

/// The resource that has to be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Bytes on disk.
    Bytes,
    /// A key, with or without a file.
    Key,
}

/// A policy of eviction. Another policy would implement this trait.
pub(crate) trait Eviction: Default + Send {
    /// Notes that an object has entered the bare or the small queue. `trace` is the same each time this
    /// object is stored.
    fn entered(&mut self, ticket: Ticket, queue: Queue, trace: u32, residents: &impl Residents);
    /// Chooses the next object to remove and takes its ticket out of its queue. An object that is not removed
    /// after all has to be put back.
    fn victim(&mut self, need: Need, residents: &impl Residents) -> Option<(Ticket, Queue)>;
    fn put_back(&mut self, ticket: Ticket, queue: Queue);
    /// Notes that an object of that queue was removed for want of room.
    fn evicted(&mut self, queue: Queue, trace: u32, residents: &impl Residents);
    /// Returns a queue with too many void tickets. The caller clears it and gives it back by
    /// [`Eviction::put_back_swept`]. Meanwhile its objects cannot be chosen.
    fn take_for_sweep(&mut self, residents: &impl Residents) -> Option<(Queue, VecDeque<Ticket>)>;
    fn put_back_swept(&mut self, queue: Queue, swept: VecDeque<Ticket>);
    /// Returns the tickets of all files, each queue in its order.
    fn tickets(&self) -> Vec<Ticket>;
}

/// The S3-FIFO policy: see the head of this file.
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

    /// Each iteration of the loop takes a void ticket out of its queue, skips a busy one (once for each place
    /// in the queue), moves one on at the cost of a use, or ends. The iterations are bounded by the number of
    /// tickets and by [`SEARCH_STEPS_MAX`]; the next ticket is then chosen, used or not.
    fn victim(&mut self, need: Need, residents: &impl Residents) -> Option<(Ticket, Queue)> {
        let mut steps = 0;
        // Busy objects move to the back. A queue whose objects are all busy has no victim.
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

    /// Chooses the queue of the next victim.
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

/// The traces of objects that left the small queue, oldest first.
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

    /// Forgets a ghost and returns whether it was remembered. Its place in the order stays until it is the
    /// oldest.
    fn take(&mut self, trace: u32) -> bool {
        self.known.remove(&trace)
    }
}
