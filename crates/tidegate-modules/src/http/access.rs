//! `allow` and `deny`: access control by the client's address. The first matching rule decides.
//!
//! ```nginx
//! allow 192.0.2.0/24;
//! allow 2001:db8::/32;
//! deny  all;
//! ```

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, row};
use tidegate_core::client::Address;
use tidegate_core::settings::Satisfy;
use tidegate_core::{Exchange, Level, Phase, Step};
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use tidegate_conf::network::{self, Network};

/// `ngx_http_access_module`.
pub(crate) struct Access;

/// The rules of one block, in configuration order.
#[derive(Clone, Default)]
pub(crate) struct Conf {
    /// Shared with the blocks that inherit them.
    rules: Arc<Vec<AccessRule>>,
    warnings: Vec<Diagnostic>,
}

#[derive(Clone)]
struct AccessRule {
    clients: Clients,
    deny: bool,
}

/// The client addresses that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clients {
    All,
    Unix,
    Network(Network),
}

impl Module for Access {
    type Conf = Conf;
    const NAME: &'static str = "access";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.rules.is_empty() {
            child.rules = parent.rules.clone();
        }
    }

    fn prepare_http(
        conf: &Conf,
        plan: &mut tidegate_plan::PlanBuilder<'_>,
    ) -> Result<(), Diagnostic> {
        plan.diagnostics.extend(conf.warnings.iter().cloned());
        Ok(())
    }

    fn prepare_stream(
        conf: &Conf,
        plan: &mut tidegate_plan::PlanBuilder<'_>,
    ) -> Result<(), Diagnostic> {
        Access::prepare_http(conf, plan)
    }

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        Access::prepare(conf, server)
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        location.plan.diagnostics.extend(conf.warnings.iter().cloned());
        if conf.rules.is_empty() {
            return Ok(());
        }
        let rules = conf.rules.clone();
        location.handler(Phase::Access, Box::new(move |x| check(&rules, x)));
        Ok(())
    }
}

const CONTEXTS: Contexts =
    Contexts::HTTP_SERVER_LOCATION.union(Contexts::LIMIT_EXCEPT).union(Contexts::STREAM_AND_SERVER);

const ROWS: &[Directive<Conf>] = &[
    row("allow", CONTEXTS, Arity::ONE, "", "Let these addresses in.", |conf, args| {
        add(conf, args, false)
    }),
    row(
        "deny",
        CONTEXTS,
        Arity::ONE,
        "",
        "Denies access to these addresses, with 403.",
        |conf, args| add(conf, args, true),
    ),
];

fn add(conf: &mut Conf, args: &Args<'_>, deny: bool) -> Result<(), Diagnostic> {
    let text = args.text(0)?;
    let clients = match text {
        "all" => Clients::All,
        "unix:" => Clients::Unix,
        _ => {
            let Some((network, exact)) = Network::parse(text) else {
                return Err(args.invalid_parameter(0));
            };
            if !exact {
                conf.warnings.push(network::meaningless_bits(args, 0));
            }
            Clients::Network(network)
        }
    };
    Arc::make_mut(&mut conf.rules).push(AccessRule { clients, deny });
    Ok(())
}

impl Clients {
    fn include(self, client: &Address) -> bool {
        match (self, client) {
            (Clients::All, _) | (Clients::Unix, Address::Unix(_)) => true,
            (Clients::Network(network), Address::Inet(client)) => network.contains(client.ip()),
            _ => false,
        }
    }
}

fn check(rules: &[AccessRule], x: &mut Exchange) -> Step<'static> {
    let rule = rules.iter().find(|rule| rule.clients.include(x.client_address()));
    match rule {
        None => Step::Decline,
        Some(AccessRule { deny: false, .. }) => Step::Next,
        Some(AccessRule { deny: true, .. }) => {
            if x.settings().satisfy == Satisfy::All {
                x.log(Level::Error, format_args!("access forbidden by rule"));
            }
            Step::Status(403)
        }
    }
}
