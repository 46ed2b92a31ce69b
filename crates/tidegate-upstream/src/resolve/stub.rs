//! The `resolver` directive: names are queried at name servers over UDP, answers cached per thread, queries shared by
//! all threads.
//!
//! ```text
//! resolve(name) ── in the thread's cache and valid ──> addresses
//!      │
//! look_up(name) ── in progress in this process ──> waits for that query (`shared`)
//!      │ a task of its own, at most `resolver_timeout` long: TIMED_OUT
//! query_all ──> A and AAAA of one server at once ── both empty, an alias ──> query_all(alias), at most ALIASES_MAX
//!      │                                        └─ neither ──> NOT_FOUND
//! query ──> exchange with a server ── no answer in 5 s, or unreachable ──> the next server
//!      │                           └─ an error code, an invalid answer ──> that error
//! exchange ──> UDP ── truncated ──> the same question over TCP (RFC 1035 section 4.2.2)
//! ```
//!
//! Invariants: a query has a random id, a port of its own and its name in the answer, or the answer is ignored (RFC
//! 5452). Answers without an address are not cached. Servers are used in rotation, both families of a name from the
//! same one.
//!
//! Cancelling: a caller may be dropped at any time; the query continues for the others in its task, and its answer is
//! cached by the remaining callers. When the thread of the query ends, the others get FAILED.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidegate_rt::net::{Addr, ConnectOptions, Datagram, Stream};
use tidegate_rt::{clock, random, timer};

use super::dns::{self, DnsError, RecordType, ServiceRecord};
use super::error::{ResolveError, ResolverError};
use super::host_port;
use super::shared::Queries;
use super::zone::{self, ResolverZone};

/// A `resolver` directive.
#[derive(Clone, Debug)]
pub struct Resolver {
    /// Name servers, in the order in which they are written.
    pub servers: Vec<SocketAddr>,
    /// `valid=`: lifetime in place of the answers' own.
    pub valid: Option<Duration>,
    /// `ipv4=`: A records are queried.
    pub ipv4: bool,
    /// `ipv6=`: AAAA records are queried.
    pub ipv6: bool,
    /// `resolver_timeout`.
    pub timeout: Duration,
    /// `status_zone=`: counts the questions.
    pub zone: Option<ResolverZone>,
    /// Number of queries, for the rotation of the servers.
    rotation: Arc<AtomicUsize>,
}

/// Queries in progress, of all threads.
static ADDRESSES: Queries<IpAddr> = Queries::new();
static SERVICES: Queries<ServiceRecord> = Queries::new();

/// Time after which the next server is queried.
const RETRY: Duration = Duration::from_secs(5);
/// Maximum number of aliases over several queries.
const ALIASES_MAX: usize = 8;
/// Names cached per thread; beyond it the cache is emptied.
const KEPT_MAX: usize = 1024;
/// Most bytes of an answer over UDP: at most 512 without extensions (RFC 1035 section 4.2.1); some servers send more.
const ANSWER_BYTES_MAX: usize = 4096;

struct CachedName {
    addresses: Vec<IpAddr>,
    until: Instant,
}

/// Name servers, families and the name.
type CacheKey = (Vec<SocketAddr>, bool, bool, String);

thread_local! {
    static KEPT: RefCell<HashMap<CacheKey, CachedName>> = RefCell::default();
}

/// Rotates the addresses: each caller begins with a random one of each family; IPv4 comes first, as it is queried
/// first. The first caller gets the name servers' order.
fn rotate(addresses: &mut [IpAddr]) {
    let fours = addresses.iter().take_while(|ip| ip.is_ipv4()).count();
    let (four, six) = addresses.split_at_mut(fours);
    for family in [four, six].into_iter().filter(|family| !family.is_empty()) {
        family.rotate_left(random::below(family.len() as u64) as usize);
    }
}

impl Resolver {
    /// Parses the arguments of the directive (`resolver ADDRESS ... [valid=TIME] [ipv4=on|off] [ipv6=on|off]
    /// [status_zone=ZONE]`); names of servers are resolved now, by `look_up`, which may block. A later parameter
    /// overrides an earlier one. A name server behind a Unix socket is ignored.
    ///
    /// # Errors
    /// The syntax error, in nginx's words.
    pub fn parse(
        words: &[String],
        timeout: Duration,
        look_up: impl Fn(&str) -> io::Result<Vec<IpAddr>>,
    ) -> Result<Resolver, ResolverError> {
        let (ipv4, ipv6) = (true, true);
        let mut resolver = Resolver {
            servers: Vec::new(),
            valid: None,
            ipv4,
            ipv6,
            timeout,
            zone: None,
            rotation: Arc::default(),
        };
        for word in words {
            let invalid = || ResolverError::Parameter(word.clone());
            let flag = |text: &str| match text {
                "on" => Ok(true),
                "off" => Ok(false),
                _ => Err(invalid()),
            };
            match word.split_once('=') {
                Some(("valid", time)) => {
                    let time = tidegate_conf::parse_seconds(time.as_bytes()).ok_or_else(invalid)?;
                    resolver.valid = Some(time);
                }
                Some(("ipv4", text)) => resolver.ipv4 = flag(text)?,
                Some(("ipv6", text)) => resolver.ipv6 = flag(text)?,
                Some(("status_zone", "")) => return Err(invalid()),
                Some(("status_zone", name)) => {
                    resolver.zone = Some(ResolverZone::named(name));
                }
                _ => {
                    let in_resolver = |wrong| ResolverError::Server { word: word.clone(), wrong };
                    let host = host_port::parse(word, 53).map_err(in_resolver)?;
                    let found = host_port::addresses(&host, 53, &look_up);
                    for address in found.map_err(in_resolver)? {
                        if let Addr::Inet(address) = address {
                            resolver.servers.push(address);
                        }
                    }
                }
            }
        }
        if !resolver.ipv4 && !resolver.ipv6 {
            return Err(ResolverError::NoFamily);
        }
        if resolver.servers.is_empty() {
            return Err(ResolverError::NoServers);
        }
        Ok(resolver)
    }

    /// Returns the addresses of a name, from the thread's cache while they are valid at `now`, or from the name
    /// servers.
    ///
    /// # Errors
    /// [`ResolveError`]: no such name, no answer within `resolver_timeout`, or a failure of the name servers.
    pub async fn resolve(&self, name: &str, now: Instant) -> Result<Vec<IpAddr>, ResolveError> {
        let name = name.to_ascii_lowercase();
        let key = (self.servers.clone(), self.ipv4, self.ipv6, name.clone());
        let kept = KEPT.with_borrow(|kept| {
            let kept = kept.get(&key).filter(|kept| kept.until > now);
            kept.map(|kept| kept.addresses.clone())
        });
        if let Some(mut addresses) = kept {
            rotate(&mut addresses);
            return Ok(addresses);
        }
        let (addresses, time) = self.look_up(&name).await?;
        // Its lifetime begins on arrival.
        if let Some(until) = clock::now().checked_add(time) {
            KEPT.with_borrow_mut(|kept| {
                if kept.len() >= KEPT_MAX {
                    kept.clear();
                }
                kept.insert(key, CachedName { addresses: addresses.clone(), until });
            });
        }
        Ok(addresses)
    }

    /// Returns the addresses of a name from the name servers, and their lifetime. Concurrent callers for the same
    /// name share one query.
    ///
    /// # Errors
    /// As [`Resolver::resolve`].
    pub async fn look_up(&self, name: &str) -> Result<(Vec<IpAddr>, Duration), ResolveError> {
        let name = name.to_ascii_lowercase();
        let key = (self.servers.clone(), self.ipv4, self.ipv6, self.timeout, name.clone());
        let resolver = self.clone();
        let ask = || async move {
            let asked = timer::timeout(resolver.timeout, resolver.query_all(&name)).await;
            let answer = asked.unwrap_or(Err(ResolveError::TIMED_OUT));
            resolver.count(zone::NAME, &answer);
            answer
        };
        let (addresses, ttl) = ADDRESSES.answer(key, ask).await?;
        Ok((addresses, self.valid_for(ttl)))
    }

    /// Returns the places of a service (`_http._tcp.example.com`), and their lifetime; shared as the addresses of a
    /// name.
    ///
    /// # Errors
    /// As [`Resolver::resolve`].
    pub async fn services(
        &self,
        name: &str,
    ) -> Result<(Vec<ServiceRecord>, Duration), ResolveError> {
        let name = name.to_ascii_lowercase();
        let key = (self.servers.clone(), self.ipv4, self.ipv6, self.timeout, name.clone());
        let resolver = self.clone();
        let ask = || async move {
            let asked =
                timer::timeout(resolver.timeout, resolver.follow(&name, RecordType::Srv)).await;
            let answer = asked.unwrap_or(Err(ResolveError::TIMED_OUT));
            resolver.count(zone::SERVICE, &answer);
            answer.map(|(answer, ttl)| (answer.services, ttl))
        };
        let (services, ttl) = SERVICES.answer(key, ask).await?;
        Ok((services, self.valid_for(ttl)))
    }

    fn count<T>(&self, question: usize, answer: &Result<T, ResolveError>) {
        if let Some(zone) = &self.zone {
            zone.count(question, answer);
        }
    }

    fn valid_for(&self, ttl: u32) -> Duration {
        self.valid.unwrap_or(Duration::from_secs(u64::from(ttl)))
    }

    /// Queries both families as configured. Where neither has an address an alias is followed, again in both.
    async fn query_all(&self, name: &str) -> Result<(Vec<IpAddr>, u32), ResolveError> {
        let mut name = name.to_owned();
        let mut ttl = u32::MAX;
        for _ in 0..ALIASES_MAX {
            let first = self.first_server();
            let one = async |wanted: bool, kind: RecordType| match wanted {
                true => self.query(&name, kind, first).await,
                false => Ok(dns::DnsAnswer { ttl: u32::MAX, ..dns::DnsAnswer::default() }),
            };
            let (four, six) = tidegate_rt::sync::join!(
                one(self.ipv4, RecordType::A),
                one(self.ipv6, RecordType::Aaaa)
            );
            let answer = of_both(four, six)?;
            ttl = ttl.min(answer.ttl);
            match answer.alias {
                _ if !answer.addresses.is_empty() => return Ok((answer.addresses, ttl)),
                Some(alias) => name = alias,
                None => return Err(ResolveError::NOT_FOUND),
            }
        }
        Err(ResolveError::NOT_FOUND)
    }

    /// Queries one family, along aliases.
    async fn follow(
        &self,
        name: &str,
        kind: RecordType,
    ) -> Result<(dns::DnsAnswer, u32), ResolveError> {
        let mut name = name.to_owned();
        let mut ttl = u32::MAX;
        for _ in 0..ALIASES_MAX {
            let mut answer = self.query(&name, kind, self.first_server()).await?;
            ttl = ttl.min(answer.ttl);
            match answer.alias.take() {
                Some(alias) => name = alias,
                None if answer.addresses.is_empty() && answer.services.is_empty() => {
                    return Err(ResolveError::NOT_FOUND);
                }
                None => return Ok((answer, ttl)),
            }
        }
        Err(ResolveError::NOT_FOUND)
    }

    /// Returns the next server in rotation; both families of a name are queried at the same server.
    fn first_server(&self) -> usize {
        self.rotation.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends one query; server after server until one answers. It has no time limit: `resolver_timeout` of the caller
    /// drops it, and the socket with it.
    async fn query(
        &self,
        name: &str,
        kind: RecordType,
        first: usize,
    ) -> Result<dns::DnsAnswer, ResolveError> {
        if self.servers.is_empty() {
            return Err(ResolveError::NOT_FOUND);
        }
        for attempt in 0.. {
            let server = self.servers[first.wrapping_add(attempt) % self.servers.len()];
            if let Some(zone) = &self.zone {
                zone.count_sent(kind);
            }
            match timer::timeout(RETRY, exchange(server, name, kind)).await {
                Ok(Ok(Ok(answer))) => return Ok(answer),
                Ok(Ok(Err(DnsError::Refused(code)))) => {
                    return Err(ResolveError::refused(code));
                }
                Ok(Ok(Err(_))) => return Err(ResolveError::FAILED),
                // Temporarily unreachable: the others are tried after a pause.
                Ok(Err(_)) => timer::sleep(Duration::from_secs(1)).await,
                Err(_) => {}
            }
        }
        Err(ResolveError::TIMED_OUT)
    }
}

/// Merges the answers of both families; of two aliases the last one queried counts. A failure for `AAAA` alone is
/// ignored, since many name servers fail there; one for `A` is not, or a temporary failure would leave IPv6 alone for
/// the lifetime of its answer.
fn of_both(
    four: Result<dns::DnsAnswer, ResolveError>,
    six: Result<dns::DnsAnswer, ResolveError>,
) -> Result<dns::DnsAnswer, ResolveError> {
    match (four, six) {
        (Ok(four), Ok(six)) => Ok(dns::DnsAnswer {
            addresses: [four.addresses, six.addresses].concat(),
            services: Vec::new(),
            alias: six.alias.or(four.alias),
            ttl: four.ttl.min(six.ttl),
        }),
        (Ok(four), Err(_)) if !four.addresses.is_empty() || four.alias.is_some() => Ok(four),
        (_, Err(error)) | (Err(error), _) => Err(error),
    }
}

/// Sends a query from a port of its own and waits for its answer.
async fn exchange(
    server: SocketAddr,
    name: &str,
    kind: RecordType,
) -> io::Result<Result<dns::DnsAnswer, DnsError>> {
    let mut seed = [0; 2];
    random::unpredictable(&mut seed);
    let id = u16::from_be_bytes(seed);
    let Some(question) = dns::question(id, name, kind) else {
        return Ok(Err(DnsError::Refused(3)));
    };
    let socket = Datagram::connect(&Addr::Inet(server), &ConnectOptions::default())?;
    socket.send(&question, None).await?;
    let mut buffer = vec![0; ANSWER_BYTES_MAX];
    loop {
        let (length, _) = socket.receive_from(&mut buffer).await?;
        match dns::answer(&buffer[..length], id, name, kind) {
            Err(DnsError::Foreign) => {}
            Err(DnsError::Truncated) => break,
            other => return Ok(other),
        }
    }
    let whole = over_tcp(server, &question).await?;
    Ok(dns::answer(&whole, id, name, kind))
}

/// Repeats the query over TCP, where answers of any length fit (RFC 1035 section 4.2.2).
async fn over_tcp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let stream = Stream::connect(&Addr::Inet(server), &ConnectOptions::default()).await?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
    let mut received = Vec::with_capacity(ANSWER_BYTES_MAX);
    loop {
        if let [high, low, rest @ ..] = &received[..]
            && let Some(answer) = rest.get(..usize::from(u16::from_be_bytes([*high, *low])))
        {
            return Ok(answer.to_vec());
        }
        received.reserve(ANSWER_BYTES_MAX);
        if stream.read_append(&mut received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
