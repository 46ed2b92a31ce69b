//! The first half of building: statements set typed settings block by block, then inner blocks inherit from outer
//! ones. All errors are collected.
//!
//! Most blocks set directives of a few modules: the settings of the others are shared between blocks, before and after
//! inheritance, so that time and memory grow with what is written.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_conf::{
    Args, Contexts, Diagnostic, NameLookup, Registry, SourceMap, Span, Statement, Word,
};
use tidegate_core::written::WrittenBlock;

use crate::http_core::HttpCore;
use crate::http_core::listen::ListenConf;
use crate::module::{AnyConf, BlockInfo, BlockRow, ErasedModule, Module, typed, typed_mut};
use crate::resources::Machine;
use crate::values::{self, DirectiveValue};
use crate::written;

/// A block of the configuration with the settings of all modules.
pub struct Outline {
    /// Name of the directive that opened it; empty for the main context.
    pub name: &'static str,
    /// Context of the directives in the block.
    pub context: Contexts,
    /// Arguments of the block's directive.
    pub args: Vec<Word>,
    /// Position of the block's directive.
    pub span: Span,
    /// Settings of all modules.
    pub(crate) confs: Confs,
    /// The block as text, where it is explained.
    pub(crate) written: Option<Arc<WrittenBlock>>,
    /// Inner blocks in the order of the file.
    pub children: Vec<Outline>,
}

/// The settings of all modules in a block, in the order of the modules.
pub(crate) struct Confs {
    /// What the block has without directives of its own. The inner blocks of a block share it, by their context.
    inherited: Arc<[AnyConf]>,
    /// Settings of modules with directives in the block, by the number of the module; sorted once the block is read.
    own: Vec<(usize, AnyConf)>,
}

impl Confs {
    /// Returns the settings of each module, in a block that is read.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &AnyConf> {
        let mut own = self.own.iter().peekable();
        self.inherited.iter().enumerate().map(move |(module, inherited)| {
            own.next_if(|(owner, _)| *owner == module).map_or(inherited, |(_, conf)| conf)
        })
    }

    fn of_module(&self, module: usize) -> Option<&AnyConf> {
        self.own(module).or_else(|| self.inherited.get(module))
    }

    fn own(&self, module: usize) -> Option<&AnyConf> {
        self.own.iter().find(|(owner, _)| *owner == module).map(|(_, conf)| conf)
    }

    /// Returns the settings of a module for changes, which no other block shares yet.
    fn own_mut(&mut self, module: usize, new: impl FnOnce() -> AnyConf) -> Option<&mut AnyConf> {
        if self.own(module).is_none() {
            self.own.push((module, new()));
        }
        self.own.iter_mut().find(|(owner, _)| *owner == module).map(|(_, conf)| conf)
    }
}

impl Outline {
    /// Returns a module's settings in this block.
    pub fn conf<M: Module>(&self) -> Option<&M::Conf> {
        self.confs.iter().find_map(typed::<M>)
    }

    /// Returns the `listen` directives of the block for changes; `None` where it has none of its own.
    pub(crate) fn listens_mut(&mut self) -> Option<&mut Vec<ListenConf>> {
        let confs = self.confs.own.iter_mut();
        let mut core = confs.filter_map(|(_, conf)| typed_mut::<HttpCore>(conf));
        core.next().map(|conf| &mut conf.listens)
    }

    /// Returns the number of blocks, this one included.
    pub(crate) fn blocks_within(&self) -> usize {
        1 + self.children.iter().map(Outline::blocks_within).sum::<usize>()
    }

    /// Returns the inner blocks of the directive `name`.
    pub fn blocks<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Outline> {
        self.children.iter().filter(move |child| child.name == name)
    }
}

/// Applies statements to the settings of a list of modules.
pub(crate) struct Outliner<'a> {
    pub modules: &'a [&'static dyn ErasedModule],
    pub registry: Registry,
    names: &'a dyn NameLookup,
    machine: Machine,
    /// The texts of the configuration, where blocks are kept as text.
    written_of: Option<&'a SourceMap>,
    /// Settings with nothing set, in the order of the modules.
    unset: Arc<[AnyConf]>,
    /// Values with variables, which are compiled even where they are not used.
    pub values: Vec<DirectiveValue>,
    pub diagnostics: Vec<Diagnostic>,
}

impl<'a> Outliner<'a> {
    pub(crate) fn new(
        modules: &'a [&'static dyn ErasedModule],
        names: &'a dyn NameLookup,
        machine: Machine,
        written_of: Option<&'a SourceMap>,
    ) -> Outliner<'a> {
        let mut registry = Registry::new();
        for (owner, module) in modules.iter().enumerate() {
            registry.add(owner, module.rows());
        }
        let unset = modules.iter().map(|module| module.new_conf()).collect();
        let (values, diagnostics) = Default::default();
        Outliner { modules, registry, names, machine, written_of, unset, values, diagnostics }
    }

    /// Returns the outline of the whole configuration after inheritance.
    pub(crate) fn outline(&mut self, statements: &[Statement], span: Span) -> Outline {
        let mut root = self.empty("", Contexts::MAIN, Vec::new(), span);
        self.fill(&mut root, statements);
        self.inherit(&mut root, &mut Inherited::default());
        root
    }

    /// Reads a block that the program adds to the main context, and returns it. It inherits from that context alone.
    pub(crate) fn added(
        &mut self,
        root: &mut Outline,
        row: &BlockRow,
        statements: &[Statement],
        span: Span,
    ) -> Outline {
        let mut block = self.empty(row.name, row.opens, Vec::new(), span);
        self.fill(&mut block, statements);
        // The other blocks have inherited already.
        let others = std::mem::replace(&mut root.children, vec![block]);
        self.inherit(root, &mut Inherited::default());
        let added = std::mem::replace(&mut root.children, others);
        // cannot fail: the list has the one block that was put there.
        added.into_iter().next().unwrap_or_else(|| self.empty(row.name, row.opens, vec![], span))
    }

    fn empty(&self, name: &'static str, context: Contexts, args: Vec<Word>, span: Span) -> Outline {
        let confs = Confs { inherited: self.unset.clone(), own: Vec::new() };
        Outline { name, context, args, span, confs, written: None, children: Vec::new() }
    }

    fn fill(&mut self, block: &mut Outline, statements: &[Statement]) {
        if let Some(sources) = self.written_of {
            let opening = (block.name, &block.args[..], block.span);
            let outer = block.written.take();
            block.written = Some(written::block(opening, statements, outer, sources));
        }
        for statement in statements {
            if let Err(diagnostic) = self.take(block, statement) {
                self.diagnostics.push(diagnostic);
            }
        }
        block.children.shrink_to_fit();
        block.confs.own.sort_by_key(|(module, _)| *module);
        block.confs.own.shrink_to_fit();
        for (module, conf) in &mut block.confs.own {
            let info = BlockInfo { context: block.context, args: &block.args };
            if let Err(diagnostic) = self.modules[*module].close_block(conf, info) {
                self.diagnostics.push(diagnostic);
            }
        }
    }

    fn take(&mut self, block: &mut Outline, statement: &Statement) -> Result<(), Diagnostic> {
        let checked = self.registry.check(statement, block.context);
        // Only few statements have a block: those without one are not searched for among the rows.
        let has_block = statement.block.is_some();
        let opened = has_block.then(|| self.block_row(statement, block.context)).flatten();
        if let Err(diagnostic) = checked {
            // A block in a wrong context is read as well, so that its own errors are reported.
            let guess = self.block_row(statement, Contexts::ANY);
            if let (Some(row), Some(_)) = (guess, &statement.block) {
                let mut child = self.empty(row.name, row.opens, vec![], statement.span);
                self.fill(&mut child, statement.children());
            }
            return Err(diagnostic);
        }
        let (owner, row) = checked?;
        self.values.extend(values::of(statement, block.context));
        let args = Args::with_names(statement, block.context, self.names);
        let module = self.modules[owner];
        let conf = block.confs.own_mut(owner, || module.new_conf());
        let set = conf.map_or(Ok(()), |conf| module.set(conf, row, &args));
        if let Some(row) = opened {
            let words = statement.args.clone();
            let mut child = self.empty(row.name, row.opens, words, statement.name.span);
            // The block around it, until it is read.
            child.written = block.written.clone();
            match self.expanded(row.opens, statement) {
                Some(statements) => self.fill(&mut child, &statements),
                None => self.fill(&mut child, statement.children()),
            }
            block.children.push(child);
        }
        set
    }

    /// Returns the statements of an `http` block in which modules have replaced short forms; `None` without such forms.
    fn expanded(&mut self, context: Contexts, statement: &Statement) -> Option<Vec<Statement>> {
        if context != Contexts::HTTP {
            return None;
        }
        let mut expanded: Option<Vec<Statement>> = None;
        for module in self.modules {
            let statements = expanded.as_deref().unwrap_or(statement.children());
            if let Some(next) = module.expand(statements, &self.machine, &mut self.diagnostics) {
                expanded = Some(next);
            }
        }
        expanded
    }

    fn block_row(&self, statement: &Statement, context: Contexts) -> Option<&'static BlockRow> {
        self.modules.iter().flat_map(|module| module.blocks()).find(|row| {
            row.name.as_bytes() == statement.name.bytes && row.within.intersects(context)
        })
    }

    fn inherit(&self, block: &mut Outline, inherited: &mut Inherited) {
        let Outline { confs, children, .. } = block;
        let mut unset: Vec<(Contexts, Arc<[AnyConf]>)> = Vec::new();
        for child in children {
            let info = BlockInfo { context: child.context, args: &[] };
            let shared = match unset.iter().find(|(context, _)| *context == child.context) {
                Some((_, shared)) => shared.clone(),
                None => {
                    let all = self.modules.iter().zip(confs.iter()).enumerate();
                    let all = all
                        .map(|(index, (module, outer))| inherited.of(index, *module, outer, info));
                    let shared: Arc<[AnyConf]> = all.collect();
                    unset.push((child.context, shared.clone()));
                    shared
                }
            };
            child.confs.inherited = shared;
            for (index, conf) in &mut child.confs.own {
                if let Some(outer) = confs.of_module(*index) {
                    self.modules[*index].inherit(conf, outer, info);
                }
            }
            self.inherit(child, inherited);
        }
    }
}

/// Settings of blocks that set nothing, by the settings that they inherit. Settings that are found here live as long as
/// this, so that their addresses name them.
#[derive(Default)]
struct Inherited(HashMap<InheritedKey, (AnyConf, AnyConf), foldhash::fast::RandomState>);

/// The number of a module, the address of the outer block's settings, and the context of the inner block.
type InheritedKey = (usize, *const (), Contexts);

impl Inherited {
    fn of(
        &mut self,
        index: usize,
        module: &dyn ErasedModule,
        outer: &AnyConf,
        block: BlockInfo<'_>,
    ) -> AnyConf {
        let key = (index, Arc::as_ptr(outer).cast(), block.context);
        let (_, conf) = self.0.entry(key).or_insert_with(|| {
            let mut conf = module.new_conf();
            module.inherit(&mut conf, outer, block);
            (outer.clone(), conf)
        });
        conf.clone()
    }
}
