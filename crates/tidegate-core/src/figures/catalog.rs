//! Zones by kind and name: all of a process, and those of a plan.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{Tally, Zone};

/// What a zone counts. Zones of different kinds may have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Requests of servers.
    Server,
    /// Requests of locations.
    Location,
    /// Sessions of servers in `stream`.
    SessionServer,
    /// Requests by `limit_req`.
    LimitReq,
    /// Requests by `limit_conn`.
    LimitConn,
    /// Sessions by `limit_conn`.
    SessionLimitConn,
    /// Questions to name servers.
    Resolver,
}

/// All zones of a process by kind and name. Reloads keep it.
#[derive(Default)]
pub struct Figures {
    zones: Mutex<BTreeMap<(Kind, String), &'static Zone>>,
    tallies: Mutex<BTreeMap<(Kind, String), Arc<Tally>>>,
    /// Held by plans: the next plan is built while the present one is in use.
    groups: Mutex<BTreeMap<(Kind, String), Weak<ZoneGroup>>>,
}

impl Figures {
    /// Returns the zone of this kind and name.
    pub fn zone(&self, kind: Kind, name: &str) -> &'static Zone {
        let mut zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        zones.entry((kind, name.to_owned())).or_insert_with(Zone::forever)
    }

    /// Returns all zones of a kind, also those of earlier plans.
    pub fn zones(&self, kind: Kind) -> Vec<&'static Zone> {
        let zones = self.zones.lock().unwrap_or_else(PoisonError::into_inner);
        zones.iter().filter(|((of, _), _)| *of == kind).map(|(_, zone)| *zone).collect()
    }

    /// Returns the counters of this kind and name, `width` of them.
    pub fn tally(&self, kind: Kind, name: &str, width: usize) -> Arc<Tally> {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        tallies.entry((kind, name.to_owned())).or_insert_with(|| Tally::new(width).into()).clone()
    }

    /// Returns the group of this kind and name for the values of `key`, the texts with variables that use it: the present
    /// one, unless the configuration has changed it. Its zones keep their figures then, but each counts to `most` anew.
    pub fn group(
        self: &Arc<Self>,
        kind: Kind,
        name: &str,
        key: &[u8],
        most: usize,
    ) -> Arc<ZoneGroup> {
        let rest = self.zone(kind, name);
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let known = groups.get(&(kind, name.to_owned())).and_then(Weak::upgrade);
        if let Some(group) = known.filter(|group| *group.key == *key && group.most == most) {
            return group;
        }
        let (figures, keys, known) = (self.clone(), Default::default(), Default::default());
        let (name, key) = (name.to_owned(), key.into());
        let (secure, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        let rest_name = name.clone();
        let group = ZoneGroup {
            figures,
            kind,
            key,
            most,
            rest,
            name: rest_name,
            secure,
            keys,
            count,
            known,
        };
        let group = Arc::new(group);
        groups.insert((kind, name), Arc::downgrade(&group));
        group
    }
}

/// Zones by the value of a variable: at most a number of them, and one for all further values.
pub struct ZoneGroup {
    figures: Arc<Figures>,
    kind: Kind,
    /// The texts whose values have zones.
    key: Box<[u8]>,
    most: usize,
    /// The zone of values that have none, with the group's name.
    rest: &'static Zone,
    name: String,
    /// Whether a server of its zones listens with TLS.
    secure: AtomicBool,
    keys: Mutex<HashMap<Vec<u8>, &'static Zone>>,
    /// The number of `keys`, for those who must not wait.
    count: AtomicUsize,
    /// What each thread knows of `keys`, so that threads do not wait for each other.
    known: super::thread::Slots<Mutex<HashMap<Vec<u8>, &'static Zone>>>,
}

impl ZoneGroup {
    /// Returns the zone of a value; `None` for an empty one, which is not counted.
    pub fn zone(&self, value: &[u8]) -> Option<&'static Zone> {
        if value.is_empty() {
            return None;
        }
        let Some(known) = self.known.own() else { return Some(self.rest) };
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(zone) = known.get(value) {
            return Some(zone);
        }
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.contains_key(value) && (keys.len() >= self.most || value.len() > VALUE_BYTES_MAX) {
            return Some(self.rest);
        }
        let make = || {
            let zone = self.figures.zone(self.kind, &String::from_utf8_lossy(value));
            if self.secure.load(Ordering::Relaxed) {
                zone.set_secure();
            }
            zone
        };
        let zone = *keys.entry(value.to_vec()).or_insert_with(make);
        self.count.store(keys.len(), Ordering::Relaxed);
        known.insert(value.to_vec(), zone);
        Some(zone)
    }

    /// Records that a server of its zones listens with TLS.
    pub fn set_secure(&self) {
        self.secure.store(true, Ordering::Relaxed);
        self.rest.set_secure();
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.values().for_each(|zone| zone.set_secure());
    }

    /// Returns the number of its zones.
    fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed) + 1
    }

    pub(super) fn shown(&self) -> Vec<(String, &'static Zone)> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let named = |(value, zone): (&Vec<u8>, &&'static Zone)| {
            (String::from_utf8_lossy(value).into_owned(), *zone)
        };
        keys.iter().map(named).chain([(self.name.clone(), self.rest)]).collect()
    }
}

/// Longest value with a zone of its own, in bytes.
const VALUE_BYTES_MAX: usize = 256;

/// Servers that are shown as users of a certificate.
const USERS_MAX: usize = 20;

/// The zones of one plan, for those who show them.
#[derive(Default)]
pub struct Catalog {
    zones: BTreeMap<(Kind, String), &'static Zone>,
    groups: BTreeMap<(Kind, String), Arc<ZoneGroup>>,
    tallies: BTreeMap<(Kind, String), Arc<Tally>>,
    slabs: BTreeMap<String, Slab>,
    keys: BTreeMap<(Kind, String), FullestKeys>,
    certificates: BTreeMap<String, ServerCertificate>,
    users: BTreeMap<String, Vec<String>>,
    ordered: Vec<OrderedCertificate>,
}

/// Returns the keys of a limit's zone with the highest values, at most as many as asked for, the highest first. Of a very
/// large zone it looks at the keys that were used last. May take a lock for a moment.
pub type FullestKeys = Arc<dyn Fn(usize) -> Vec<KeyUse> + Send + Sync>;

/// A key of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The key: any bytes, many of them from clients.
    pub key: Vec<u8>,
    /// Its excess in thousandths of a request, or its connections.
    pub value: u64,
}

/// A certificate of servers, as its file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCertificate {
    /// Names that it is for.
    pub names: Vec<String>,
    /// Its subject's name.
    pub subject: String,
    /// Its issuer's name.
    pub issuer: String,
    /// The first and the last second of its validity, since 1970.
    pub validity: (i64, i64),
}

/// A certificate that the server orders itself (ACME).
#[derive(Clone)]
pub struct OrderedCertificate {
    /// The name of its issuer in the configuration.
    pub issuer: String,
    /// Names that it is for.
    pub names: Vec<String>,
    /// Returns what there is now.
    pub now: Arc<dyn Fn() -> OrderState + Send + Sync>,
}

/// How far an order is.
#[derive(Clone, Debug, Default)]
pub struct OrderState {
    /// The certificate in use; `None` before the first.
    pub certificate: Option<ServerCertificate>,
    /// What happened last in this process, and when, in Unix milliseconds.
    pub last: Option<(String, u64)>,
}

/// A zone of memory with a written size.
#[derive(Clone)]
pub struct Slab {
    /// Its size as written, in bytes.
    pub bytes: u64,
    /// Returns how much of it is in use. May take a lock for a moment.
    pub used: Arc<dyn Fn() -> SlabUse + Send + Sync>,
}

/// The use of a zone of memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlabUse {
    /// Bytes, as far as they are known.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
}

/// The zones of a kind by name.
pub type Shown = BTreeMap<String, &'static Zone>;

impl Catalog {
    /// Adds a zone.
    pub fn add(&mut self, kind: Kind, name: &str, zone: &'static Zone) {
        self.zones.insert((kind, name.to_owned()), zone);
    }

    /// Adds a group of zones.
    pub fn add_group(&mut self, kind: Kind, name: &str, group: Arc<ZoneGroup>) {
        self.groups.insert((kind, name.to_owned()), group);
    }

    /// Returns the group of this kind and name.
    pub fn group(&self, kind: Kind, name: &str) -> Option<Arc<ZoneGroup>> {
        self.groups.get(&(kind, name.to_owned())).cloned()
    }

    /// Adds counters.
    pub fn add_tally(&mut self, kind: Kind, name: &str, tally: Arc<Tally>) {
        self.tallies.insert((kind, name.to_owned()), tally);
    }

    /// Adds a zone of memory.
    pub fn add_slab(&mut self, name: &str, slab: Slab) {
        self.slabs.insert(name.to_owned(), slab);
    }

    /// Returns the zones of memory by name.
    pub fn slabs(&self) -> &BTreeMap<String, Slab> {
        &self.slabs
    }

    /// Adds the keys of a limit's zone.
    pub fn add_keys(&mut self, kind: Kind, name: &str, keys: FullestKeys) {
        self.keys.insert((kind, name.to_owned()), keys);
    }

    /// Returns the keys of all limits' zones.
    pub fn keys(&self) -> &BTreeMap<(Kind, String), FullestKeys> {
        &self.keys
    }

    /// Adds a certificate by the name of its file.
    pub fn add_certificate(&mut self, file: &str, certificate: ServerCertificate) {
        self.certificates.insert(file.to_owned(), certificate);
    }

    /// Notes that a server has the certificate of a file. A certificate of the `http` block may have very many: the first 20
    /// are kept.
    pub fn add_certificate_user(&mut self, file: &str, server: &str) {
        let users = self.users.entry(file.to_owned()).or_default();
        if users.len() < USERS_MAX && !users.iter().any(|known| known == server) {
            users.push(server.to_owned());
        }
    }

    /// Returns names of servers that have the certificate of a file.
    pub fn certificate_users(&self, file: &str) -> &[String] {
        self.users.get(file).map_or(&[], Vec::as_slice)
    }

    /// Adds a certificate that the server orders.
    pub fn add_ordered(&mut self, ordered: OrderedCertificate) {
        self.ordered.push(ordered);
    }

    /// Returns the certificates that the server orders.
    pub fn ordered(&self) -> &[OrderedCertificate] {
        &self.ordered
    }

    /// Returns the certificates by the names of their files.
    pub fn certificates(&self) -> &BTreeMap<String, ServerCertificate> {
        &self.certificates
    }

    /// Returns the number of zones of all kinds, those of values of variables included.
    pub fn len(&self) -> usize {
        let of_groups: usize = self.groups.values().map(|group| group.len()).sum();
        let others = self.tallies.len() + self.slabs.len() + self.certificates.len();
        self.zones.len() + of_groups + others
    }

    /// Returns whether there is no zone of any kind.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the zones of a kind, those of values of variables included.
    pub fn zones(&self, kind: Kind) -> Shown {
        let of_kind = self.zones.iter().filter(|((of, _), _)| *of == kind);
        let mut shown: Shown = of_kind.map(|((_, name), zone)| (name.clone(), *zone)).collect();
        let groups = self.groups.iter().filter(|((of, _), _)| *of == kind);
        shown.extend(groups.flat_map(|(_, group)| group.shown()));
        shown
    }

    /// Returns the counters of a kind by name.
    pub fn tallies(&self, kind: Kind) -> BTreeMap<String, Arc<Tally>> {
        let of_kind = self.tallies.iter().filter(|((of, _), _)| *of == kind);
        of_kind.map(|((_, name), tally)| (name.clone(), tally.clone())).collect()
    }
}
