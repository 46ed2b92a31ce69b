//! Servers that share a zone, on a virtual clock: the buckets are the real ones, the engine is a model of its script. Each
//! run is decided by its seed.
//!
//! The bound, for one key: what N servers admit in a time t is at most `rate * t`, one burst, and for each other server a
//! burst and what it admits before it knows of the others. While requests are always more than the rate, it is also at
//! least the rate, but for what is lost while an empty bucket waits for a request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_plan::testing::Random;

use crate::http::limit_req::buckets::Buckets;
use crate::http::limit_req::logic::{REQUEST, level_of, micros_of};

mod drawn;

/// What a run is about.
#[derive(Clone, Copy)]
struct Run {
    nodes: usize,
    /// Requests a second that are allowed.
    rate: u64,
    burst: u64,
    /// Requests a second that arrive, at all servers together.
    offered: u64,
    skew: Skew,
    /// The time from a server to the engine and back.
    delay: Duration,
    /// The times in which a server does not reach the engine: all servers with the same number modulo this; 0 for none.
    cut: usize,
    seconds: u64,
    seed: u64,
}

#[derive(Clone, Copy)]
enum Skew {
    Even,
    /// Nine of ten requests are those of the first server.
    First,
    /// The same, of another server in each second.
    Moving,
}

const RUN: Run = Run {
    nodes: 3,
    rate: 100,
    burst: 20,
    offered: 600,
    skew: Skew::Even,
    delay: Duration::from_millis(2),
    cut: 0,
    seconds: 60,
    seed: 1,
};
const INTERVAL: Duration = Duration::from_millis(50);
const STEP: Duration = Duration::from_millis(5);
const KEY: &[u8] = b"key";

/// The engine: for a key its arrival time in microseconds and its total.
#[derive(Default)]
struct Engine(HashMap<Vec<u8>, (u64, u64)>);

impl Engine {
    /// Does what the script does.
    fn add(&mut self, key: &[u8], (add, n): (u64, u64), cap: u64, now: u64) -> (u64, u64) {
        let (tat, total) = self.0.get(key).copied().unwrap_or((now, 0));
        let is_wrong = tat > now + cap;
        let (mut tat, mut total) = (tat.max(now).min(now + cap), total);
        if n > 0 || is_wrong {
            (tat, total) = (tat + add, total + n);
            self.0.insert(key.to_vec(), (tat, total));
        }
        (tat - now, total)
    }
}

struct Node {
    buckets: Buckets,
    available: bool,
    /// The next round.
    due: Duration,
    reply: Option<OnItsWay>,
}

/// A reply on its way.
struct OnItsWay {
    /// When it arrives.
    due: Duration,
    place: u32,
    key: Arc<[u8]>,
    sent: u64,
    /// The time until the bucket is empty and the total; none where the server is cut off.
    says: Option<(u64, u64)>,
}

impl Run {
    fn rate_thousandths(self) -> u64 {
        self.rate * 1000
    }

    /// Requests that may be admitted beyond the rate, once.
    fn excess(self) -> u64 {
        let blind = (INTERVAL + self.delay + STEP * 2).as_millis() as u64;
        let of_other = self.burst + 1 + self.rate * blind / 1000 + 1;
        self.burst + 1 + (self.nodes as u64 - 1) * of_other
    }

    /// Returns the server of a request.
    fn server(self, second: u64, random: &mut Random) -> usize {
        let first = match self.skew {
            Skew::Even => None,
            Skew::First => Some(0),
            Skew::Moving => Some(second as usize % self.nodes),
        };
        match first {
            Some(first) if random.below(10) > 0 => first,
            _ => random.below(self.nodes as u64) as usize,
        }
    }

    fn is_cut(self, node: usize, at: Duration) -> bool {
        // Two of ten seconds.
        self.cut > 0 && node.is_multiple_of(self.cut) && at.as_secs() % 10 < 2 && at.as_secs() >= 10
    }

    /// Returns the number of admitted requests in each step.
    fn admitted(self) -> Vec<u64> {
        let (start, mut random, mut engine) =
            (tidegate_rt::clock::now(), Random(self.seed), Engine::default());
        let mut nodes: Vec<Node> = (0..self.nodes)
            .map(|_| {
                let mut buckets = Buckets::default();
                buckets.share(true);
                let due = Duration::from_millis(random.below(INTERVAL.as_millis() as u64));
                Node { buckets, available: true, due, reply: None }
            })
            .collect();
        let (mut admitted, mut at, mut arrived) = (Vec::new(), Duration::ZERO, 0);
        while at.as_secs() < self.seconds {
            let now = start + at;
            for (index, node) in nodes.iter_mut().enumerate() {
                self.exchange(index, node, &mut engine, (at, now));
            }
            let until = self.offered * (at + STEP).as_millis() as u64 / 1000;
            let mut count = 0;
            for _ in arrived..until {
                let node = self.server(at.as_secs(), &mut random);
                count += u64::from(self.decide(&mut nodes[node], now));
            }
            arrived = until;
            admitted.push(count);
            at += STEP;
        }
        admitted
    }

    /// Decides about a request, as the directive does.
    fn decide(self, node: &mut Node, now: Instant) -> bool {
        let rate = self.rate_thousandths();
        if node.buckets.excess(KEY, rate, now) > self.burst * REQUEST {
            node.buckets.touch(KEY);
            return false;
        }
        let filled = match node.available {
            true => node.buckets.fill(KEY, rate, now, 1 << 20),
            false => {
                let share = node.buckets.recent(KEY).share(self.nodes as u32);
                node.buckets.fill_alone(KEY, share, (rate, now, 1 << 20))
            }
        };
        filled.is_ok()
    }

    /// Receives a reply, or sends what has changed.
    fn exchange(
        self,
        index: usize,
        node: &mut Node,
        engine: &mut Engine,
        (at, now): (Duration, Instant),
    ) {
        let rate = self.rate_thousandths();
        if let Some(reply) = node.reply.take() {
            if reply.due > at {
                node.reply = Some(reply);
                return;
            }
            let OnItsWay { place, key, sent, says, .. } = reply;
            node.available = says.is_some();
            match says {
                None => node.buckets.put_back(place, &key, sent),
                Some((micros, total)) => {
                    let level = level_of(micros, rate);
                    node.buckets.adopt((place, &key), level, (sent, total), now);
                }
            }
            node.due = at + INTERVAL.saturating_sub(self.delay);
        }
        if node.due > at {
            return;
        }
        node.due = at + INTERVAL;
        let Some(place) = node.buckets.take_changed(1).first().copied() else { return };
        let Some((key, sent)) = node.buckets.send(place, rate, now) else { return };
        let cap = (micros_of((self.burst + 1) * REQUEST, rate) + 50_000) * self.nodes as u64;
        let says = (!self.is_cut(index, at)).then(|| {
            let add = micros_of(sent * REQUEST, rate);
            engine.add(&key, (add, sent), cap, 1_700_000_000_000_000 + at.as_micros() as u64)
        });
        node.reply = Some(OnItsWay { due: at + self.delay, place, key, sent, says });
    }
}

/// Returns the most that any time has beyond the rate, in thousandths of a request.
fn most_beyond(run: Run, admitted: &[u64]) -> i64 {
    // The largest sum of any window, by Kadane's method.
    let of_step = run.rate * STEP.as_millis() as u64;
    let (mut beyond, mut most) = (0_i64, 0_i64);
    for count in admitted {
        beyond = (beyond + (count * 1000) as i64 - of_step as i64).max(0);
        most = most.max(beyond);
    }
    most
}

/// Checks that no time has more than the rate and the excess.
fn check_bound(run: Run, excess: u64) -> Vec<u64> {
    let admitted = run.admitted();
    let most = most_beyond(run, &admitted);
    assert!(most <= (excess * 1000) as i64, "{most} of {excess}, seed {}", run.seed);
    admitted
}

/// Returns the requests that were admitted from one second to another.
fn between(admitted: &[u64], from: u64, until: u64) -> u64 {
    let steps = 1000 / STEP.as_millis() as usize;
    admitted[from as usize * steps..until as usize * steps].iter().sum()
}

#[test]
fn three_servers_admit_the_rate() {
    for skew in [Skew::Even, Skew::First, Skew::Moving] {
        for seed in 0..4 {
            let run = Run { skew, seed, ..RUN };
            let admitted = check_bound(run, run.excess());
            // Once the first burst is paid for, ten seconds have ten times the rate, within five of a hundred.
            for from in 5..run.seconds - 10 {
                let count = between(&admitted, from, from + 10);
                let wanted = run.rate * 10;
                let near = count.abs_diff(wanted) * 20 <= wanted;
                assert!(near, "{count} of {wanted} from {from} s, seed {seed}");
            }
        }
    }
}

#[test]
fn low_rates_and_no_burst_are_bounded() {
    // In a step of the model a server without a burst admits one request, so the last rate is out of reach.
    for (rate, burst, delay, least) in
        [(1, 0, 2, 80), (1, 5, 40, 80), (10, 0, 40, 80), (1000, 100, 2, 80), (1000, 0, 45, 30)]
    {
        let delay = Duration::from_millis(delay);
        let run = Run { rate, burst, delay, offered: rate * 3 + 20, seed: rate + burst, ..RUN };
        let admitted = check_bound(run, run.excess());
        let count = between(&admitted, 0, run.seconds);
        assert!(count * 100 >= rate * run.seconds * least, "{count} at {rate}");
    }
}

#[test]
fn a_thousand_servers_are_bounded() {
    let base = Run { nodes: 1000, rate: 500, burst: 2, offered: 5000, seconds: 15, ..RUN };
    for skew in [Skew::Even, Skew::Moving] {
        let run = Run { skew, ..base };
        check_bound(run, run.excess());
    }
}

#[test]
fn servers_that_are_cut_off_keep_to_their_share() {
    for (nodes, cut, seed) in [(3, 3, 1), (3, 2, 2), (3, 1, 3), (20, 4, 4), (20, 1, 5)] {
        let run = Run { nodes, cut, seed, ..RUN };
        // Where only some are cut off, they admit their share beside the others, who admit the rate.
        let cut_off = (nodes as u64).div_ceil(cut as u64);
        let seconds_cut = (run.seconds - 1) / 10 * 2;
        let beside = match cut_off < nodes as u64 {
            true => run.rate * seconds_cut * cut_off / nodes as u64,
            false => 0,
        };
        let admitted = check_bound(run, run.excess() + beside);
        let count = between(&admitted, 0, run.seconds);
        let wanted = run.rate * run.seconds;
        assert!(count <= wanted + beside + run.excess(), "{count} of {wanted} and {beside}");
        assert!(count * 100 >= wanted * 95, "{count} of {wanted}");
        // No time is without requests: what was admitted alone is no debt twice.
        for from in 5..run.seconds - 2 {
            let count = between(&admitted, from, from + 2);
            assert!(count * 2 >= run.rate, "{count} from {from} s, {nodes} {cut}");
        }
    }
}

#[test]
fn an_engine_with_other_times_is_limited_to_the_bursts() {
    let (mut engine, cap, now) = (Engine::default(), 1_000_000, 1 << 50);
    engine.0.insert(KEY.to_vec(), (1 << 51, 7));
    assert_eq!(engine.add(KEY, (0, 0), cap, now), (cap, 7));
    assert_eq!(engine.add(KEY, (10, 1), cap, now), (cap + 10, 8));
    engine.0.insert(KEY.to_vec(), (1, 7));
    assert_eq!(engine.add(KEY, (10, 1), cap, now), (10, 8));
}
