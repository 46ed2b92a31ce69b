//! The eviction policy: against a model, and against least recently used on a generated trace.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};

use proptest::prelude::*;

use crate::evict::{Eviction, HEAT_MAX, Need, Queue, Resident, Residents, S3Fifo, Ticket, Total};

/// The objects of a cache without files: their heat and their queues.
#[derive(Default)]
struct World {
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    by_ticket: HashMap<Ticket, u64>,
    objects: HashMap<u64, Object>,
    totals: [Total; 3],
    tickets: u64,
}

#[derive(Clone)]
struct Object {
    ticket: Ticket,
    queue: Queue,
    resident: Resident,
}

impl Residents for World {
    fn look(&self, ticket: Ticket) -> Option<Resident> {
        let inner = self.inner.borrow();
        Some(inner.objects[inner.by_ticket.get(&ticket)?].resident)
    }

    fn cool(&self, ticket: Ticket) {
        let mut inner = self.inner.borrow_mut();
        let name = inner.by_ticket[&ticket];
        let object = inner.objects.get_mut(&name).expect("object");
        object.resident.heat = object.resident.heat.checked_sub(1).expect("heat");
    }

    fn promote(&self, ticket: Ticket) -> Option<Ticket> {
        let mut inner = self.inner.borrow_mut();
        let name = inner.by_ticket.remove(&ticket)?;
        let mut object = inner.objects.remove(&name).expect("object");
        assert_eq!(object.queue, Queue::Small);
        inner.subtract(&object);
        object.resident.heat = 0;
        Some(inner.insert(name, object.resident, Queue::Main))
    }

    fn total(&self, queue: Queue) -> Total {
        self.inner.borrow().totals[queue as usize]
    }
}

impl Inner {
    fn insert(&mut self, name: u64, resident: Resident, queue: Queue) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.by_ticket.insert(ticket, name);
        self.objects.insert(name, Object { ticket, queue, resident });
        self.totals[queue as usize].count += 1;
        self.totals[queue as usize].bytes += resident.bytes;
        ticket
    }

    fn subtract(&mut self, object: &Object) {
        self.totals[object.queue as usize].count -= 1;
        self.totals[object.queue as usize].bytes -= object.resident.bytes;
    }
}

impl World {
    fn insert(&self, name: u64, bytes: u64, queue: Queue) -> Ticket {
        let resident = Resident { heat: 0, bytes, busy: false };
        self.inner.borrow_mut().insert(name, resident, queue)
    }

    /// Counts a use; returns whether the object is stored.
    fn hit(&self, name: u64) -> bool {
        let mut inner = self.inner.borrow_mut();
        let Some(object) = inner.objects.get_mut(&name) else { return false };
        object.resident.heat = (object.resident.heat + 1).min(HEAT_MAX);
        true
    }

    fn remove(&self, name: u64) -> Option<Object> {
        let mut inner = self.inner.borrow_mut();
        let object = inner.objects.remove(&name)?;
        inner.by_ticket.remove(&object.ticket);
        inner.subtract(&object);
        Some(object)
    }

    fn name_of(&self, ticket: Ticket) -> u64 {
        self.inner.borrow().by_ticket[&ticket]
    }

    fn bytes(&self) -> u64 {
        self.inner.borrow().totals.iter().map(|total| total.bytes).sum()
    }

    fn set_busy(&self, name: u64, busy: bool) {
        if let Some(object) = self.inner.borrow_mut().objects.get_mut(&name) {
            object.resident.busy = busy;
        }
    }
}

/// A cache with [`S3Fifo`].
#[derive(Default)]
struct Cache {
    world: World,
    policy: S3Fifo,
    max: u64,
}

impl Cache {
    fn request(&mut self, name: u64, bytes: u64) -> bool {
        if self.world.hit(name) {
            return true;
        }
        if bytes > self.max {
            return false;
        }
        while self.world.bytes() + bytes > self.max {
            assert!(self.evict(Need::Bytes), "nothing to evict");
        }
        let ticket = self.world.insert(name, bytes, Queue::Small);
        self.policy.entered(ticket, Queue::Small, name as u32, &self.world);
        false
    }

    fn evict(&mut self, need: Need) -> bool {
        let Some((ticket, queue)) = self.policy.victim(need, &self.world) else { return false };
        let name = self.world.name_of(ticket);
        let object = self.world.remove(name).expect("a victim that is there");
        assert!(!object.resident.busy && object.queue == queue);
        assert!(need == Need::Key || queue != Queue::Bare);
        self.policy.evicted(queue, name as u32, &self.world);
        true
    }
}

/// A cache with least recently used.
#[derive(Default)]
struct LeastRecent {
    order: VecDeque<u64>,
    sizes: HashMap<u64, u64>,
    bytes: u64,
    max: u64,
}

impl LeastRecent {
    fn request(&mut self, name: u64, bytes: u64) -> bool {
        let known = self.sizes.contains_key(&name);
        if known {
            self.order.retain(|other| *other != name);
        } else if bytes > self.max {
            return false;
        } else {
            while self.bytes + bytes > self.max {
                let oldest = self.order.pop_front().expect("an oldest");
                self.bytes -= self.sizes.remove(&oldest).expect("size");
            }
            self.sizes.insert(name, bytes);
            self.bytes += bytes;
        }
        self.order.push_back(name);
        known
    }
}

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Returns requests of popular objects (their number is drawn by a power law) and, in between, a scan over
/// objects that are requested once. Sizes are from 1 to 64 blocks, small ones more often.
fn trace(requests: usize, scanned: f64) -> Vec<(u64, u64)> {
    const OBJECTS: f64 = 5000.0;
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut scan = 1 << 32;
    let name = |random: &mut Random| {
        if random.unit() < scanned {
            scan += 1;
            return scan;
        }
        // The inverse of the sum of x^-0.9, by its integral.
        (1.0 + random.unit() * (OBJECTS.powf(0.1) - 1.0)).powf(10.0) as u64
    };
    let mut name = name;
    (0..requests)
        .map(|_| {
            let name = name(&mut random);
            let size = Random(name.wrapping_mul(0x2545_F491_4F6C_DD1D) | 1).next() % 64;
            (name, 1 + size * size / 64)
        })
        .collect()
}

/// Returns the hit rates of objects and of bytes, in percent.
fn rates(trace: &[(u64, u64)], mut request: impl FnMut(u64, u64) -> bool) -> (f64, f64) {
    let (mut hits, mut hit_bytes, mut bytes) = (0, 0, 0);
    for (name, size) in trace {
        let hit = request(*name, *size);
        hits += u64::from(hit);
        hit_bytes += if hit { *size } else { 0 };
        bytes += size;
    }
    (hits as f64 * 100.0 / trace.len() as f64, hit_bytes as f64 * 100.0 / bytes as f64)
}

/// Prints the figures (`--nocapture`) for changes of the policy.
#[test]
fn better_than_least_recently_used() {
    for (scanned, better_by) in [(0.0, 1.0), (0.3, 4.0), (0.6, 4.0)] {
        let trace = trace(100_000, scanned);
        for max in [2000, 8000] {
            let mut s3 = Cache { max, ..Cache::default() };
            let mut recent = LeastRecent { max, ..LeastRecent::default() };
            let ours = rates(&trace, |name, size| s3.request(name, size));
            let theirs = rates(&trace, |name, size| recent.request(name, size));
            println!(
                "scan {scanned}, room {max}: objects {:.1} % (least recent {:.1} %), \
                 bytes {:.1} % ({:.1} %)",
                ours.0, theirs.0, ours.1, theirs.1
            );
            assert!(ours.0 > theirs.0 + better_by, "{scanned} {max}: {ours:?} {theirs:?}");
        }
    }
}

#[test]
fn a_scan_pushes_nothing_popular_out() {
    let mut cache = Cache { max: 1000, ..Cache::default() };
    for round in 0..4 {
        for name in 0..500 {
            assert_eq!(cache.request(name, 1), round > 0);
        }
    }
    for name in 10_000..30_000 {
        cache.request(name, 1);
    }
    let kept = (0..500).filter(|name| cache.world.hit(*name)).count();
    assert!(kept >= 450, "{kept} of 500 were kept");
}

#[derive(Clone, Debug)]
enum Step {
    Ask { name: u64, bytes: u64 },
    Bare { name: u64 },
    Remove { name: u64 },
    Busy { name: u64, busy: bool },
    Evict { key: bool },
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = 0..40u64;
    let one = prop_oneof![
        6 => (name.clone(), 1..12u64).prop_map(|(name, bytes)| Step::Ask { name, bytes }),
        1 => name.clone().prop_map(|name| Step::Bare { name: name + 1000 }),
        1 => name.clone().prop_map(|name| Step::Remove { name }),
        1 => (name, any::<bool>()).prop_map(|(name, busy)| Step::Busy { name, busy }),
        1 => any::<bool>().prop_map(|key| Step::Evict { key }),
        1 => Just(Step::Sweep),
    ];
    prop::collection::vec(one, 1..300)
}

proptest! {
    /// Every present object can be chosen and no other, busy ones never, and the bound holds.
    #[test]
    fn the_policy_loses_no_object(steps in steps()) {
        let mut cache = Cache { max: 100, ..Cache::default() };
        let mut busy = HashSet::new();
        for step in steps {
            match step {
                Step::Ask { name, bytes } if busy.is_empty() => {
                    cache.request(name, bytes);
                }
                Step::Ask { name, .. } => {
                    cache.world.hit(name);
                }
                Step::Bare { name } if !cache.world.hit(name) => {
                    let ticket = cache.world.insert(name, 0, Queue::Bare);
                    cache.policy.entered(ticket, Queue::Bare, name as u32, &cache.world);
                }
                Step::Bare { .. } => {}
                Step::Remove { name } => {
                    cache.world.remove(name);
                    busy.remove(&name);
                }
                Step::Busy { name, busy: is_busy } => {
                    cache.world.set_busy(name, is_busy);
                    if is_busy { busy.insert(name); } else { busy.remove(&name); }
                }
                Step::Evict { key } => {
                    cache.evict(if key { Need::Key } else { Need::Bytes });
                }
                Step::Sweep => {
                    let taken = cache.policy.take_for_sweep(&cache.world);
                    if let Some((queue, mut tickets)) = taken {
                        tickets.retain(|ticket| cache.world.look(*ticket).is_some());
                        cache.policy.put_back_swept(queue, tickets);
                    }
                }
            }
            prop_assert!(cache.world.bytes() <= 100);
        }
        for name in busy {
            cache.world.set_busy(name, false);
        }
        while cache.evict(Need::Key) {}
        prop_assert_eq!(cache.world.inner.borrow().objects.len(), 0);
    }
}

#[test]
fn void_tickets_are_swept() {
    let mut cache = Cache { max: 1_000_000, ..Cache::default() };
    for name in 0..5000 {
        cache.request(name, 1);
    }
    assert!(cache.policy.take_for_sweep(&cache.world).is_none());
    for name in 0..4900 {
        cache.world.remove(name);
    }
    let (queue, mut tickets) = cache.policy.take_for_sweep(&cache.world).expect("a sweep");
    cache.request(9999, 1);
    tickets.retain(|ticket| cache.world.look(*ticket).is_some());
    cache.policy.put_back_swept(queue, tickets);
    let left: Vec<u64> =
        cache.policy.tickets().iter().map(|ticket| cache.world.name_of(*ticket)).collect();
    assert_eq!(left, (4900..5000).chain([9999]).collect::<Vec<_>>());
}
