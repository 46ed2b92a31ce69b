//! `status_zone`: counts requests of servers and locations, and sessions of `stream`, for `api` and other pages.
//!
//! ```nginx
//! server {
//!     status_zone shop;
//!     location /static/ { status_zone files; }
//!     location / { status_zone $host zone=hosts:100; }
//! }
//! ```
//! Directives with the same `zone=` share the zone: of their COUNTs the largest counts.
//! A server counts all of its requests, and those in progress; a location counts those that end in it. A request is
//! counted once, when it has ended.

mod conf;
mod groups;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Contexts, Diagnostic, Directive};
use tidegate_core::figures::{Exemplar, Kind, Sample, Zone};
use tidegate_core::status_zone::{ServerZone, Target};
use tidegate_core::{Exchange, Phase, Step};
use tidegate_plan::http_core::HttpCore;
use tidegate_plan::module::{BlockInfo, Module};
use tidegate_plan::{LocationBuilder, PlanBuilder, ServerBuilder};
use tidegate_rt::clock;

use conf::{Conf, ROWS, ZoneText};

/// The module of `status_zone`.
pub(crate) struct StatusZone;

impl Module for StatusZone {
    type Conf = Conf;
    const NAME: &'static str = "status_zone";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn close_block(conf: &mut Conf, block: BlockInfo<'_>) -> Result<(), Diagnostic> {
        match block.context.intersects(SERVERS) {
            true => conf.server = conf.written.take(),
            false => conf.location = conf.written.take(),
        }
        Ok(())
    }

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        if child.server.is_none() {
            child.server.clone_from(&parent.server);
        }
        if child.location.is_none() {
            child.location.clone_from(&parent.location);
        }
    }

    fn prepare_http(_conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        groups::open(plan);
        Ok(())
    }

    fn prepare_stream(_conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        groups::open(plan);
        Ok(())
    }

    fn prepare_server(conf: &Conf, server: &mut ServerBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let kind = if server.plan.in_stream() { Kind::SessionServer } else { Kind::Server };
        if let Some(target) = target(&conf.server, kind, server.plan)? {
            let core = server.outline.conf::<HttpCore>();
            if core.is_some_and(|core| core.listens.iter().any(|listen| listen.tls || listen.quic))
            {
                target.set_secure();
            }
            if let Target::Fixed(zone) = target {
                // From now on the zone shows handshakes, also while there were none.
                zone.handshakes();
            }
            server.server.extensions.insert(ServerZone(Arc::new(target)));
        }
        Ok(())
    }

    fn prepare_session(
        conf: &Conf,
        server: &mut LocationBuilder<'_, '_>,
    ) -> Result<(), Diagnostic> {
        let Some(zone) = target(&conf.server, Kind::SessionServer, server.plan)? else {
            return Ok(());
        };
        let zone = Arc::new(zone);
        begin_in(zone.clone(), server);
        server.location.loggers.push(Box::new(move |x| {
            x.processing = None;
            count(&zone, x, &session(x));
        }));
        Ok(())
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        let zones = location.plan.made_of(conf, |plan| {
            let server = target(&conf.server, Kind::Server, plan)?.map(Arc::new);
            Ok((server, target(&conf.location, Kind::Location, plan)?))
        })?;
        let (server, of_location) = &*zones;
        if let Some(server) = server
            && location.context().intersects(SERVERS)
        {
            match **server {
                Target::Fixed(zone) => location.location.zone = Some(zone),
                // The value may depend on handlers before.
                Target::Keyed(..) => begin_in(server.clone(), location),
            }
        }
        if server.is_some() || of_location.is_some() {
            location.location.extensions.insert(CountedBy(zones.clone()));
            location.logger(Box::new(move |x| log(x, zones.0.as_deref(), zones.1.as_ref())));
        }
        Ok(())
    }
}

const SERVERS: Contexts = Contexts::SERVER.union(Contexts::STREAM_SERVER);

/// The zones of a location: of its server, and its own.
type Zones = (Option<Arc<Target>>, Option<Target>);

/// The zones of a location, for those who know more of a request.
struct CountedBy(Arc<Zones>);

/// Keeps a request that ends now as an example in its zones; it was traced.
pub(super) fn exemplify(x: &mut Exchange, trace: [u8; 16]) {
    let counted = x.location().extensions.of::<CountedBy>();
    let Some(zones) = counted.map(|counted| counted.0.clone()) else { return };
    let micros = u64::try_from(time(x).as_micros()).unwrap_or(u64::MAX);
    let exemplar = Exemplar { trace, micros, unix_millis: clock::unix_millis() };
    let (server, location) = &*zones;
    for target in server.as_deref().into_iter().chain(location) {
        if let Some(zone) = target.zone(x) {
            zone.exemplify(exemplar);
        }
    }
}

/// Opens the zone that a directive names and makes it known to those who show the plan's zones.
fn target(
    text: &Option<ZoneText>,
    kind: Kind,
    plan: &mut PlanBuilder<'_>,
) -> Result<Option<Target>, Diagnostic> {
    let figures = plan.all_figures();
    Ok(match text {
        None | Some(ZoneText::Off) => None,
        Some(ZoneText::Named(name)) => {
            let zone = figures.zone(kind, name);
            plan.figures.add(kind, name, zone);
            Some(Target::Fixed(zone))
        }
        Some(ZoneText::Keyed { key, name, .. }) => match plan.figures.group(kind, name) {
            Some(group) => Some(Target::Keyed(group, plan.template(key)?)),
            // cannot be: all groups are open
            None => None,
        },
    })
}

/// Counts requests of a server as in progress from their beginning.
fn begin_in(zone: Arc<Target>, server: &mut LocationBuilder<'_, '_>) {
    server.handler(
        Phase::PostRead,
        Box::new(move |x| {
            x.processing = zone.zone(x).and_then(Zone::begin);
            Step::Decline
        }),
    );
}

/// Counts a request that has ended. Subrequests are parts of it.
fn log(x: &mut Exchange, server: Option<&Target>, location: Option<&Target>) {
    if x.is_subrequest() {
        return;
    }
    let outcome = &x.outcome;
    let status = match outcome.bytes_sent == 0 && !outcome.complete {
        true => None,
        false => Some(x.disposition.logged_status()),
    };
    let received = outcome.request_length + x.client.body_bytes();
    let sample = Sample::new(status, received, outcome.bytes_sent, time(x));
    match (x.processing.take(), server) {
        // It began in the zone that it ends in.
        (Some(processing), Some(Target::Fixed(_))) => processing.finish(&sample),
        (_, Some(server)) => count(server, x, &sample),
        (_, None) => {}
    }
    if let Some(location) = location {
        count(location, x, &sample);
    }
}

#[inline]
fn count(target: &Target, x: &mut Exchange, sample: &Sample) {
    if let Some(zone) = target.zone(x) {
        zone.count(sample);
    }
}

/// Returns the time since the beginning. Most requests begin and end in one batch of events.
#[inline]
fn time(x: &Exchange) -> Duration {
    let now = clock::batch_now();
    match now == x.progress.started {
        true => Duration::ZERO,
        false => now.saturating_duration_since(x.progress.started),
    }
}

/// Returns what a session that has ended adds.
fn session(x: &Exchange) -> Sample {
    let (received, sent) = match x.session() {
        Some(session) => (session.traffic.received.get(), session.traffic.sent.get()),
        None => (0, 0),
    };
    Sample::new(Some(x.disposition.status()), received, sent, time(x))
}
