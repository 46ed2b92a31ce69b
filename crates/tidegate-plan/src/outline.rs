//! The first half of building: statements set typed settings block by block, then inner blocks inherit from outer
//! ones. All errors are collected.

use tidegate_conf::{Args, Contexts, Diagnostic, NameLookup, Registry, Span, Statement, Word};

use crate::module::{AnyConf, BlockInfo, BlockRow, ErasedModule, Module, typed};
use crate::resources::Machine;
use crate::values::{self, DirectiveValue};

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
    /// Settings in the order of the modules.
    pub confs: Vec<AnyConf>,
    /// Inner blocks in the order of the file.
    pub children: Vec<Outline>,
}

impl Outline {
    /// Returns a module's settings in this block.
    pub fn conf<M: Module>(&self) -> Option<&M::Conf> {
        self.confs.iter().find_map(typed::<M>)
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
    /// Values with variables, which are compiled even where they are not used.
    pub values: Vec<DirectiveValue>,
    pub diagnostics: Vec<Diagnostic>,
}

impl<'a> Outliner<'a> {
    pub(crate) fn new(
        modules: &'a [&'static dyn ErasedModule],
        names: &'a dyn NameLookup,
        machine: Machine,
    ) -> Outliner<'a> {
        let mut registry = Registry::new();
        for (owner, module) in modules.iter().enumerate() {
            registry.add(owner, module.rows());
        }
        let (values, diagnostics) = Default::default();
        Outliner { modules, registry, names, machine, values, diagnostics }
    }

    /// Returns the outline of the whole configuration after inheritance.
    pub(crate) fn outline(&mut self, statements: &[Statement], span: Span) -> Outline {
        let mut root = self.empty("", Contexts::MAIN, Vec::new(), span);
        self.fill(&mut root, statements);
        self.inherit(&mut root);
        root
    }

    fn empty(&self, name: &'static str, context: Contexts, args: Vec<Word>, span: Span) -> Outline {
        let confs = self.modules.iter().map(|module| module.new_conf()).collect();
        Outline { name, context, args, span, confs, children: Vec::new() }
    }

    fn fill(&mut self, block: &mut Outline, statements: &[Statement]) {
        for statement in statements {
            if let Err(diagnostic) = self.take(block, statement) {
                self.diagnostics.push(diagnostic);
            }
        }
        for (module, conf) in self.modules.iter().zip(&mut block.confs) {
            let info = BlockInfo { context: block.context, args: &block.args };
            if let Err(diagnostic) = module.close_block(conf, info) {
                self.diagnostics.push(diagnostic);
            }
        }
    }

    fn take(&mut self, block: &mut Outline, statement: &Statement) -> Result<(), Diagnostic> {
        let checked = self.registry.check(statement, block.context);
        let opened = self.block_row(statement, block.context);
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
        let set = self.modules[owner].set(&mut block.confs[owner], row, &args);
        if let Some(row) = opened {
            let words = statement.args.clone();
            let mut child = self.empty(row.name, row.opens, words, statement.name.span);
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

    fn inherit(&self, block: &mut Outline) {
        let Outline { confs, children, .. } = block;
        for child in children {
            for (index, module) in self.modules.iter().enumerate() {
                let info = BlockInfo { context: child.context, args: &child.args };
                module.inherit(&mut child.confs[index], &confs[index], info);
            }
            self.inherit(child);
        }
    }
}
