//! Servers with a name are resolved again when the answer of the name servers expires (`resolve`, `service`).
//!
//! A server with a name has one task: it queries, updates the group, and sleeps while the answer is valid. The effect
//! of an answer:
//!
//! | the name servers | the server's addresses | next query after |
//! |---|---|---|
//! | have addresses | those | `valid`, or the shortest time to live, at least a second |
//! | do not answer in time | remain | a second |
//! | say that there is no such name | none | `valid`, or ten seconds |
//! | fail otherwise | remain | `valid`, or ten seconds |
//!
//! The tasks are dropped, at any await, with the plan, and one by one as servers leave the group. A query that is
//! dropped changes nothing; the group is updated in one step, behind the last answer.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::error_log::{ErrorLog, Level};
use tidegate_rt::net::Addr;
use tidegate_rt::{clock, timer};

use super::{BackgroundTask, RunningTask};
use crate::peers::{Group, MemberAddress, ServerName};
use crate::resolve::{ResolveError, Resolver, ServiceRecord};

/// The task that resolves a group's servers with names as long as the group is in use.
pub struct NamesTask {
    /// The group whose servers are resolved.
    pub group: Arc<Group>,
    /// The name servers.
    pub resolver: Resolver,
    /// Gets a line at `error` for a name without an address.
    pub log: ErrorLog,
}

/// One server with a name.
struct NameWatch {
    group: Arc<Group>,
    number: u32,
    name: ServerName,
    resolver: Resolver,
    log: ErrorLog,
}

/// Shortest time between two queries: a time to live of 0 must not cause continuous queries.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Time after an answer without addresses, unless `valid` is set.
const PAUSE_WITHOUT: Duration = Duration::from_secs(10);
/// Time in which changes of a group are taken for one.
const PAUSE_TO_JOIN: Duration = Duration::from_millis(10);
/// Most hosts of one service that are resolved.
const HOSTS_MAX: usize = 256;

impl BackgroundTask for NamesTask {
    fn run(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            let mut tasks: HashMap<u32, RunningTask> = HashMap::new();
            loop {
                let altered = self.group.altered();
                let members = self.group.members();
                let known: HashSet<u32> =
                    members.iter().filter_map(|member| member.number).collect();
                tasks.retain(|number, _| known.contains(number));
                for member in members {
                    let (Some(name), Some(number)) = (member.name, member.number) else { continue };
                    tasks.entry(number).or_insert_with(|| {
                        let (group, resolver) = (self.group.clone(), self.resolver.clone());
                        let log = self.log.clone();
                        let watch = NameWatch { group, number, name, resolver, log };
                        RunningTask::begin(watch.run())
                    });
                }
                altered.await;
                // Of many names several change at a time.
                timer::sleep(PAUSE_TO_JOIN).await;
            }
        })
    }
}

impl NameWatch {
    async fn run(self) {
        loop {
            let pause = self.resolve_once().await;
            timer::sleep(pause.max(PAUSE_MIN)).await;
        }
    }

    /// Queries once; returns the time until the next query.
    async fn resolve_once(&self) -> Duration {
        let found = match &self.name.service {
            None => self.addresses().await,
            Some(service) => self.service(service).await,
        };
        let now = clock::now();
        match found {
            Ok((places, time)) => {
                self.group.set_places(self.number, places, now);
                time
            }
            // A timeout says nothing about the name: the addresses remain.
            Err(error) if error.is_timeout() => {
                self.complain(&self.name.host, error);
                Duration::ZERO
            }
            Err(error) => {
                self.complain(&self.name.host, error);
                if error.is_not_found() {
                    self.group.set_places(self.number, Vec::new(), now);
                }
                self.resolver.valid.unwrap_or(PAUSE_WITHOUT)
            }
        }
    }

    async fn addresses(&self) -> Result<(Vec<MemberAddress>, Duration), ResolveError> {
        let (mut addresses, time) = self.resolver.look_up(&self.name.host).await?;
        // Name servers answer in varying order.
        addresses.sort_unstable();
        addresses.dedup();
        let place =
            |ip| MemberAddress::of(Addr::Inet(std::net::SocketAddr::new(ip, self.name.port)));
        Ok((addresses.into_iter().map(place).collect(), time))
    }

    /// Returns the hosts of a service with their addresses: the records of the lowest priority are the server, all
    /// others its backups.
    async fn service(&self, service: &str) -> Result<(Vec<MemberAddress>, Duration), ResolveError> {
        let name = service_name(service, &self.name.host);
        let (mut records, mut time) = self.resolver.services(&name).await?;
        let key = |record: &ServiceRecord| (record.priority, record.target.clone(), record.port);
        records.sort_by_key(key);
        let first = records.first().map_or(0, |record| record.priority);
        let mut places = Vec::new();
        let mut failed = None;
        for record in records.iter().take(HOSTS_MAX) {
            match self.resolver.look_up(&record.target).await {
                Ok((mut addresses, host_time)) => {
                    time = time.min(host_time);
                    addresses.sort_unstable();
                    for ip in addresses {
                        places.push(MemberAddress {
                            address: Addr::Inet(std::net::SocketAddr::new(ip, record.port)),
                            weight: Some(u32::from(record.weight.max(1))),
                            backup: (record.priority != first).then_some(true),
                        });
                    }
                }
                Err(error) => {
                    self.complain(&record.target, error);
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if places.is_empty() => Err(error),
            _ => Ok((places, time)),
        }
    }

    fn complain(&self, name: &str, error: ResolveError) {
        let group = &self.group.name;
        let text = format_args!(
            "{name} could not be resolved ({error}) while resolving, upstream: \"{group}\""
        );
        self.log.say(Level::Error, text);
    }
}

/// Returns the name of the query: `http` becomes `_http._tcp.HOST`; a name with dots is used unchanged.
fn service_name(service: &str, host: &str) -> String {
    match service.contains('.') {
        true => format!("{service}.{host}"),
        false => format!("_{service}._tcp.{host}"),
    }
}
