//! Building servers and their listeners.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use tidegate_conf::{Diagnostic, Word};
use tidegate_core::client::Address;
use tidegate_core::host_names::AddNameError;
use tidegate_core::listen::{ListenerKey, ListenerPlan, LocalServers, Names, VirtualServers};
use tidegate_core::plan::Server;
use tidegate_core::plan::{LocationId, ServerId};

use crate::http_core::listen::ListenConf;
use crate::http_core::{self, HttpCore};
use crate::outline::Outline;
use crate::plan_builder::PlanBuilder;
use crate::server_builder::ServerBuilder;

/// The warning for `listen … http2`, in nginx's words.
const LISTEN_HTTP2: &str =
    "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead";
/// The error of a `stream` server without `listen`.
pub(crate) const NO_LISTEN: &str = "no \"listen\" is defined for server";

impl PlanBuilder<'_> {
    /// Builds one `server` block with all its locations.
    pub(crate) fn server(&mut self, outline: &Outline) {
        let mut named: HashMap<Vec<u8>, LocationId> = HashMap::new();
        self.server_names =
            outline.conf::<HttpCore>().map_or_else(Vec::new, |conf| conf.server_names.clone());
        let (location, locations) = self.location(outline, &mut named);
        let Some(conf) = outline.conf::<HttpCore>() else { return };
        let settings = http_core::server_settings(conf);
        let name = conf.server_names.first().map_or(String::new(), |word| self.shown_name(word));
        let server =
            Server { name, location, locations, named, settings, extensions: Default::default() };
        let modules = self.environment.modules;
        let mut builder = ServerBuilder { plan: self, outline, server };
        for (module, conf) in modules.iter().zip(outline.confs.iter()) {
            if let Err(diagnostic) = module.prepare_server(conf, &mut builder) {
                builder.plan.diagnostics.push(diagnostic);
            }
        }
        let server = builder.server;
        self.servers.push(server);
    }

    /// Groups the servers' `listen` directives by address.
    pub(crate) fn listeners(&mut self, servers: &[&Outline]) -> Vec<ListenerPlan> {
        let mut groups = AddressGroups::default();
        for (index, outline) in servers.iter().enumerate() {
            let Some(conf) = outline.conf::<HttpCore>() else { continue };
            let id = ServerId(index as u32);
            if self.in_stream() && conf.listens.is_empty() {
                self.diagnostics.push(Diagnostic::emerg(NO_LISTEN).at(outline.span));
                continue;
            }
            let mut warned = None;
            for listen in listens(conf, outline, self.main.machine.privileged) {
                // A name with several addresses is one directive.
                if listen.http2 && warned.replace(listen.span) != Some(listen.span) {
                    let warning = Diagnostic::warn(LISTEN_HTTP2).at(listen.span);
                    self.diagnostics.push(warning.help("write `http2 on;` instead"));
                }
                if let Err(diagnostic) = groups.add(listen, id) {
                    self.diagnostics.push(diagnostic);
                }
            }
        }
        let finished: Vec<_> = groups
            .all
            .into_iter()
            .map(|group| {
                let servers = self.virtual_servers(&group, servers);
                (group, servers)
            })
            .collect();
        merge_wildcards(finished)
    }

    fn virtual_servers(&mut self, group: &AddressGroup, outlines: &[&Outline]) -> VirtualServers {
        let mut names = Names::default();
        for id in &group.servers {
            let conf = outlines.get(id.0 as usize).and_then(|outline| outline.conf::<HttpCore>());
            let Some(conf) = conf else { continue };
            if conf.server_names.is_empty() {
                // Of several servers without a name, the first gets the requests without a host.
                let _ = names.add_exact(b"", *id);
            }
            for word in &conf.server_names {
                if let Err(diagnostic) = self.name(&mut names, word, *id, group) {
                    self.diagnostics.push(diagnostic);
                }
            }
        }
        names.finish();
        let default = group.default.unwrap_or(group.servers[0]);
        let rules = |id: &ServerId| self.servers.get(id.0 as usize).map(|one| one.settings.parse);
        let parse_rules_differ = group.servers.iter().any(|id| rules(id) != rules(&default));
        VirtualServers { default, names, parse_rules_differ }
    }

    fn name(
        &mut self,
        names: &mut Names,
        word: &Word,
        id: ServerId,
        group: &AddressGroup,
    ) -> Result<(), Diagnostic> {
        let text = word.bytes.to_ascii_lowercase();
        let invalid = || {
            let message = format!("invalid server name or wildcard \"{}\"", word.display());
            Diagnostic::emerg(message).at(word.span)
        };
        let impossible = || {
            let message = format!("server name \"{}\" is invalid", word.display());
            Diagnostic::emerg(message).at(word.span)
        };
        if text.contains(&b'/') && !text.starts_with(b"*/") {
            let message = format!("server name \"{}\" has suspicious symbols", word.display());
            let warning = Diagnostic::warn(message).at(word.span);
            self.diagnostics.push(warning.help("a name has neither a scheme nor a path"));
        }
        let added = match &text[..] {
            [b'~', ..] => {
                let pattern = &word.bytes[1..];
                if pattern.is_empty() {
                    let message = format!("empty regex in server name \"{}\"", word.display());
                    return Err(Diagnostic::emerg(message).at(word.span));
                }
                // Host names are lower-cased before they are compared, as nginx does.
                let regex = self.regex(pattern, true, word.span)?;
                names.add_regex(regex, id);
                Ok(())
            }
            b"$hostname" => {
                let own = self.main.machine.host_name.clone();
                names.add_exact(own.as_bytes(), id)
            }
            // Wildcards that nginx refuses with another message than the invalid ones of the table.
            [b'*'] | [b'.'] | b"*." => return Err(impossible()),
            [b'*', second, ..] if *second != b'.' => return Err(impossible()),
            _ => names.add(&text, id),
        };
        match added {
            Ok(()) => {}
            Err(AddNameError::Invalid) => return Err(invalid()),
            // As in nginx, the first server keeps the name.
            Err(AddNameError::Known(_)) => {
                let address = group.address.text();
                let message =
                    format!("conflicting server name \"{}\" on {address}, ignored", word.display());
                self.diagnostics.push(Diagnostic::warn(message).at(word.span));
            }
        }
        Ok(())
    }

    /// Returns `$server_name` for the first name: in lower case, but a regular expression as written.
    fn shown_name(&self, word: &Word) -> String {
        let text = word.display();
        match text.strip_prefix('.') {
            _ if text.starts_with('~') => text.into_owned(),
            _ if word.bytes == b"$hostname" => self.main.machine.host_name.clone(),
            Some(rest) => rest.to_ascii_lowercase(),
            None => text.to_ascii_lowercase(),
        }
    }
}

struct AddressGroup {
    address: Address,
    datagram: bool,
    conf: ListenConf,
    servers: Vec<ServerId>,
    default: Option<ServerId>,
}

/// Returns the server's `listen` directives; without any, nginx's `*:80`, or `*:8000` without privileges.
fn listens(conf: &http_core::Conf, outline: &Outline, privileged: bool) -> Vec<ListenConf> {
    if !conf.listens.is_empty() {
        return conf.listens.clone();
    }
    let port = if privileged { 80 } else { 8000 };
    let any = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), port);
    vec![ListenConf {
        address: Address::Inet(any),
        default_server: false,
        tls: false,
        proxy_protocol: false,
        http2: false,
        datagram: false,
        quic: false,
        socket: Default::default(),
        span: outline.span,
    }]
}

/// Servers grouped by address, in the order of the first `listen`.
#[derive(Default)]
struct AddressGroups {
    all: Vec<AddressGroup>,
    by_place: HashMap<ListenerKey, usize>,
}

impl AddressGroups {
    fn add(&mut self, listen: ListenConf, id: ServerId) -> Result<(), Diagnostic> {
        let text = listen.address.text();
        let place = ListenerKey { address: listen.address.clone(), datagram: listen.datagram };
        let index = *self.by_place.entry(place).or_insert(self.all.len());
        let Some(group) = self.all.get_mut(index) else {
            let default = listen.default_server.then_some(id);
            let address = listen.address.clone();
            let datagram = listen.datagram;
            self.all.push(AddressGroup {
                address,
                datagram,
                conf: listen,
                servers: vec![id],
                default,
            });
            return Ok(());
        };
        if group.servers.last() == Some(&id) {
            return Err(Diagnostic::emerg(format!("a duplicate listen {text}")).at(listen.span));
        }
        if listen.default_server {
            if group.default.is_some() {
                let message = format!("a duplicate default server for {text}");
                return Err(Diagnostic::emerg(message).at(listen.span));
            }
            group.default = Some(id);
        }
        if listen.socket.written {
            if group.conf.socket.written && group.conf.socket != listen.socket {
                let message = format!("duplicate listen options for {text}");
                return Err(Diagnostic::emerg(message).at(listen.span));
            }
            group.conf.socket = listen.socket;
        }
        group.conf.tls |= listen.tls;
        group.conf.proxy_protocol |= listen.proxy_protocol;
        group.conf.http2 |= listen.http2;
        group.servers.push(id);
        Ok(())
    }
}

/// Makes listeners of groups. An address whose port has a wildcard listener as well needs no socket of its own,
/// unless it has socket options: the connection's local address chooses among the servers then.
fn merge_wildcards(groups: Vec<(AddressGroup, VirtualServers)>) -> Vec<ListenerPlan> {
    let is_any = |group: &AddressGroup| matches!(&group.address, Address::Inet(a) if a.ip().is_unspecified());
    let (wildcards, others): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|(group, _)| is_any(group));
    let mut listeners: Vec<ListenerPlan> = wildcards.into_iter().map(listener).collect();
    // Wildcards by port, address family and protocol.
    let homes: HashMap<(u16, bool, bool), usize> = listeners
        .iter()
        .enumerate()
        .filter_map(|(index, listener)| match &listener.address {
            Address::Inet(any) => Some(((any.port(), any.is_ipv4(), listener.datagram), index)),
            Address::Unix(_) => None,
        })
        .collect();
    for (group, servers) in others {
        let home = match &group.address {
            Address::Inet(address) if !group.conf.socket.written => homes
                .get(&(address.port(), address.is_ipv4(), group.datagram))
                .and_then(|index| listeners.get_mut(*index)),
            _ => None,
        };
        match (home, &group.address) {
            (Some(listener), Address::Inet(address)) => {
                listener.by_local.push(LocalServers {
                    address: address.ip(),
                    servers,
                    tls: group.conf.tls,
                    proxy_protocol: group.conf.proxy_protocol,
                    http2: group.conf.http2,
                });
            }
            _ => listeners.push(listener_of(group, servers)),
        }
    }
    for listener in &mut listeners {
        listener.by_local.sort_by_key(|local| local.address);
    }
    listeners
}

fn listener((group, servers): (AddressGroup, VirtualServers)) -> ListenerPlan {
    listener_of(group, servers)
}

fn listener_of(group: AddressGroup, servers: VirtualServers) -> ListenerPlan {
    ListenerPlan {
        address: group.address,
        datagram: group.datagram,
        quic: group.conf.quic,
        tls: group.conf.tls,
        proxy_protocol: group.conf.proxy_protocol,
        http2: group.conf.http2,
        socket: group.conf.socket,
        servers,
        by_local: Vec::new(),
    }
}
