//! A miss asks the owner of its key.
//!
//! ```text
//! owner ── response with its terms ─────────────► used: followed by this server's clients, stored if it is hot
//!   ├ its origin has failed ────────────────────► the same failure here: no other server is asked
//!   ├ refused, broken, no sign within ALIVE_MAX ► counts as a failure of the peer (`max_fails`); the next one, then the origin
//!   ├ no free connection (`max_conns`) ─────────► the next one, then the origin, without a wait in the group's `queue`
//!   └ a response without terms of a cache, one that was purged here, none in time behind the sign ► the origin
//! ```
//! The sign of a living owner is a 103: behind it the owner's own time limits decide, and the limit here is
//! longer ([`PATIENCE`]). So a server that hangs costs a request no more than [`ALIVE_MAX`], and once in its `fail_timeout`,
//! while a slow origin is waited for, and is not charged to the owner.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_cache::Key;
use tidegate_codec::request::Method;
use tidegate_core::Exchange;
use tidegate_core::client::Socketless;
use tidegate_rt::clock;
use tidegate_rt::timer::Deadline;
use tidegate_upstream::peers::{Choice, Outcome, Peer};
use tidegate_upstream::{
    FetchError, FetchSettings, LogContext, NextUpstream, OriginHead, OriginRequest, OriginResponse,
    RequestPayload, SharedReport, fetch,
};

use super::field::{self, PeerClaim, PeerTerms};
use super::peer_request::{self, PeerHead};
use super::purged::PurgedLately;
use super::remarks::PeerRemarks;
use super::{AskingMark, Ring};
use crate::cache::meta::tags_of;

/// The longest wait for a connection to a peer, and for its first sign.
const ALIVE_MAX: Duration = Duration::from_secs(1);

/// The wait behind the sign, in times that this server would wait for the origin itself. The owner may queue its request, or wait
/// for another one's before.
const PATIENCE: u32 = 2;

/// Bytes of the response's head for the field of the peer.
const FIELD_BYTES: usize = 4096;

/// A miss that asks peers.
pub(crate) struct PeerQuery {
    ring: Arc<Ring>,
    /// In the order in which they are asked.
    peers: Vec<Arc<Peer>>,
    head: PeerHead,
    settings: Arc<FetchSettings>,
    /// The longest wait for a response behind the sign.
    patience: Duration,
    main: Key,
    tag_headers: Vec<Box<[u8]>>,
    purged: Arc<PurgedLately>,
    /// The response is to be stored here as well.
    keeps: bool,
    _mark: AskingMark,
}

/// What a request is about, for [`PeerQuery::of`].
pub(crate) struct PeerQuestion<'a> {
    pub main: &'a Key,
    pub bypass: bool,
    pub keeps: bool,
    /// Those towards the origin.
    pub settings: &'a FetchSettings,
    /// Most servers of the origin that a request tries.
    pub tries: u32,
    pub tag_headers: &'a [Box<[u8]>],
    pub purged: &'a Arc<PurgedLately>,
}

/// The response of a peer.
pub(crate) struct PeerResponse {
    pub response: OriginResponse,
    /// How it may be stored; `None`: not at all.
    pub terms: Option<PeerTerms>,
    pub remarks: PeerRemarks,
    /// When the request to the origin began, or earlier, in Unix milliseconds.
    pub began: u64,
    /// It is to be stored here as well.
    pub keeps: bool,
    /// The ring that it came by.
    pub ring: Arc<Ring>,
}

impl PeerQuery {
    /// Makes the requests to these peers; `None` where the client's request has no form for them.
    pub(crate) fn of(
        x: &Exchange,
        ring: &Arc<Ring>,
        peers: &[Arc<Peer>],
        question: PeerQuestion<'_>,
    ) -> Option<PeerQuery> {
        let PeerQuestion { main, bypass, keeps, settings, tries, tag_headers, purged } = question;
        let key = *main.hash();
        let claim = PeerClaim {
            key,
            https: x.is_https(),
            bypass,
            client: Some(x.client_address().clone()),
        };
        let patience = patience(settings, tries);
        let settings = FetchSettings {
            connect_timeout: settings.connect_timeout.min(ALIVE_MAX),
            // The limit of `ask_one` comes first.
            head_timeout: Some(patience.saturating_add(ALIVE_MAX)),
            head_bytes_max: settings.head_bytes_max.saturating_add(FIELD_BYTES),
            next_upstream: NextUpstream::DEFAULT,
            next_upstream_tries: 1,
            next_upstream_timeout: Duration::ZERO,
            pass_trailers: false,
            ..settings.clone()
        };
        Some(PeerQuery {
            ring: ring.clone(),
            peers: peers.to_vec(),
            head: peer_request::head(x, ring, &claim)?,
            settings: Arc::new(settings),
            patience,
            main: main.clone(),
            tag_headers: tag_headers.to_vec(),
            purged: purged.clone(),
            keeps,
            _mark: AskingMark::new(&ring.kept, main),
        })
    }

    /// Asks the peers, one after the other; `None`: the origin is to be asked. The error is that of the owner, whose origin has
    /// failed.
    ///
    /// Cancelling: dropped with the fill's task, it closes the connection to the peer.
    pub(crate) async fn ask(
        self,
        report: SharedReport,
        log: LogContext,
    ) -> Option<Result<PeerResponse, FetchError>> {
        let figures = &self.ring.kept.figures;
        for peer in &self.peers {
            figures.asked.add(1);
            let asked_at = clock::unix_millis();
            let mut response = match self.ask_one(peer, &report, &log).await {
                Asked::Response(response) => response,
                Asked::Failed => {
                    figures.failures.add(1);
                    continue;
                }
                Asked::Late => {
                    figures.refused.add(1);
                    self.ring.complain(&log, peer, "has not responded in time", clock::now());
                    return None;
                }
            };
            let status = response.head.status;
            let headers = &mut response.head.headers;
            let value = headers.first_named(field::NAME);
            let remarks = value.map(PeerRemarks::read).unwrap_or_default();
            let field = value.and_then(PeerTerms::parse);
            headers.remove_named(field::NAME);
            if remarks.failed && matches!(status, 502 | 504) {
                figures.served.add(1);
                let what = format!("got no response of the origin (status {status})");
                self.ring.complain(&log, peer, &what, clock::now());
                return Some(Err(FetchError { status, invalid_header: false, request_body: None }));
            }
            let Some(terms) = field else {
                figures.refused.add(1);
                let what = match status {
                    421 => "has another key for the request: its configuration differs".to_owned(),
                    _ => format!("did not respond as a cache (status {status})"),
                };
                self.ring.complain(&log, peer, &what, clock::now());
                return None;
            };
            // What does not say its age may be of any.
            let age = terms.as_ref().map(|terms| terms.age).or(remarks.age);
            let began = asked_at.saturating_sub(age.unwrap_or(u64::MAX));
            let tags = tags_of(headers, &self.tag_headers);
            if !self.purged.allow(&self.main, &tags, began) {
                figures.outdated.add(1);
                return None;
            }
            figures.served.add(1);
            let PeerQuery { ring, keeps, .. } = self;
            return Some(Ok(PeerResponse { response, terms, remarks, began, keeps, ring }));
        }
        None
    }

    /// Asks one peer. Where it has failed, that counts against it.
    async fn ask_one(&self, peer: &Arc<Peer>, report: &SharedReport, log: &LogContext) -> Asked {
        let PeerHead { text, target } = self.head.clone();
        let alive = Rc::new(Alive(Cell::new(false)));
        let group = self.ring.group.clone();
        let head = (OriginHead::Text(text), target);
        let own = OriginRequest::own(group, Method::Get, head, RequestPayload::None, None);
        let choice = Choice::only(peer);
        let request = OriginRequest { choice, interim: Some(alive.clone()), ..own };
        let mut asking =
            Box::pin(fetch(request, self.settings.clone(), report.clone(), log.clone()));
        let deadline = Deadline::new();
        deadline.set(clock::now() + ALIVE_MAX);
        let mut was_alive = false;
        let asked = poll_fn(|context| {
            if let Poll::Ready(result) = asking.as_mut().poll(context) {
                return Poll::Ready(Some(result));
            }
            if alive.0.get() && !was_alive {
                was_alive = true;
                deadline.set_after(self.patience);
            }
            deadline.poll_elapsed(context).map(|()| None)
        });
        match asked.await {
            Some(Ok(response)) => Asked::Response(response),
            // The group knows of the failure, and the reason was logged.
            Some(Err(_)) => Asked::Failed,
            None => {
                drop(asking);
                let now = clock::now();
                if let Some(attempt) = report.borrow_mut().last() {
                    attempt.status = 504;
                    attempt.finished(now);
                }
                if was_alive {
                    return Asked::Late;
                }
                self.ring.group.report(peer, Outcome::Failure, now);
                self.ring.complain(log, peer, "gives no sign of life", now);
                Asked::Failed
            }
        }
    }
}

/// How asking a peer ended.
enum Asked {
    Response(OriginResponse),
    /// It has no response.
    Failed,
    /// It lives, and does not respond in time, which says nothing about it.
    Late,
}

/// Returns how long an owner that lives may take: longer than its origin, with the same configuration.
fn patience(settings: &FetchSettings, tries: u32) -> Duration {
    let FetchSettings { connect_timeout, send_timeout, read_timeout, .. } = settings;
    let once = connect_timeout.saturating_add(*send_timeout).saturating_add(*read_timeout);
    let tries = match settings.next_upstream_tries {
        0 => tries,
        most => tries.min(most),
    };
    once.saturating_mul(tries.max(1)).saturating_mul(PATIENCE)
}

/// Notes the first sign of a peer.
struct Alive(Cell<bool>);

impl Socketless for Alive {
    fn note_interim(&self) {
        self.0.set(true);
    }
}
