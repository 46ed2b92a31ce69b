//! The contract of a module: its tables, its settings and its additions to the plan.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use tidegate_conf::Statement;
use tidegate_core::variables::Variable;

use crate::location_builder::LocationBuilder;
use crate::plan_builder::PlanBuilder;
use crate::resources::Machine;
use crate::server_builder::ServerBuilder;

pub use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, Row, Word, once};

/// A directive whose block contains directives (not values): its context and the context of its block.
pub struct BlockRow {
    /// Name of the directive.
    pub name: &'static str,
    /// Contexts in which the directive may be.
    pub within: Contexts,
    /// Context of the directives in its block.
    pub opens: Contexts,
}

/// The block that a module's settings belong to.
#[derive(Clone, Copy)]
pub struct BlockInfo<'a> {
    /// Context of the directives in the block.
    pub context: Contexts,
    /// Arguments of the block's directive: a location's modifier and name, an upstream's name.
    pub args: &'a [Word],
}

/// One nginx module: everything about it in one place.
pub trait Module: 'static {
    /// Directives of one block as written.
    type Conf: Default + Send + Sync + 'static;
    /// Name of the module.
    const NAME: &'static str;
    /// Tables of directives.
    const DIRECTIVES: &'static [&'static [Directive<Self::Conf>]];
    /// Directives among these that open a block of directives.
    const BLOCKS: &'static [BlockRow] = &[];
    /// Variables of the `http` block.
    const VARIABLES: &'static [Variable] = &[];
    /// Variables of the `stream` block.
    const SESSION_VARIABLES: &'static [Variable] = &[];

    /// Returns the statements of the `http` block with those that a short form stands for (`acme auto`), before any of
    /// them is applied; `None` without such a form. The places of added statements are those of the form. Warnings are
    /// added to `diagnostics`.
    fn expand(
        _http: &[Statement],
        _machine: &Machine,
        _diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Vec<Statement>> {
        None
    }

    /// Completes a block that has been read, before anything is inherited. It is not called where the block has none of
    /// the module's directives.
    ///
    /// # Errors
    /// For directives that contradict each other.
    fn close_block(_conf: &mut Self::Conf, _block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Copies the outer block's settings that the inner block does not set. `block` is the inner block without its
    /// arguments: blocks of one context that set nothing share what they inherit.
    fn inherit(_child: &mut Self::Conf, _parent: &Self::Conf, _block: BlockInfo<'_>) {}

    /// Prepares the `http` block, once and before its servers: zones, formats, maps, upstreams.
    ///
    /// # Errors
    /// For settings that cannot be compiled, here and in the other `prepare` functions.
    fn prepare_http(_conf: &Self::Conf, _plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Prepares the `stream` block, once and before its servers. Modules of both blocks do the same as for `http`.
    ///
    /// # Errors
    /// See [`Module::prepare_http`].
    fn prepare_stream(_conf: &Self::Conf, _plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Prepares a `server` block of `stream`: like [`Module::prepare`], for sessions.
    ///
    /// # Errors
    /// See [`Module::prepare_http`].
    fn prepare_session(
        _conf: &Self::Conf,
        _server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Prepares a `server` block of `http` or `stream`.
    ///
    /// # Errors
    /// See [`Module::prepare_http`].
    fn prepare_server(
        _conf: &Self::Conf,
        _server: &mut ServerBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Prepares a block that requests can be in: server, location, `if`, `limit_except`. Adds compiled phase handlers,
    /// filters and loggers.
    ///
    /// # Errors
    /// See [`Module::prepare_http`].
    fn prepare(
        _conf: &Self::Conf,
        _location: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        Ok(())
    }
}

/// The settings of any module. Blocks share them where the module has no directive of its own.
pub type AnyConf = Arc<dyn Any + Send + Sync>;

/// A module with its types erased, for the one list of modules.
pub trait ErasedModule: Sync {
    /// Returns [`Module::NAME`].
    fn name(&self) -> &'static str;
    /// Returns the rows of all directives, without setters.
    fn rows(&self) -> Vec<Row>;
    /// Returns [`Module::BLOCKS`].
    fn blocks(&self) -> &'static [BlockRow];
    /// Returns [`Module::VARIABLES`].
    fn variables(&self) -> &'static [Variable];
    /// Returns [`Module::SESSION_VARIABLES`].
    fn session_variables(&self) -> &'static [Variable];
    /// Creates settings with nothing set.
    fn new_conf(&self) -> AnyConf;
    /// Runs the setter of a directive; `row` is its index in [`ErasedModule::rows`]. The settings are not shared yet.
    fn set(&self, conf: &mut AnyConf, row: usize, args: &Args<'_>) -> Result<(), Diagnostic>;
    /// Calls [`Module::expand`].
    fn expand(
        &self,
        http: &[Statement],
        machine: &Machine,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Vec<Statement>>;
    /// Calls [`Module::close_block`]. The settings are not shared yet.
    fn close_block(&self, conf: &mut AnyConf, block: BlockInfo<'_>) -> Result<(), Diagnostic>;
    /// Calls [`Module::inherit`]. The settings are not shared yet.
    fn inherit(&self, child: &mut AnyConf, parent: &AnyConf, block: BlockInfo<'_>);
    /// Calls [`Module::prepare_http`].
    fn prepare_http(&self, conf: &AnyConf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic>;
    /// Calls [`Module::prepare_stream`].
    fn prepare_stream(&self, conf: &AnyConf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic>;
    /// Calls [`Module::prepare_session`].
    fn prepare_session(
        &self,
        conf: &AnyConf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic>;
    /// Calls [`Module::prepare_server`].
    fn prepare_server(
        &self,
        conf: &AnyConf,
        server: &mut ServerBuilder<'_, '_>,
    ) -> Result<(), Diagnostic>;
    /// Calls [`Module::prepare`].
    fn prepare(
        &self,
        conf: &AnyConf,
        location: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic>;
}

/// Makes a module an element of a list: `&Entry::<Rewrite>::NEW`.
pub struct Entry<M>(PhantomData<fn() -> M>);

impl<M> Entry<M> {
    /// The element for the list of modules.
    pub const NEW: Entry<M> = Entry(PhantomData);
}

/// The settings of a module. The module is part of the type, as several modules may share a type of settings.
struct ModuleConf<M: Module> {
    conf: M::Conf,
    of: PhantomData<fn() -> M>,
}

/// Returns the typed settings; `None` for those of another module.
pub(crate) fn typed<M: Module>(conf: &AnyConf) -> Option<&M::Conf> {
    conf.downcast_ref::<ModuleConf<M>>().map(|own| &own.conf)
}

/// Returns the typed settings for changes; `None` also where other blocks share them.
pub(crate) fn typed_mut<M: Module>(conf: &mut AnyConf) -> Option<&mut M::Conf> {
    Arc::get_mut(conf)?.downcast_mut::<ModuleConf<M>>().map(|own| &mut own.conf)
}

impl<M: Module> ErasedModule for Entry<M> {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn rows(&self) -> Vec<Row> {
        M::DIRECTIVES.iter().flat_map(|table| table.iter()).map(Directive::row).collect()
    }

    fn blocks(&self) -> &'static [BlockRow] {
        M::BLOCKS
    }

    fn variables(&self) -> &'static [Variable] {
        M::VARIABLES
    }

    fn session_variables(&self) -> &'static [Variable] {
        M::SESSION_VARIABLES
    }

    fn new_conf(&self) -> AnyConf {
        Arc::new(ModuleConf::<M> { conf: M::Conf::default(), of: PhantomData })
    }

    fn set(&self, conf: &mut AnyConf, row: usize, args: &Args<'_>) -> Result<(), Diagnostic> {
        let directive = M::DIRECTIVES.iter().flat_map(|table| table.iter()).nth(row);
        match (directive, typed_mut::<M>(conf)) {
            (Some(directive), Some(conf)) => (directive.set)(conf, args),
            _ => Err(args.error_here("directive without a setter")),
        }
    }

    fn expand(
        &self,
        http: &[Statement],
        machine: &Machine,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Vec<Statement>> {
        M::expand(http, machine, diagnostics)
    }

    fn close_block(&self, conf: &mut AnyConf, block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        typed_mut::<M>(conf).map_or(Ok(()), |conf| M::close_block(conf, block))
    }

    fn inherit(&self, child: &mut AnyConf, parent: &AnyConf, block: BlockInfo<'_>) {
        if let (Some(child), Some(parent)) = (typed_mut::<M>(child), typed::<M>(parent)) {
            M::inherit(child, parent, block);
        }
    }

    fn prepare_stream(&self, conf: &AnyConf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        typed::<M>(conf).map_or(Ok(()), |conf| M::prepare_stream(conf, plan))
    }

    fn prepare_session(
        &self,
        conf: &AnyConf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        typed::<M>(conf).map_or(Ok(()), |conf| M::prepare_session(conf, server))
    }

    fn prepare_http(&self, conf: &AnyConf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        typed::<M>(conf).map_or(Ok(()), |conf| M::prepare_http(conf, plan))
    }

    fn prepare_server(
        &self,
        conf: &AnyConf,
        server: &mut ServerBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        typed::<M>(conf).map_or(Ok(()), |conf| M::prepare_server(conf, server))
    }

    fn prepare(
        &self,
        conf: &AnyConf,
        location: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        typed::<M>(conf).map_or(Ok(()), |conf| M::prepare(conf, location))
    }
}
