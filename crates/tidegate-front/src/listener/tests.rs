//! Where a connection belongs, in its plan and in the next one.

#[path = "../../tests/support/plan.rs"]
mod plan;

use std::rc::Rc;
use std::sync::Arc;

use tidegate_core::client::Address;
use tidegate_core::plan::Plan;
use tidegate_plan::ReloadState;
use tidegate_plan::testing::ModuleList;

use super::{Binding, ListenerRef};
use crate::testing::{Bench, Core};

fn address(text: &str) -> Address {
    Address::Inet(text.parse().unwrap())
}

/// Three servers of one port: of all addresses, of one address behind the PROXY protocol, and of another port.
const CONFIG: &str = "
    server { listen 80; client_header_timeout 1s; }
    server { listen 192.0.2.1:80 proxy_protocol; client_header_timeout 2s; }
    server { listen 192.0.2.2:81; client_header_timeout 3s; }";

#[test]
fn a_connection_belongs_to_the_servers_of_its_local_address() {
    let bench = Bench::new(CONFIG);
    for (accepted, local, expected) in [
        ("0.0.0.0:80", "192.0.2.7:80", Some((1, false))),
        ("0.0.0.0:80", "192.0.2.1:80", Some((2, true))),
        ("192.0.2.2:81", "192.0.2.2:81", Some((3, false))),
        ("0.0.0.0:82", "192.0.2.7:82", None),
        ("192.0.2.1:80", "192.0.2.1:80", None),
    ] {
        let found = ListenerRef::find(&bench.plan, &address(accepted), &address(local));
        let found = found.map(|found| {
            let servers = found.servers(&bench.plan).unwrap();
            let (tls, proxy_protocol) = found.transport(&bench.plan).unwrap();
            assert!(!tls);
            (
                bench.plan.server(servers.default).settings.client_header_timeout.as_secs(),
                proxy_protocol,
            )
        });
        assert_eq!(found, expected, "{accepted}, {local}");
    }
    let udp =
        ListenerRef::find_for(&bench.plan, &address("0.0.0.0:80"), &address("192.0.2.7:80"), true);
    assert_eq!(udp, None);
}

#[test]
fn a_connection_is_found_again_in_a_newer_plan_or_not_at_all() {
    let of = |plan: &Plan, binding: &Binding| {
        let servers = binding.servers(plan, &address("192.0.2.7:80"))?;
        Some(plan.server(servers.default).settings.client_header_timeout.as_secs())
    };
    let first = plan_of(CONFIG, 1);
    let accepted = Rc::new(address("0.0.0.0:80"));
    let found = ListenerRef::find(&first, &accepted, &address("192.0.2.7:80")).unwrap();
    let binding = Binding::new(accepted, &first, found);
    assert_eq!((of(&first, &binding), binding.generation()), (Some(1), 1));

    // The same address is another listener there, by its number.
    let next =
        plan_of("server { listen 8080; } server { listen 80; client_header_timeout 9s; }", 2);
    assert_eq!((of(&next, &binding), binding.generation()), (Some(9), 2));

    let gone = plan_of("server { listen 8080; }", 3);
    assert_eq!((of(&gone, &binding), binding.generation()), (None, 2));
}

/// Returns the plan of an `http` block, as the plan of a generation.
fn plan_of(http: &str, generation: u64) -> Plan {
    let text = format!("error_log stderr emerg; events {{}} http {{ {http} }}");
    let compiled = plan::compile(text, Core::modules(), "/", &ReloadState::default());
    let mut plan = Arc::into_inner(plan::whole(compiled)).unwrap();
    plan.generation = generation;
    plan
}
