//! A tree over the servers of a large group: finds the least loaded ones in O(log n), and among equally
//! loaded ones any by weight. Round robin and random choice are the case in which all loads are equal.

/// Complete binary tree; the leaves are the servers in order.
#[derive(Debug)]
pub(super) struct Tree {
    /// Leaves, a power of two; the leaf of server `i` is node `leaves + i`.
    leaves: usize,
    nodes: Vec<Node>,
    /// Position of round robin among the weights.
    position: u64,
    /// Step of round robin and the sum of weights that it belongs to.
    stride: (u64, u64),
    /// Number of visited nodes.
    #[cfg(test)]
    pub steps: std::cell::Cell<usize>,
}

/// A subtree: its lowest load, and the sum of weights of the servers that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    load: u64,
    weight: u64,
}

/// A subtree without an available server.
const NONE: Node = Node { load: u64::MAX, weight: 0 };

impl Tree {
    pub(super) fn new(servers: usize) -> Tree {
        let leaves = servers.next_power_of_two().max(1);
        Tree {
            leaves,
            nodes: vec![NONE; 2 * leaves],
            position: 0,
            stride: (1, 1),
            #[cfg(test)]
            steps: Default::default(),
        }
    }

    /// Counts a node, in tests: large groups must be fast by construction.
    fn step(&self) {
        #[cfg(test)]
        self.steps.set(self.steps.get() + 1);
    }

    /// Sets a server's load and weight; `None` while it cannot be chosen.
    pub(super) fn set(&mut self, index: usize, value: Option<(u64, u32)>) {
        if index >= self.leaves {
            return;
        }
        let node = match value {
            Some((load, weight)) if weight > 0 => {
                Node { load: load.min(u64::MAX - 1), weight: u64::from(weight) }
            }
            _ => NONE,
        };
        let mut at = self.leaves + index;
        if self.nodes[at] == node {
            return;
        }
        self.nodes[at] = node;
        while at > 1 {
            self.step();
            at /= 2;
            let (left, right) = (self.nodes[2 * at], self.nodes[2 * at + 1]);
            let joined = match left.load.cmp(&right.load) {
                std::cmp::Ordering::Less => left,
                std::cmp::Ordering::Greater => right,
                std::cmp::Ordering::Equal => {
                    Node { load: left.load, weight: left.weight + right.weight }
                }
            };
            if self.nodes[at] == joined {
                return;
            }
            self.nodes[at] = joined;
        }
    }

    /// Returns the sum of weights of the least loaded servers; 0 when none can be chosen.
    pub(super) fn weight(&self) -> u64 {
        self.nodes[1].weight
    }

    /// Returns the server at a place (below [`Tree::weight`]) among the weights of the least loaded ones.
    pub(super) fn at(&self, mut place: u64) -> Option<usize> {
        let Node { load, weight } = self.nodes[1];
        if place >= weight {
            return None;
        }
        let mut at = 1;
        while at < self.leaves {
            self.step();
            let left = self.nodes[2 * at];
            let here = if left.load == load { left.weight } else { 0 };
            if place < here {
                at *= 2;
            } else {
                place -= here;
                at = 2 * at + 1;
            }
        }
        Some(at - self.leaves)
    }

    /// Returns the next server in rotation among the least loaded ones. While nothing changes, in as many calls as
    /// the sum of the weights every server is returned exactly as often as its weight, at spread positions.
    pub(super) fn next(&mut self) -> Option<usize> {
        let total = self.weight();
        if total == 0 {
            return None;
        }
        if self.stride.1 != total {
            self.stride = (stride(total), total);
        }
        self.position = (self.position % total + self.stride.0) % total;
        self.at(self.position)
    }
}

/// Returns a step near the golden section of a total that has no divisor in common with it: its multiples visit every
/// place once before they repeat, far from the previous ones.
fn stride(total: u64) -> u64 {
    let golden = (u128::from(total) * 618_033_989 / 1_000_000_000) as u64;
    let coprime = (golden.max(1)..=total).find(|step| gcd(*step, total) == 1);
    coprime.unwrap_or(1)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
