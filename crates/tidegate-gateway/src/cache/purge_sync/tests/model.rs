//! Servers with caches, an origin whose objects change with each purge, and an engine that trims, forgets and is restored,
//! with servers that are cut off and killed. A server that is up to date has no fresh object from before a purge.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use tidegate_store::Value;

use super::text;
use crate::cache::purge_sync::entry::{EntryId, PurgeRule, PurgeWhat, fields};
use crate::cache::purge_sync::follow::{Copy, ENTRIES_AT_ONCE, Own, Question, step};

mod drawn;

const NODES: usize = 3;
const KEYS: usize = 3;
/// A server is up to date after so many questions: to join, it may have to announce first.
const QUESTIONS_MAX: usize = 16;

#[derive(Clone, Debug)]
enum Op {
    /// Requests a key from the origin; the response is stored by `End`.
    Begin(usize, usize),
    End(usize),
    /// Changes an object at the origin, and purges it by a server.
    Purge(usize, usize, bool),
    Ask(usize),
    CutOff(usize, bool),
    /// Ends without warning; `true`: behind the effect of what it reads, before its position is kept.
    Kill(usize, bool),
    Trim(usize),
    Forget,
    Snapshot,
    Restore,
}

/// An entry of the stream: id, fields.
type Stored = (u64, Vec<Vec<u8>>);

#[derive(Clone, Default)]
struct Engine {
    entries: VecDeque<Stored>,
}

/// What is stored: the version of the origin, and whether it is fresh.
#[derive(Clone, Copy, Debug)]
struct Object {
    version: u64,
    fresh: bool,
}

struct Node {
    copy: Copy,
    kept: Copy,
    unseen: Vec<EntryId>,
    outbox: VecDeque<(Vec<PurgeRule>, usize, u64)>,
    objects: [Option<Object>; KEYS],
    /// A running fill; the second value: not to be stored, the third: to be stored as stale.
    fill: Option<(usize, u64, bool, bool)>,
    name: String,
    is_cut_off: bool,
}

struct World {
    engine: Engine,
    snapshot: Engine,
    nodes: Vec<Node>,
    versions: [u64; KEYS],
    /// The version that no server that is up to date may serve anything older than.
    owed: [u64; KEYS],
    /// Time, ids and tokens.
    number: u64,
    /// Keys and versions of entries by id.
    purges: BTreeMap<u64, (usize, u64)>,
}

impl Engine {
    fn value((id, fields): &Stored) -> Value {
        let fields = fields.iter().cloned().map(Value::Text).collect();
        Value::List(vec![text(&format!("{id}-0")), Value::List(fields)])
    }

    fn append(
        &mut self,
        number: u64,
        node: &str,
        rules: &[Vec<u8>],
        behind: Option<EntryId>,
    ) -> u64 {
        let before = self.entries.back().map_or(Vec::new(), |(_, fields)| fields[1].clone());
        if let Some((id, fields)) = self.entries.back()
            && behind.is_some_and(|lost| *id > lost.millis)
            && fields.get(6) == rules.first()
        {
            return *id;
        }
        let mut fields =
            vec![b"token".to_vec(), number.to_string().into(), b"before".to_vec(), before];
        fields.extend([b"node".to_vec(), node.into()]);
        fields.extend_from_slice(rules);
        self.entries.push_back((number, fields));
        number
    }

    fn from(&self, id: u64) -> Value {
        let list = self.entries.iter().filter(|(own, _)| *own >= id).take(ENTRIES_AT_ONCE);
        Value::List(list.map(Engine::value).collect())
    }

    fn reply(&mut self, question: &Question, number: u64) -> Value {
        match question {
            Question::Join => {
                if self.entries.is_empty() {
                    self.append(number, "", &[b"begin".to_vec(), Vec::new()], None);
                }
                let (id, fields) = &self.entries[self.entries.len() - 1];
                Value::List(vec![text(&format!("{id}-0")), Value::Text(fields[1].clone())])
            }
            Question::Announce(lost) => {
                let id = self.append(number, "", &[b"stale".to_vec(), Vec::new()], Some(*lost));
                text(&format!("{id}-0"))
            }
            Question::Verify(at) => {
                let first = self.entries.front().map_or(String::new(), |(id, _)| format!("{id}-0"));
                let list = if first.is_empty() {
                    Value::List(Vec::new())
                } else {
                    self.from(at.id.millis)
                };
                Value::List(vec![text(&first), list])
            }
            Question::Read(at) => match self.from(at.id.millis + 1) {
                Value::List(list) if list.is_empty() => Value::Null,
                list => Value::List(vec![text("stream"), list]),
            },
        }
    }
}

impl Node {
    /// Whether a loss would go unnoticed with it: an entry that no server has read is known to its sender alone, and that it
    /// is lost until that is announced.
    fn knows_alone(&self) -> bool {
        let finds_again = |lost| matches!(&self.kept, Copy::Known(at) if at.id >= lost);
        match self.copy {
            Copy::Older(lost) if !finds_again(lost) => true,
            _ => !self.unseen.is_empty(),
        }
    }

    fn apply(&mut self, rule: &PurgeRule) {
        let concerns = |key: usize| match &rule.what {
            PurgeWhat::Key(name) => *name == key.to_string().into_bytes(),
            PurgeWhat::Scope(scope) => scope.text().is_empty(),
        };
        for (key, object) in self.objects.iter_mut().enumerate() {
            match object {
                Some(_) if concerns(key) && !rule.soft => *object = None,
                Some(object) if concerns(key) => object.fresh = false,
                _ => {}
            }
        }
        if let Some((key, _, gone, stale)) = &mut self.fill
            && concerns(*key)
        {
            *(if rule.soft { stale } else { gone }) = true;
        }
    }
}

impl World {
    fn new() -> World {
        World::of(NODES)
    }

    /// Makes a world of so many servers.
    fn of(nodes: usize) -> World {
        let node = |number: usize| Node {
            copy: Copy::Unknown,
            kept: Copy::Unknown,
            unseen: Vec::new(),
            outbox: VecDeque::new(),
            objects: [None; KEYS],
            fill: None,
            name: format!("node{number}"),
            is_cut_off: false,
        };
        World {
            engine: Engine::default(),
            snapshot: Engine::default(),
            nodes: (0..nodes).map(node).collect(),
            versions: [0; KEYS],
            owed: [0; KEYS],
            number: 0,
            purges: BTreeMap::new(),
        }
    }

    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Sends what waits at a server.
    fn send(&mut self, node: usize) {
        while !self.nodes[node].is_cut_off
            && let Some((rules, key, version)) = self.nodes[node].outbox.pop_front()
        {
            let (number, name) = (self.next(), self.nodes[node].name.clone());
            let id = self.engine.append(number, &name, &fields(&rules), None);
            self.nodes[node].unseen.push(EntryId { millis: id, number: 0 });
            self.purges.insert(id, (key, version));
            self.owed[key] = self.owed[key].max(version);
        }
    }

    /// Lets a server ask once; returns whether it is up to date.
    fn ask(&mut self, node: usize, keep: bool) -> bool {
        self.send(node);
        if self.nodes[node].is_cut_off {
            let own = &mut self.nodes[node];
            own.copy = own.copy.clone().disconnected();
            return false;
        }
        let question = self.nodes[node].copy.question();
        let number = self.next();
        let reply = self.engine.reply(&question, number);
        let own = &mut self.nodes[node];
        let by = Own { node: own.name.as_bytes(), unseen: &own.unseen };
        let step = step(question, &reply, by).expect("a reply of the engine");
        step.rules.iter().for_each(|rule| own.apply(rule));
        if step.revalidate {
            own.apply(&PurgeRule::everything_stale());
        }
        match &step.next {
            Copy::Following(at) => own.unseen.retain(|id| *id > at.id),
            Copy::Older(_) => own.unseen.clear(),
            _ => {}
        }
        own.copy = step.next;
        if keep && matches!(own.copy, Copy::Following(_)) {
            own.kept = own.copy.clone().disconnected();
        }
        step.current
    }

    /// Whether some server would notice that these entries are lost.
    fn is_known(&self, lost: &[u64]) -> bool {
        lost.iter().all(|id| {
            let id = EntryId { millis: *id, number: 0 };
            self.nodes.iter().any(|node| {
                let position = match &node.kept {
                    Copy::Known(at) => at.id >= id,
                    _ => false,
                };
                position || node.unseen.contains(&id)
            })
        })
    }

    fn carry_out(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Begin(node, key) => {
                let version = self.versions[key];
                self.nodes[node].fill.get_or_insert((key, version, false, false));
            }
            Op::End(node) => {
                let own = &mut self.nodes[node];
                if let Some((key, version, false, stale)) = own.fill.take() {
                    own.objects[key] = Some(Object { version, fresh: !stale });
                }
            }
            Op::Purge(node, key, soft) => {
                self.versions[key] += 1;
                let rule =
                    PurgeRule { what: PurgeWhat::Key(key.to_string().into()), soft, at: None };
                let version = self.versions[key];
                self.nodes[node].apply(&rule);
                self.nodes[node].outbox.push_back((vec![rule], key, version));
                self.send(node);
            }
            Op::Ask(node) => {
                if self.ask(node, true) {
                    self.check(node)?;
                }
            }
            Op::CutOff(node, is_cut_off) => self.nodes[node].is_cut_off = is_cut_off,
            Op::Kill(node, in_between) => {
                if self.nodes[node].knows_alone() {
                    return Ok(());
                }
                if in_between {
                    self.ask(node, false);
                }
                let number = self.next();
                let own = &mut self.nodes[node];
                own.copy = own.kept.clone();
                own.unseen.clear();
                // The client knows that these were not distributed.
                own.outbox.clear();
                own.fill = None;
                own.name = format!("node{node}.{number}");
            }
            Op::Trim(left) => {
                while self.engine.entries.len() > left.max(1) {
                    self.engine.entries.pop_front();
                }
            }
            Op::Forget => self.engine.entries.clear(),
            Op::Snapshot => self.snapshot = self.engine.clone(),
            Op::Restore => {
                let has =
                    |engine: &Engine, id: u64| engine.entries.iter().any(|(own, _)| *own == id);
                let lost: Vec<u64> = self.purges.keys().copied().collect();
                let lost: Vec<u64> = lost
                    .into_iter()
                    .filter(|id| has(&self.engine, *id) && !has(&self.snapshot, *id))
                    .collect();
                if self.is_known(&lost) {
                    self.engine = self.snapshot.clone();
                    // All connections end.
                    for node in &mut self.nodes {
                        node.copy = node.copy.clone().disconnected();
                    }
                }
            }
        }
        Ok(())
    }

    fn check(&self, node: usize) -> Result<(), TestCaseError> {
        // What the engine has lost is made up for when all have been here; `rejoin` checks that.
        let has = |id: &u64| self.engine.entries.iter().any(|(own, _)| own == id);
        for (_, (key, version)) in self.purges.iter().filter(|(id, _)| has(id)) {
            let stale = self.nodes[node].objects[*key]
                .filter(|object| object.fresh && object.version < *version);
            prop_assert!(
                stale.is_none(),
                "node {node}, key {key}: {stale:?} is older than {version}"
            );
        }
        Ok(())
    }

    /// Connects all servers; then none has a fresh object from before a purge.
    fn rejoin(&mut self) -> Result<(), TestCaseError> {
        self.nodes.iter_mut().for_each(|node| node.is_cut_off = false);
        // Twice: what the last one announces reaches the first one.
        let nodes = self.nodes.len();
        for node in (0..nodes).chain(0..nodes) {
            let found = (0..QUESTIONS_MAX).any(|_| self.ask(node, true));
            prop_assert!(
                found,
                "node {node} does not come up to date: {:?}",
                self.nodes[node].copy
            );
        }
        for (node, own) in self.nodes.iter().enumerate() {
            for key in 0..KEYS {
                let stale = own.objects[key]
                    .filter(|object| object.fresh && object.version < self.owed[key]);
                prop_assert!(
                    stale.is_none(),
                    "node {node}, key {key}: {stale:?} before {}",
                    self.owed[key]
                );
            }
        }
        Ok(())
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0..NODES, 0..KEYS).prop_map(|(node, key)| Op::Begin(node, key)),
        6 => (0..NODES).prop_map(Op::End),
        6 => (0..NODES, 0..KEYS, any::<bool>()).prop_map(|(node, key, soft)| Op::Purge(node, key, soft)),
        8 => (0..NODES).prop_map(Op::Ask),
        3 => (0..NODES, any::<bool>()).prop_map(|(node, cut_off)| Op::CutOff(node, cut_off)),
        1 => (0..NODES, any::<bool>()).prop_map(|(node, between)| Op::Kill(node, between)),
        1 => (0usize..4).prop_map(Op::Trim),
        1 => Just(Op::Forget),
        1 => Just(Op::Snapshot),
        1 => Just(Op::Restore),
    ];
    prop::collection::vec(op, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn no_server_that_is_up_to_date_has_an_object_from_before_a_purge(ops in ops()) {
        let mut world = World::new();
        for op in &ops {
            world.carry_out(op)?;
        }
        world.rejoin()?;
    }
}

/// The stream is deleted behind a purge that only its sender has seen, while all connections stay.
#[test]
fn a_deleted_stream_is_noticed_by_the_sender_of_its_last_purge() {
    let mut world = World::new();
    let before = [Op::Ask(1), Op::Ask(2), Op::Ask(0), Op::Begin(2, 0), Op::End(2)];
    for op in before.iter().chain(&[Op::Purge(0, 0, false), Op::Forget]) {
        world.carry_out(op).expect("nothing is stale yet");
    }
    world.rejoin().expect("nothing is stale");
}

/// The newest entry says that everything is stale, and all have read it; then the engine loses a purge behind it.
#[test]
fn an_announcement_that_was_read_before_a_loss_does_not_stand_for_a_new_one() {
    let mut world = World::new();
    let mut run = |ops: &[Op]| {
        ops.iter().for_each(|op| world.carry_out(op).expect("nothing is stale yet"));
    };
    // Two servers purge before they have joined: one of them announces.
    run(&[Op::Purge(1, 0, false), Op::Purge(0, 0, false), Op::Ask(1), Op::Ask(1)]);
    run(&[Op::Ask(0), Op::Ask(0), Op::Ask(2), Op::Snapshot]);
    run(&[Op::Begin(2, 1), Op::Purge(0, 1, false), Op::End(2), Op::Restore]);
    run(&[Op::Ask(0), Op::Ask(0)]);
    world.rejoin().expect("nothing is stale");
}
