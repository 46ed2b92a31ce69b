//! Circles in a graph: files that reach each other (strongly connected components, by Tarjan's algorithm).

use std::collections::BTreeMap;

/// The imports of each file.
pub(super) type Graph = BTreeMap<String, Vec<String>>;

/// The members of the largest circle, sorted; none where no two files reach each other.
pub(super) fn largest(graph: &Graph) -> Vec<String> {
    let mut walk = Walk {
        graph,
        order: BTreeMap::new(),
        earliest: BTreeMap::new(),
        open: Vec::new(),
        largest: Vec::new(),
    };
    for name in graph.keys() {
        if !walk.order.contains_key(name.as_str()) {
            walk.visit(name);
        }
    }
    let mut circle = walk.largest;
    circle.sort_unstable();
    circle.into_iter().map(str::to_owned).collect()
}

struct Walk<'a> {
    graph: &'a Graph,
    /// The visiting order of a file, and the earliest file that it reaches.
    order: BTreeMap<&'a str, usize>,
    earliest: BTreeMap<&'a str, usize>,
    /// Visited, and not assigned to a circle yet.
    open: Vec<&'a str>,
    largest: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, name: &'a str) {
        let number = self.order.len();
        self.order.insert(name, number);
        self.earliest.insert(name, number);
        self.open.push(name);
        for next in &self.graph[name] {
            let Some((next, _)) = self.graph.get_key_value(next) else { continue };
            let reached = match self.order.get(next.as_str()) {
                None => {
                    self.visit(next);
                    self.earliest[next.as_str()]
                }
                Some(number) if self.open.contains(&next.as_str()) => *number,
                Some(_) => continue,
            };
            let earliest = self.earliest[name].min(reached);
            self.earliest.insert(name, earliest);
        }
        if self.earliest[name] == number
            && let Some(first) = self.open.iter().position(|open| *open == name)
        {
            let circle = self.open.split_off(first);
            if circle.len() > self.largest.len().max(1) {
                self.largest = circle;
            }
        }
    }
}
