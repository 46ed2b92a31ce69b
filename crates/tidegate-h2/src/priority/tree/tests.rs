//! The tree against RFC 7540 section 5.3, and against a plain model of it.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{ANNOUNCED_MAX, CLOSED_MAX, Life, NONE, ROOT, Tree};
use crate::frame::StreamId;
use crate::frame::parse::Dependency;

fn id(stream: u32) -> StreamId {
    StreamId::new(stream)
}

fn on(parent: u32, weight: u16) -> Dependency {
    Dependency { exclusive: false, parent: id(parent), weight: (weight - 1) as u8 }
}

fn alone_on(parent: u32) -> Dependency {
    Dependency { exclusive: true, ..on(parent, 16) }
}

fn never(_: StreamId) -> bool {
    false
}

/// A tree whose streams have begun in this order.
fn tree(streams: &[(u32, Dependency)]) -> Tree {
    let mut tree = Tree::default();
    for (stream, dependency) in streams {
        tree.begin(id(*stream), Some(*dependency), never);
    }
    tree
}

/// The tree as text: each stream with those below it, by their numbers.
fn shape(tree: &Tree) -> String {
    fn below(tree: &Tree, place: u32, text: &mut String) {
        let mut children: Vec<(u32, u32)> =
            tree.children(place).map(|child| (tree.ids[child as usize], child)).collect();
        children.sort_unstable();
        for (at, (stream, child)) in children.into_iter().enumerate() {
            text.push_str(if at == 0 { "" } else { " " });
            text.push_str(&stream.to_string());
            if tree.node(child).first != NONE {
                text.push('(');
                below(tree, child, text);
                text.push(')');
            }
        }
    }
    let mut text = String::new();
    below(tree, ROOT, &mut text);
    text
}

/// The streams as they are sent, one frame of this size each turn.
fn sent(tree: &mut Tree, turns: usize, bytes: u32) -> Vec<u32> {
    let mut streams = Vec::new();
    for _ in 0..turns {
        let Some(stream) = tree.next() else { break };
        tree.sent(stream, bytes);
        streams.push(stream.value());
    }
    streams
}

#[test]
fn dependencies_change_as_section_5_3_3_says() {
    // The figures of the section: D and F depend on A, and A is put under D.
    let (a, b, c, d, e, f) = (1, 3, 5, 7, 9, 11);
    let streams = [
        (a, on(0, 16)),
        (b, on(a, 16)),
        (c, on(a, 16)),
        (d, on(c, 16)),
        (e, on(c, 16)),
        (f, on(d, 16)),
    ];
    let mut plain = tree(&streams);
    assert_eq!(shape(&plain), "1(3 5(7(11) 9))");
    plain.prioritise(id(a), on(d, 16), never);
    assert_eq!(shape(&plain), "7(1(3 5(9)) 11)");
    let mut exclusive = tree(&streams);
    exclusive.prioritise(id(a), alone_on(d), never);
    assert_eq!(shape(&exclusive), "7(1(3 5(9) 11))");
    // A new stream between the connection and all others.
    exclusive.begin(id(13), Some(alone_on(0)), never);
    assert_eq!(shape(&exclusive), "13(7(1(3 5(9) 11)))");
    // On itself: a caller refuses that; here it is the default.
    exclusive.prioritise(id(5), on(5, 16), never);
    assert_eq!(shape(&exclusive), "5(9) 13(7(1(3 11)))");
    // A parent that is unknown: the default as well. One that may still begin is remembered.
    exclusive.prioritise(id(9), on(99, 200), never);
    assert_eq!(shape(&exclusive), "5 9 13(7(1(3 11)))");
    exclusive.prioritise(id(9), on(99, 200), |stream| stream == id(99));
    assert_eq!(shape(&exclusive), "5 13(7(1(3 11))) 99(9)");
    exclusive.prioritise(id(101), on(0, 16), never);
    assert_eq!(shape(&exclusive), "5 13(7(1(3 11))) 99(9)");
}

#[test]
fn parents_come_first_and_blocked_ones_are_passed_over() {
    let mut tree = tree(&[(1, on(0, 16)), (3, on(1, 16)), (5, on(3, 16))]);
    for stream in [5, 3, 1] {
        tree.set(id(stream), true);
        assert_eq!(sent(&mut tree, 2, 100), [stream, stream]);
    }
    tree.set(id(1), false);
    tree.set(id(3), false);
    assert_eq!(sent(&mut tree, 1, 100), [5]);
    // A closed stream stays a parent.
    tree.set(id(3), true);
    tree.close(id(1));
    tree.close(id(3));
    assert_eq!((shape(&tree).as_str(), tree.next()), ("1(3(5))", Some(id(5))));
    tree.set(id(5), false);
    assert_eq!(tree.next(), None);
    // A stream that nothing was said about depends on the connection.
    tree.set(id(7), true);
    assert_eq!((shape(&tree).as_str(), tree.next()), ("1(3(5)) 7", Some(id(7))));
}

#[test]
fn the_connection_is_shared_by_weight() {
    let mut tree = tree(&[(1, on(0, 4)), (3, on(0, 12)), (5, on(3, 1)), (7, on(3, 2))]);
    for stream in [1, 5, 7] {
        tree.set(id(stream), true);
    }
    // 3 has three quarters, which its children share.
    let count = |list: &[u32], stream| list.iter().filter(|sent| **sent == stream).count();
    let list = sent(&mut tree, 1200, 16_384);
    for (stream, expected) in [(1, 300usize), (5, 300), (7, 600)] {
        assert!(count(&list, stream).abs_diff(expected) <= 2, "{stream} {}", count(&list, stream));
    }
    // The heavier one is first, and a stream that has waited has no more than its share.
    tree.set(id(1), false);
    sent(&mut tree, 1000, 16_384);
    tree.set(id(1), true);
    let list = sent(&mut tree, 400, 16_384);
    assert!(count(&list, 1).abs_diff(100) <= 2, "{}", count(&list, 1));
    // A new weight counts from now on.
    tree.prioritise(id(1), on(0, 256), never);
    assert_eq!(sent(&mut tree, 2, 16_384), [1, 1]);
}

#[test]
fn children_share_the_weight_of_a_parent_that_is_forgotten() {
    let mut tree = tree(&[(1, on(0, 64)), (3, on(1, 30)), (5, on(1, 10)), (7, on(0, 16))]);
    tree.close(id(1));
    tree.shrink();
    assert_eq!(shape(&tree), "3 5 7");
    let share = |stream| tree.node(tree.find(id(stream)).expect("it is there")).share;
    assert_eq!((share(3), share(5), share(7)), (48 * 256, 16 * 256, 16 * 256));
}

#[test]
fn what_is_kept_has_limits() {
    let mut tree = Tree::default();
    let announce = |tree: &mut Tree, stream: u32, parent: u32| {
        tree.prioritise(id(stream), on(parent, 16), |_| true);
    };
    // A group that is used is kept, whatever else is announced and closed.
    announce(&mut tree, 3, 0);
    for stream in (101..1101).step_by(2) {
        announce(&mut tree, 100_000 + stream, 0);
        tree.begin(id(stream), Some(on(3, 16)), never);
        tree.close(id(stream));
    }
    assert_eq!((tree.announced, tree.closed), (ANNOUNCED_MAX, CLOSED_MAX));
    assert_eq!(tree.nodes.len() - tree.free.len(), ANNOUNCED_MAX + CLOSED_MAX + 1);
    assert!(tree.find(id(3)).is_some());
    assert!(tree.capacity() < 16 * 1024);
    // An idle connection keeps what was announced.
    assert!(!tree.shrink());
    assert_eq!((tree.announced, tree.closed), (ANNOUNCED_MAX, 0));
    let mut only_closed = super::Tree::default();
    only_closed.begin(id(1), None, never);
    only_closed.close(id(1));
    assert!(only_closed.shrink());
    assert_eq!(only_closed.nodes.len(), 1);
}

/// What a client and the server do to a tree.
#[derive(Clone, Debug)]
enum Step {
    Begin(u32, Option<Dependency>),
    Prioritise(u32, Dependency),
    Set(u32, bool),
    Close(u32),
    Send(u32),
    Shrink,
}

fn step() -> impl Strategy<Value = Step> {
    let stream = (1u32..60).prop_map(|number| number * 2 - 1);
    let dependency =
        (any::<bool>(), 0u32..60, any::<u8>()).prop_map(|(exclusive, number, weight)| Dependency {
            exclusive,
            parent: id((number * 2).saturating_sub(1)),
            weight,
        });
    prop_oneof![
        (stream.clone(), proptest::option::of(dependency.clone()))
            .prop_map(|(stream, dependency)| Step::Begin(stream, dependency)),
        (stream.clone(), dependency)
            .prop_map(|(stream, dependency)| Step::Prioritise(stream, dependency)),
        (stream.clone(), any::<bool>()).prop_map(|(stream, ready)| Step::Set(stream, ready)),
        stream.prop_map(Step::Close),
        (0u32..20_000).prop_map(Step::Send),
        Just(Step::Shrink),
    ]
}

/// The parents alone, without limits, as RFC 7540 section 5.3.3 moves them.
#[derive(Default)]
struct Model(BTreeMap<u32, u32>);

impl Model {
    fn depend(&mut self, stream: u32, dependency: Dependency) {
        let parent = dependency.parent.value();
        if parent == stream || (parent != 0 && !self.0.contains_key(&parent)) {
            self.0.insert(stream, 0);
            return;
        }
        let mut above = parent;
        while above != 0 && above != stream {
            above = self.0[&above];
        }
        if above == stream {
            self.0.insert(parent, self.0[&stream]);
        }
        if dependency.exclusive {
            self.0.values_mut().filter(|of| **of == parent).for_each(|of| *of = stream);
        }
        self.0.insert(stream, parent);
    }
}

/// Checks what holds after each step.
fn check(tree: &Tree) {
    let mut seen = 0;
    let mut list = vec![ROOT];
    while let Some(place) = list.pop() {
        seen += 1;
        let node = tree.node(place);
        let mut before = NONE;
        for child in tree.children(place) {
            assert_eq!((tree.node(child).parent, tree.node(child).before), (place, before));
            before = child;
            list.push(child);
        }
        let active = tree.children(place).filter(|child| tree.node(*child).is_active());
        assert_eq!(node.active as usize, active.count());
    }
    assert_eq!(seen + tree.free.len(), tree.nodes.len());
    let kept = |life| {
        let places = tree.ids.iter().zip(&tree.nodes).skip(1);
        places.filter(|(id, node)| **id != super::FREE && node.life == life).count()
    };
    assert_eq!((kept(Life::Announced), kept(Life::Closed)), (tree.announced, tree.closed));
    assert!(tree.announced <= ANNOUNCED_MAX && tree.closed <= CLOSED_MAX);
}

proptest! {
    /// Whatever the steps are: the tree is whole, its counts are right, and what is next is ready, below nothing that is.
    #[test]
    fn the_tree_is_always_whole(steps in vec(step(), 0..200)) {
        let mut tree = Tree::default();
        for step in steps {
            match step {
                Step::Begin(stream, dependency) => tree.begin(id(stream), dependency, |_| true),
                Step::Prioritise(stream, dependency) => {
                    tree.prioritise(id(stream), dependency, |_| true);
                }
                Step::Set(stream, ready) => tree.set(id(stream), ready),
                Step::Close(stream) => tree.close(id(stream)),
                Step::Send(bytes) => {
                    if let Some(stream) = tree.next() {
                        tree.sent(stream, bytes);
                    }
                }
                Step::Shrink => drop(tree.shrink()),
            }
            check(&tree);
            let ready = tree.nodes.iter().zip(&tree.ids).any(|(node, id)| node.ready && *id != super::FREE);
            prop_assert_eq!(tree.next().is_some(), ready);
            if let Some(next) = tree.next() {
                let mut place = tree.find(next).expect("it is there");
                prop_assert!(tree.node(place).ready);
                while place != ROOT {
                    place = tree.node(place).parent;
                    prop_assert!(!tree.node(place).ready);
                }
            }
        }
    }

    /// While nothing is forgotten, parents are those of the plain model.
    #[test]
    fn parents_are_those_of_the_model(
        steps in vec((0u32..15, 0u32..16, any::<bool>()), 0..60),
    ) {
        let (mut tree, mut model) = (Tree::default(), Model::default());
        for (stream, parent, exclusive) in steps {
            let (stream, parent) = (stream * 2 + 1, (parent * 2).saturating_sub(1));
            let dependency = Dependency { exclusive, parent: id(parent), weight: 15 };
            model.0.entry(stream).or_insert(0);
            model.depend(stream, dependency);
            tree.begin(id(stream), Some(dependency), never);
            for (stream, parent) in &model.0 {
                let node = tree.node(tree.find(id(*stream)).expect("it was put there"));
                prop_assert_eq!(tree.ids[node.parent as usize], *parent);
            }
        }
    }

    /// Siblings that always wait get bytes by their weights.
    #[test]
    fn shares_are_kept(weights in vec(1u16..=256, 2..6), sizes in vec(1u32..16_384, 1..8)) {
        let mut tree = Tree::default();
        let mut bytes = vec![0u64; weights.len()];
        for (at, weight) in weights.iter().enumerate() {
            let stream = id(at as u32 * 2 + 1);
            tree.begin(stream, Some(on(0, *weight)), never);
            tree.set(stream, true);
        }
        for turn in 0..4000 {
            let stream = tree.next().expect("all wait");
            let size = sizes[turn % sizes.len()];
            tree.sent(stream, size);
            bytes[stream.value() as usize / 2] += u64::from(size) + super::FRAME_COST;
        }
        for ((weight, bytes), (other, others)) in
            weights.iter().zip(&bytes).zip(weights.iter().zip(&bytes).skip(1))
        {
            // In units of the weight they are apart by one turn of each at most.
            let (one, two) = (bytes * 256 / u64::from(*weight), others * 256 / u64::from(*other));
            let turn = 3 * 16_393 * 256 / u64::from((*weight).min(*other));
            prop_assert!(one.abs_diff(two) <= turn, "{one} {two} {turn}");
        }
    }
}
