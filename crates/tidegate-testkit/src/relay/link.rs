//! A direction of a relay as a state machine: datagrams in, datagrams out when they are due.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The longest time that a datagram is held for the next one to overtake it.
const HELD_MAX: Duration = Duration::from_millis(50);

/// Which datagrams a rule is about, counted from the rule on, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// None.
    None,
    /// Those with these numbers.
    Numbers(Vec<u64>),
    /// Each with a multiple of this number.
    Every(u64),
    /// This part of a hundred, by the seed.
    Percent(u64),
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Loses them.
    Drop(Choice),
    /// Sends them twice.
    Duplicate(Choice),
    /// Holds each until the next one has passed.
    Reorder(Choice),
    /// Changes a bit of each.
    Corrupt(Choice),
    /// Sends all of them this much later.
    Delay(Duration),
    /// Sends this number of bytes in a second; the second one is the most that wait.
    Rate(u64, u64),
    /// Loses all for this time.
    Blackhole(Duration),
    /// Sends all of them with this ECN field (RFC 3168 section 5).
    Mark(u32),
    /// No rules.
    Clear,
}

/// What has arrived, and what was lost of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) packets: i64,
    pub(super) bytes: i64,
    pub(super) lost: i64,
}

/// A choice with its count.
#[derive(Debug, Default)]
struct Chosen {
    choice: Option<Choice>,
    seen: u64,
}

#[derive(Debug)]
struct Waiting {
    due: Instant,
    order: u64,
    /// Until another one has passed.
    is_held: bool,
    client: SocketAddr,
    bytes: Vec<u8>,
}

/// A direction.
#[derive(Debug)]
pub(super) struct Link {
    random: u64,
    drop: Chosen,
    duplicate: Chosen,
    reorder: Chosen,
    corrupt: Chosen,
    delay: Duration,
    /// Bytes in a second, and the most that wait.
    rate: Option<(u64, u64)>,
    /// When the line is free again.
    free: Option<Instant>,
    blackhole: Option<Instant>,
    waiting: Vec<Waiting>,
    order: u64,
    /// The ECN field of what is sent.
    pub(super) mark: u32,
    pub(super) counts: Counts,
}

impl Link {
    /// A link without rules.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: seed,
            drop: Chosen::default(),
            duplicate: Chosen::default(),
            reorder: Chosen::default(),
            corrupt: Chosen::default(),
            delay: Duration::ZERO,
            rate: None,
            free: None,
            blackhole: None,
            waiting: Vec::new(),
            order: 0,
            mark: 0,
            counts: Counts::default(),
        }
    }

    /// Begins the numbers again from a seed.
    pub(super) fn seed(&mut self, seed: u64) {
        self.random = seed;
    }

    /// Sets a rule in the place of the one before.
    pub(super) fn set(&mut self, rule: &Rule, now: Instant) {
        let chosen = |choice: &Choice| Chosen { choice: Some(choice.clone()), seen: 0 };
        match rule {
            Rule::Drop(choice) => self.drop = chosen(choice),
            Rule::Duplicate(choice) => self.duplicate = chosen(choice),
            Rule::Reorder(choice) => self.reorder = chosen(choice),
            Rule::Corrupt(choice) => self.corrupt = chosen(choice),
            Rule::Delay(delay) => self.delay = *delay,
            Rule::Rate(bytes, most) => self.rate = Some((*bytes, *most)),
            Rule::Blackhole(span) => self.blackhole = Some(now + *span),
            Rule::Mark(mark) => self.mark = *mark,
            Rule::Clear => {
                self.drop = Chosen::default();
                self.duplicate = Chosen::default();
                self.reorder = Chosen::default();
                self.corrupt = Chosen::default();
                (self.delay, self.mark) = (Duration::ZERO, 0);
                (self.rate, self.free, self.blackhole) = (None, None, None);
            }
        }
    }

    /// Takes a datagram from or to a client.
    pub(super) fn push(&mut self, now: Instant, client: SocketAddr, bytes: &[u8]) {
        self.counts.packets += 1;
        self.counts.bytes += bytes.len() as i64;
        let is_in_hole = self.blackhole.is_some_and(|until| now < until);
        let is_dropped = self.drop.next(&mut self.random);
        let is_double = self.duplicate.next(&mut self.random);
        let is_held = self.reorder.next(&mut self.random);
        let is_changed = self.corrupt.next(&mut self.random);
        let sent = match is_in_hole || is_dropped {
            true => None,
            false => self.line(now, bytes.len() as u64),
        };
        let Some(due) = sent else {
            self.counts.lost += 1;
            return;
        };
        let mut bytes = bytes.to_vec();
        if is_changed && !bytes.is_empty() {
            let at = next(&mut self.random) as usize % bytes.len();
            bytes[at] ^= 1 << (next(&mut self.random) % 8);
        }
        let mut add = |due, is_held, bytes| {
            self.order += 1;
            self.waiting.push(Waiting { due, order: self.order, is_held, client, bytes });
        };
        if is_double {
            add(due, false, bytes.clone());
        }
        match is_held {
            true => add(due + HELD_MAX, true, bytes),
            false => {
                add(due, false, bytes);
                let order = self.order;
                for (behind, held) in self.waiting.iter_mut().filter(|w| w.is_held).enumerate() {
                    held.due = held.due.min(due);
                    (held.is_held, held.order) = (false, order + 1 + behind as u64);
                    self.order = held.order;
                }
            }
        }
    }

    /// When a datagram of this size has passed the line; none if too many wait for it.
    fn line(&mut self, now: Instant, size: u64) -> Option<Instant> {
        let Some((rate, most)) = self.rate else { return Some(now + self.delay) };
        let free = self.free.map_or(now, |free| free.max(now));
        let wait = Duration::from_secs_f64(most as f64 / rate as f64);
        if free - now > wait {
            return None;
        }
        let free = free + Duration::from_secs_f64(size as f64 / rate as f64);
        self.free = Some(free);
        Some(free + self.delay)
    }

    /// The next datagram that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<(SocketAddr, Vec<u8>)> {
        let due = self.waiting.iter().enumerate().filter(|(_, waiting)| waiting.due <= now);
        let (at, _) = due.min_by_key(|(_, waiting)| (waiting.due, waiting.order))?;
        let waiting = self.waiting.swap_remove(at);
        Some((waiting.client, waiting.bytes))
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.due).min()
    }
}

impl Chosen {
    /// Whether the next datagram is one of them.
    fn next(&mut self, random: &mut u64) -> bool {
        self.seen += 1;
        match &self.choice {
            None | Some(Choice::None) => false,
            Some(Choice::Numbers(numbers)) => numbers.contains(&self.seen),
            Some(Choice::Every(number)) => self.seen.is_multiple_of(*number),
            Some(Choice::Percent(percent)) => next(random) % 100 < *percent,
        }
    }
}

/// The next number of a sequence (SplitMix64).
fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*random ^ (*random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes `count` datagrams, one a millisecond, and returns the numbers in them as they come out.
    fn passed(rules: &[Rule], count: u8) -> (Vec<u8>, Counts) {
        let (mut link, begin) = (Link::new(7), Instant::now());
        rules.iter().for_each(|rule| link.set(rule, begin));
        let client = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut out = Vec::new();
        for number in 1..=count {
            let now = begin + Duration::from_millis(u64::from(number));
            link.push(now, client, &[number; 100]);
            while let Some((_, bytes)) = link.due(now) {
                out.push(bytes.iter().copied().find(|byte| *byte == number).unwrap_or(bytes[0]));
            }
        }
        while let Some(next) = link.next() {
            let (_, bytes) = link.due(next).expect("it is due");
            out.push(bytes[0]);
        }
        (out, link.counts)
    }

    #[test]
    fn datagrams_are_chosen() {
        let drop = |choice| passed(&[Rule::Drop(choice)], 6).0;
        assert_eq!(drop(Choice::None), [1, 2, 3, 4, 5, 6]);
        assert_eq!(drop(Choice::Numbers(vec![1, 4])), [2, 3, 5, 6]);
        assert_eq!(drop(Choice::Every(3)), [1, 2, 4, 5]);
        assert_eq!(drop(Choice::Percent(100)), Vec::<u8>::new());
        let (half, counts) = passed(&[Rule::Drop(Choice::Percent(50))], 200);
        assert!((60..140).contains(&half.len()), "{}", half.len());
        assert_eq!(counts, Counts { packets: 200, bytes: 20_000, lost: 200 - half.len() as i64 });
        assert_eq!(passed(&[Rule::Drop(Choice::Percent(50))], 200).0, half, "the same each time");
        assert_eq!(passed(&[Rule::Drop(Choice::Every(1)), Rule::Clear], 2).0, [1, 2]);
    }

    #[test]
    fn datagrams_are_doubled_and_reordered() {
        assert_eq!(passed(&[Rule::Duplicate(Choice::Every(2))], 4).0, [1, 2, 2, 3, 4, 4]);
        assert_eq!(passed(&[Rule::Reorder(Choice::Numbers(vec![1, 3]))], 4).0, [2, 1, 4, 3]);
        assert_eq!(passed(&[Rule::Reorder(Choice::Numbers(vec![2]))], 2).0, [1, 2]);
    }

    #[test]
    fn one_bit_is_changed() {
        let (mut link, now) = (Link::new(7), Instant::now());
        link.set(&Rule::Corrupt(Choice::Numbers(vec![2])), now);
        let client = SocketAddr::from(([127, 0, 0, 1], 1));
        for changed in [0, 1, 0] {
            link.push(now, client, &[0; 100]);
            let (_, bytes) = link.due(now).expect("it is due");
            assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), changed);
        }
    }

    #[test]
    fn time_passes() {
        let client = SocketAddr::from(([127, 0, 0, 1], 1));
        let (mut link, now) = (Link::new(7), Instant::now());
        link.set(&Rule::Delay(Duration::from_secs(1)), now);
        link.push(now, client, b"late");
        assert_eq!(link.due(now + Duration::from_millis(999)), None);
        assert_eq!(link.next(), Some(now + Duration::from_secs(1)));
        assert!(link.due(now + Duration::from_secs(1)).is_some());
        // A thousand bytes a second, of which two thousand may wait: the third of 1000 bytes is in time, the fourth is lost.
        link.set(&Rule::Clear, now);
        link.set(&Rule::Rate(1000, 2000), now);
        (0..4).for_each(|_| link.push(now, client, &[0; 1000]));
        assert_eq!(link.counts.lost, 1);
        assert_eq!(link.next(), Some(now + Duration::from_secs(1)));
        while let Some(next) = link.next() {
            assert!(next <= now + Duration::from_secs(3));
            assert!(link.due(next).is_some());
        }
        link.set(&Rule::Clear, now);
        link.set(&Rule::Blackhole(Duration::from_secs(5)), now);
        link.push(now + Duration::from_secs(4), client, b"lost");
        assert_eq!(link.next(), None);
        link.push(now + Duration::from_secs(5), client, b"kept");
        assert!(link.next().is_some());
    }
}
