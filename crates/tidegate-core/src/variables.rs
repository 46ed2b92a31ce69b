//! Variables: the declarations of modules, the table that numbers the names in use, and evaluation by number.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidegate_conf::{Diagnostic, Span};

use crate::error_log::Level;
use crate::exchange::{Exchange, ModuleState};

/// Appends a value; returns `false` when there is none.
pub type Fixed = fn(&mut Exchange, &mut Vec<u8>) -> bool;
/// Appends the value of a name with a common prefix, such as `http_`; gets the name's rest after the prefix.
pub type Prefixed = fn(&mut Exchange, &[u8], &mut Vec<u8>) -> bool;
/// Appends the value of a variable of the configuration (`map`, `geo`, …).
pub type Computed = Arc<dyn Fn(&mut Exchange, &mut Vec<u8>) -> bool + Send + Sync>;
/// Stores a value that `set` gives to a variable of the configuration whose values live outside of requests (`keyval`).
pub type StoredSetter = Arc<dyn Fn(&mut Exchange, &[u8]) + Send + Sync>;
/// Changes a built-in variable by `set`.
pub type VariableSetter = fn(&mut Exchange, &[u8]);

/// The declaration of a variable by a module.
pub struct Variable {
    /// The name without `$`; a prefix ends in `_`.
    pub name: &'static str,
    /// Description of the value for the manual, one sentence.
    pub doc: &'static str,
    /// The function that makes the value.
    pub value: Value,
    /// Whether the configuration may change it.
    pub change: Changeable,
}

/// The function of a declared variable.
#[derive(Clone, Copy)]
pub enum Value {
    /// For a single name.
    Fixed(Fixed),
    /// For all names with a prefix.
    Prefixed(Prefixed),
}

impl Variable {
    /// Declares a variable that the configuration cannot change.
    pub const fn fixed(name: &'static str, doc: &'static str, value: Fixed) -> Variable {
        Variable { name, doc, value: Value::Fixed(value), change: Changeable::Never }
    }

    /// Declares a variable that `set`, `map` and others may give another value.
    pub const fn replaceable(name: &'static str, doc: &'static str, value: Fixed) -> Variable {
        Variable { name, doc, value: Value::Fixed(value), change: Changeable::Free }
    }

    /// Declares all names that begin with `name`.
    pub const fn prefixed(name: &'static str, doc: &'static str, value: Prefixed) -> Variable {
        Variable { name, doc, value: Value::Prefixed(value), change: Changeable::Never }
    }
}

/// Whether the configuration may give a name another value.
#[derive(Clone, Copy)]
pub enum Changeable {
    /// It may: no module declares the name, or the module's value is only the default.
    Free,
    /// It may, by this function: a built-in variable with a setter.
    By(VariableSetter),
    /// It may, by the function of [`VariableTable::define_stored`], which [`Exchange::store_variable`] calls.
    Stored(VariableId),
    /// It may not: a built-in variable without a setter.
    Never,
}

/// The number of a variable in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VariableId(u32);

enum Entry {
    /// Used at this position, but not defined yet.
    Unresolved(Span),
    Fixed(Fixed),
    Prefixed(Prefixed, Box<[u8]>),
    Slot(usize),
    /// A variable of another kind that `set` changes in some places: the slot's value if there is one, else its own.
    Overridden {
        slot: usize,
        under: Box<Entry>,
    },
    Computed {
        compute: Computed,
        cache: Option<usize>,
    },
}

impl Entry {
    /// Returns the value that the exchange has already: of `set`, of a capture, or of an earlier evaluation.
    fn present<'x>(&self, modules: &'x ModuleState) -> Option<&'x [u8]> {
        match self {
            Entry::Slot(slot)
            | Entry::Overridden { slot, .. }
            | Entry::Computed { cache: Some(slot), .. } => modules.slots.get(*slot)?.as_deref(),
            _ => None,
        }
    }
}

/// All variables that a configuration uses, by number.
pub struct VariableTable {
    declared: HashMap<&'static str, &'static Variable>,
    prefixes: Vec<&'static Variable>,
    ids: HashMap<String, VariableId>,
    names: Vec<String>,
    entries: Vec<Entry>,
    /// Computed variables that the configuration may not change.
    kept: HashSet<String>,
    /// Of variables whose values live outside of requests.
    setters: HashMap<VariableId, StoredSetter>,
    slot_count: usize,
}

impl VariableTable {
    /// Creates a table with the modules' declarations.
    pub fn new(declared: impl Iterator<Item = &'static Variable>) -> VariableTable {
        let mut table = VariableTable {
            declared: HashMap::new(),
            prefixes: Vec::new(),
            ids: HashMap::new(),
            names: Vec::new(),
            entries: Vec::new(),
            kept: HashSet::new(),
            setters: HashMap::new(),
            slot_count: 0,
        };
        for variable in declared {
            match variable.value {
                Value::Fixed(_) => drop(table.declared.insert(variable.name, variable)),
                Value::Prefixed(_) => table.prefixes.push(variable),
            }
        }
        table.prefixes.sort_by_key(|variable| std::cmp::Reverse(variable.name.len()));
        table
    }

    /// Returns the number of a name. Whether the variable exists is known when the whole configuration has been read:
    /// see [`VariableTable::unresolved`].
    pub fn resolve(&mut self, name: &str, span: Span) -> VariableId {
        let name = name.to_ascii_lowercase();
        if let Some(id) = self.ids.get(&name) {
            return *id;
        }
        let entry = self.declaration(&name).unwrap_or(Entry::Unresolved(span));
        self.insert(name, entry)
    }

    /// Returns the entry of a name that a module declares.
    fn declaration(&self, name: &str) -> Option<Entry> {
        match self.declared.get(name) {
            Some(Variable { value: Value::Fixed(fixed), .. }) => Some(Entry::Fixed(*fixed)),
            _ => self.family(name),
        }
    }

    fn family(&self, name: &str) -> Option<Entry> {
        self.prefixes.iter().find_map(|variable| {
            let rest = name.strip_prefix(variable.name)?;
            match variable.value {
                Value::Prefixed(get) => Some(Entry::Prefixed(get, rest.as_bytes().into())),
                Value::Fixed(_) => None,
            }
        })
    }

    fn insert(&mut self, name: String, entry: Entry) -> VariableId {
        let id = VariableId(self.entries.len() as u32);
        self.entries.push(entry);
        self.names.push(name.clone());
        self.ids.insert(name, id);
        id
    }

    /// Returns the slot of a variable of `set` or of a named capture. A name with a value of another kind (`map`,
    /// `http_*`) keeps it where the slot is empty.
    pub fn define_slot(&mut self, name: &str) -> usize {
        let name = name.to_ascii_lowercase();
        let Some(id) = self.ids.get(&name).copied() else {
            let slot = self.take_slot();
            let entry = match self.declaration(&name) {
                Some(under) => Entry::Overridden { slot, under: Box::new(under) },
                None => Entry::Slot(slot),
            };
            self.insert(name, entry);
            return slot;
        };
        let place = id.0 as usize;
        let slot = match &self.entries[place] {
            Entry::Slot(slot) | Entry::Overridden { slot, .. } => return *slot,
            Entry::Computed { cache: Some(slot), .. } => return *slot,
            _ => self.take_slot(),
        };
        // The number stays, so templates that were compiled before use the new entry.
        let under = std::mem::replace(&mut self.entries[place], Entry::Slot(slot));
        if !matches!(under, Entry::Unresolved(_)) {
            self.entries[place] = Entry::Overridden { slot, under: Box::new(under) };
        }
        slot
    }

    /// Defines a variable by a function; with `cached`, its first value is kept for the request.
    pub fn define_computed(&mut self, name: &str, compute: Computed, cached: bool) {
        let name = name.to_ascii_lowercase();
        let known = self.ids.get(&name).copied();
        let cache = cached.then(|| self.take_slot());
        self.define(name, known, Entry::Computed { compute, cache });
    }

    /// Defines a variable whose values live outside of requests: it is computed at each use, and `set` calls `store`.
    pub fn define_stored(&mut self, name: &str, compute: Computed, store: StoredSetter) {
        self.define_computed(name, compute, false);
        if let Some(id) = self.find(&name.to_ascii_lowercase()) {
            self.setters.insert(id, store);
        }
    }

    /// Reserves a name for its module: nothing else may give it a value from now on.
    pub fn keep(&mut self, name: &str) {
        self.kept.insert(name.to_ascii_lowercase());
    }

    fn define(&mut self, name: String, known: Option<VariableId>, entry: Entry) {
        match known {
            Some(id) => {
                self.setters.remove(&id);
                self.entries[id.0 as usize] = entry;
            }
            None => drop(self.insert(name, entry)),
        }
    }

    fn take_slot(&mut self) -> usize {
        self.slot_count += 1;
        self.slot_count - 1
    }

    /// Returns whether and how `set` may change a name.
    pub fn changeable(&self, name: &str) -> Changeable {
        let name = name.to_ascii_lowercase();
        if self.kept.contains(&name) {
            return Changeable::Never;
        }
        if let Some(id) = self.find(&name).filter(|id| self.setters.contains_key(id)) {
            return Changeable::Stored(id);
        }
        self.declared.get(name.as_str()).map_or(Changeable::Free, |variable| variable.change)
    }

    /// Returns errors for names that are used and not defined.
    pub fn unresolved(&self) -> Vec<Diagnostic> {
        let entries = self.entries.iter().zip(&self.names);
        let unresolved = entries.filter_map(|(entry, name)| match entry {
            Entry::Unresolved(span) => Some((name, *span)),
            _ => None,
        });
        let numbered = unresolved.enumerate();
        let made = numbered.map(|(number, (name, span))| {
            self.unknown(name, span, number < tidegate_conf::GUESSES_MAX)
        });
        made.collect()
    }

    fn unknown(&self, name: &str, span: Span, is_guessed: bool) -> Diagnostic {
        let diagnostic =
            Diagnostic::emerg(format!("unknown \"{name}\" variable")).at(span).label("not defined");
        if !is_guessed {
            return diagnostic;
        }
        let candidates = self.declared.keys().copied();
        match tidegate_conf::closest(name, candidates) {
            Some(close) => diagnostic.help(format!("did you mean `${close}`?")),
            None => diagnostic,
        }
    }

    /// Returns the number of slots that an exchange needs.
    pub fn slot_count(&self) -> usize {
        self.slot_count
    }

    /// Returns the number of a name that is in use.
    pub fn find(&self, name: &str) -> Option<VariableId> {
        self.ids.get(name).copied()
    }
}

/// Appends the value of variable `id`; returns `false` when it has none.
pub(crate) fn evaluate(x: &mut Exchange, id: VariableId, out: &mut Vec<u8>) -> bool {
    let Some(entry) = x.plan.variables.entries.get(id.0 as usize) else { return false };
    // Most variables are fixed, or have a value already: neither needs the table while the exchange is changed.
    if let Entry::Fixed(get) = entry {
        let get = *get;
        return get(x, out);
    }
    if let Some(value) = entry.present(&x.modules) {
        out.extend_from_slice(value);
        return true;
    }
    // The functions take the whole exchange, and the entry lies in its plan: the plan is held separately.
    let plan = x.plan.clone();
    let VariableTable { entries, names, .. } = &plan.variables;
    evaluate_entry(x, &entries[id.0 as usize], &names[id.0 as usize], out)
}

/// Logs that the variables in use need each other, in nginx's words.
#[cold]
pub(crate) fn report_circle(x: &Exchange, id: VariableId) {
    let name = x.plan.variables.names.get(id.0 as usize).map_or("", |name| name);
    x.log(Level::Error, format_args!("cycle while evaluating variable \"{name}\""));
}

/// Calls the setter of a variable whose values live outside of requests.
pub(crate) fn store(x: &mut Exchange, id: VariableId, value: &[u8]) {
    let plan = x.plan.clone();
    if let Some(store) = plan.variables.setters.get(&id) {
        store(x, value);
    }
}

/// Appends the value of the variable of this name, in use or not; returns `false` when it has none.
pub(crate) fn evaluate_named(x: &mut Exchange, name: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    if let Some(id) = x.plan.variables.find(name) {
        return evaluate(x, id, out);
    }
    match x.plan.variables.declaration(name) {
        Some(entry) => evaluate_entry(x, &entry, name, out),
        None => false,
    }
}

fn evaluate_entry(x: &mut Exchange, entry: &Entry, name: &str, out: &mut Vec<u8>) -> bool {
    match entry {
        Entry::Unresolved(_) => false,
        Entry::Fixed(get) => get(x, out),
        Entry::Prefixed(get, rest) => get(x, rest, out),
        Entry::Slot(slot) => match x.modules.slots.get(*slot).and_then(Option::as_deref) {
            Some(value) => {
                out.extend_from_slice(value);
                true
            }
            None => {
                if x.location().warn_uninitialized {
                    x.log(Level::Warn, format_args!("using uninitialized \"{name}\" variable"));
                }
                false
            }
        },
        Entry::Overridden { slot, under } => {
            match x.modules.slots.get(*slot).and_then(Option::as_deref) {
                Some(value) => {
                    out.extend_from_slice(value);
                    true
                }
                None => evaluate_entry(x, under, name, out),
            }
        }
        Entry::Computed { compute, cache } => cached(x, compute, *cache, out),
    }
}

fn cached(x: &mut Exchange, compute: &Computed, cache: Option<usize>, out: &mut Vec<u8>) -> bool {
    if let Some(value) = cache.and_then(|slot| x.slot(slot)) {
        out.extend_from_slice(value);
        return true;
    }
    let start = out.len();
    let found = compute(x, out);
    if let (true, Some(slot)) = (found, cache) {
        x.set_slot(slot, Some(&out[start..]));
    }
    found
}
