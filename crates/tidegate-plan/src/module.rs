//! The contract of a module: its tables, its settings and what it adds to the plan.

use std::any::Any;
use std::marker::PhantomData;

use tidegate_core::variables::Variable;

use crate::location_builder::LocationBuilder;
use crate::plan_builder::PlanBuilder;
use crate::server_builder::ServerBuilder;

pub use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, Row, Word, once};

/// A directive whose block holds directives (not values): where it stands and what it opens.
pub struct BlockRow {
    pub name: &'static str,
    pub within: Contexts,
    pub opens: Contexts,
}

/// The block that a module's settings belong to.
#[derive(Clone, Copy)]
pub struct BlockInfo<'a> {
    pub context: Contexts,
    /// Arguments of the block's directive: a location's modifier and name, an upstream's name.
    pub args: &'a [Word],
}

/// One nginx module: everything about it in one place.
pub trait Module: 'static {
    /// Directives of one block as written.
    type Conf: Default + Send + Sync + 'static;
    const NAME: &'static str;
    const DIRECTIVES: &'static [&'static [Directive<Self::Conf>]];
    const BLOCKS: &'static [BlockRow] = &[];
    const VARIABLES: &'static [Variable] = &[];
    /// Those of the `stream` block.
    const SESSION_VARIABLES: &'static [Variable] = &[];

    /// Called when a block has been read, before anything is inherited.
    fn close_block(_conf: &mut Self::Conf, _block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Takes over what the inner block leaves open. `block` is the inner one.
    fn inherit(_child: &mut Self::Conf, _parent: &Self::Conf, _block: BlockInfo<'_>) {}

    /// Once for the `http` block, before any server: zones, formats, maps, upstreams.
    fn prepare_http(_conf: &Self::Conf, _plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Once for the `stream` block, before any of its servers. Modules that both blocks have do there what
    /// they do for `http`.
    fn prepare_stream(_conf: &Self::Conf, _plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// For each `server` block of `stream`: as [`Module::prepare`], for sessions.
    fn prepare_session(
        _conf: &Self::Conf,
        _server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// For each `server` block, of `http` and `stream`.
    fn prepare_server(
        _conf: &Self::Conf,
        _server: &mut ServerBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// For each block in which requests can be: servers, locations, `if`, `limit_except`. Adds phase
    /// handlers, filters and loggers, already compiled.
    fn prepare(
        _conf: &Self::Conf,
        _location: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        Ok(())
    }
}

/// Settings of any module.
pub type AnyConf = Box<dyn Any + Send + Sync>;

/// A module with its types erased, for the one list of modules.
pub trait ErasedModule: Sync {
    fn name(&self) -> &'static str;
    fn rows(&self) -> Vec<Row>;
    fn blocks(&self) -> &'static [BlockRow];
    fn variables(&self) -> &'static [Variable];
    fn session_variables(&self) -> &'static [Variable];
    fn new_conf(&self) -> AnyConf;
    fn set(&self, conf: &mut AnyConf, row: usize, args: &Args<'_>) -> Result<(), Diagnostic>;
    fn close_block(&self, conf: &mut AnyConf, block: BlockInfo<'_>) -> Result<(), Diagnostic>;
    fn inherit(&self, child: &mut AnyConf, parent: &AnyConf, block: BlockInfo<'_>);
    fn prepare_http(&self, conf: &AnyConf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic>;
    fn prepare_stream(&self, conf: &AnyConf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic>;
    fn prepare_session(
        &self,
        conf: &AnyConf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic>;
    fn prepare_server(
        &self,
        conf: &AnyConf,
        server: &mut ServerBuilder<'_, '_>,
    ) -> Result<(), Diagnostic>;
    fn prepare(
        &self,
        conf: &AnyConf,
        location: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic>;
}

/// Makes a module an element of a list: `&Entry::<Rewrite>::NEW`.
pub struct Entry<M>(PhantomData<fn() -> M>);

impl<M> Entry<M> {
    pub const NEW: Entry<M> = Entry(PhantomData);
}

/// A module's settings. Named after the module: several may share a type of settings.
struct Own<M: Module> {
    conf: M::Conf,
    of: PhantomData<fn() -> M>,
}

/// The typed settings behind an erased value; `None` for those of another module.
pub(crate) fn typed<M: Module>(conf: &AnyConf) -> Option<&M::Conf> {
    conf.downcast_ref::<Own<M>>().map(|own| &own.conf)
}

fn typed_mut<M: Module>(conf: &mut AnyConf) -> Option<&mut M::Conf> {
    conf.downcast_mut::<Own<M>>().map(|own| &mut own.conf)
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
        Box::new(Own::<M> { conf: M::Conf::default(), of: PhantomData })
    }

    fn set(&self, conf: &mut AnyConf, row: usize, args: &Args<'_>) -> Result<(), Diagnostic> {
        let directive = M::DIRECTIVES.iter().flat_map(|table| table.iter()).nth(row);
        match (directive, typed_mut::<M>(conf)) {
            (Some(directive), Some(conf)) => (directive.set)(conf, args),
            _ => Err(args.error_here("directive without a setter")),
        }
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
