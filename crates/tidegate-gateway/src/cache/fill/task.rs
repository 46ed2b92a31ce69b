//! The detached task of a fill: sends the request, decides about the head, stores the body and feeds all readers. It
//! belongs to no client: it continues when clients leave.
//!
//! ```text
//!   start ──► fetch ──► failed ──────────────► the stale object, or the failure
//!               │
//!               └─────► response ──► Renew ──► the stored object, fresh again (RFC 9111 section 4.3.4)
//!                           ├──────► ServeStale ► the stored object
//!                           ├──────► Pass ──► the response, not stored
//!                           └──────► Store ─► head published, `pump` copies the body to its end
//! ```
//! It owns the decision about the response ([`OriginDecision`]); the request gets the result as one [`FillEvent`].
//! The head is sent to the request once, and before it is published, where `proxy_no_cache` has to be evaluated with
//! it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_cache::{FillReader, FillWriter, Key, OpenEntry, Store, Times};
use tidegate_codec::caching::rfc9111::reuse::RequestTerms;
use tidegate_codec::caching::write_variant;
use tidegate_codec::request::Method;
use tidegate_codec::response::ResponseHead;
use tidegate_codec::{Headers, Known, connection};
use tidegate_core::timeline::{self, TimelineRef};
use tidegate_core::{Body, Exchange};
use tidegate_rt::clock;
use tidegate_rt::sync::{mpsc, oneshot};
use tidegate_rt::timer;
use tidegate_rt::worker::spawn_local;
use tidegate_upstream::{FetchError, OriginBody, OriginResponse, fetch};

use crate::cache::config::settings::CacheSettings;
use crate::cache::decide::decision::{
    Failure, HeadKind, OriginDecision, OriginResult, OriginVerdict,
};
use crate::cache::decide::policy::{OriginExchange, Refusal, Storable};
use crate::cache::figures::CacheFigures;
use crate::cache::fill::from_peer::FromPeer;
use crate::cache::fill::origin::{
    OriginFetch, OriginRequester, Resume, length_of, may_leave_readers_behind,
};
use crate::cache::fill::pump::{FilledCache, pump};
use crate::cache::fill::uncacheable::let_others_ask;
use crate::cache::meta::{Meta, new_variant_set, tags_of};
use crate::cache::ranges::object::PartialObject;
use crate::cache::ring::Ring;
use crate::cache::ring::ask::PeerQuery;
use crate::cache::status::CacheStatus;
use crate::cache::tier::CacheTier;

/// Types of responses that go on for as long as their client stays.
const LIVE_TYPES: [&[u8]; 2] = [b"text/event-stream", b"multipart/x-mixed-replace"];

/// The parameters of a fill, copied from the request that began it; they refer to no exchange.
pub(crate) struct FillTask {
    pub store: Store,
    pub figures: Arc<CacheFigures>,
    pub main: Key,
    /// The fields by which the fill's key was chosen; empty when it is the main key.
    pub names: Vec<Vec<u8>>,
    /// See [`Meta`]; 0 when the main key had no object.
    pub variant_set: u64,
    /// When the request was sent, in Unix milliseconds.
    pub requested_at: u64,
    pub cache: Arc<CacheSettings>,
    /// The only decision about this fetch; the request that began the fill has none.
    pub decision: OriginDecision,
    /// The client's fields, by which variants are distinguished.
    pub client_fields: Headers,
    /// The request to the origin is conditional, by the validators of `stale`.
    pub conditional: bool,
    /// `proxy_no_cache` applies by the request alone: its response is not stored.
    pub refused: bool,
    /// The key has too few uses for a response of the origin to be stored.
    pub too_early: bool,
    pub stale: Option<OpenEntry>,
    /// Generation of `stale`.
    pub generation: Option<u64>,
    /// The head of an object of which only parts are stored.
    pub parts: Option<OpenEntry>,
    /// The second tier.
    pub tier: Option<Arc<CacheTier>>,
    /// It may have the response.
    pub asks_tier: bool,
    /// The owners of the key, which are asked in front of tier and origin.
    pub peers: Option<PeerQuery>,
    /// The request's terms, with `proxy_cache_rfc9111`.
    pub terms: Option<RequestTerms>,
    /// That of the request, which waits for the head.
    pub timeline: Option<TimelineRef>,
}

/// The events of a fill for the request that began it.
pub(crate) enum FillEvent {
    /// The origin's head has arrived, and `proxy_no_cache` has conditions that only the request can evaluate: may the
    /// response be stored? The task waits for the reply; a request that has gone stores nothing.
    Head(ResponseHead, oneshot::Sender<bool>),
    /// The response is being stored: read it.
    Follow(FillReader, CacheStatus),
    /// The response is not stored, nor would it be for other requests (`unstorable`).
    Pass {
        response: OriginResponse,
        status: CacheStatus,
        unstorable: bool,
    },
    /// The stored object, perhaps fresh again.
    Serve(OpenEntry, CacheStatus),
    Failed(FetchError, CacheStatus),
}

/// The channel to the request that began a fill.
pub(crate) type FillEventSender = mpsc::Sender<FillEvent>;

/// Returns the next event of a fill's task; `None` when the client has left.
pub(crate) async fn next_event(
    x: &Exchange,
    events: &mut mpsc::Receiver<FillEvent>,
) -> Option<FillEvent> {
    let client = &x.client;
    let watch = !x.is_subrequest();
    poll_fn(|context| {
        if let Poll::Ready(event) = events.poll_recv(context) {
            return Poll::Ready(event);
        }
        if watch && client.poll_closed(context).is_ready() {
            return Poll::Ready(None);
        }
        timeline::waits_as_before();
        Poll::Pending
    })
    .await
}

/// Starts a fill on this thread. `to` is `None` for a background fill.
pub(crate) fn start(
    origin_fetch: OriginFetch,
    task: FillTask,
    writer: FillWriter,
    to: Option<FillEventSender>,
) {
    task.figures.fill_begun();
    // The handle is not kept: the task ends by itself, and dropping a handle does not end it.
    drop(spawn_local(run(origin_fetch, task, writer, to)));
}

async fn run(
    origin_fetch: OriginFetch,
    mut task: FillTask,
    writer: FillWriter,
    to: Option<FillEventSender>,
) {
    let is_head = origin_fetch.request.method == Method::Head;
    let origin = OriginRequester::of(&origin_fetch);
    let timeline = task.timeline.take().filter(|_| to.is_some());
    match task.ask_peers(&origin_fetch, timeline.clone()).await {
        Some(Ok(found)) => return task.handle_peer(found, origin, writer, to).await,
        Some(Err(error)) => return task.handle_failure(error, writer, to).await,
        None => {}
    }
    let asking = task.ask_tier(&writer, origin.as_ref()).filter(|_| !is_head);
    let result = match asking {
        None => {
            let OriginFetch { request, settings, report, log } = origin_fetch;
            timeline::beside(timeline, fetch(request, settings, report, log)).await
        }
        Some((tier, asking)) => {
            let racing = task.race(&tier, asking, origin_fetch, to.as_ref());
            match timeline::beside(timeline, Box::pin(racing)).await {
                Ok(found) => return task.store_found(*found, origin, writer, to).await,
                Err(result) => result,
            }
        }
    };
    match result {
        Err(error) => task.handle_failure(error, writer, to).await,
        Ok(response) => {
            let received =
                OriginReply { response, is_head, origin, at: clock::unix_millis(), peer: None };
            task.handle_response(received, writer, to).await;
        }
    }
}

/// An origin's response.
pub(super) struct OriginReply {
    pub response: OriginResponse,
    /// The request was HEAD.
    pub is_head: bool,
    /// The means to request the rest of it.
    pub origin: Option<OriginRequester>,
    /// When it arrived, in Unix milliseconds.
    pub at: u64,
    /// Where it came from, if it is one of a peer.
    pub peer: Option<FromPeer>,
}

/// What is published of a response, and where it comes from.
pub(super) struct Published {
    pub meta: Meta,
    pub times: Times,
    /// Bytes of the body, if known.
    pub length: Option<u64>,
    pub from: Source,
}

/// Where a response comes from.
pub(super) enum Source {
    Origin,
    Tier,
    /// A peer, whose response is stored here as well, or not.
    Peer {
        ring: Arc<Ring>,
        keeps: bool,
        /// The status of a response that is stale there.
        stale: Option<CacheStatus>,
    },
}

/// Sends an event to the request that began the fill, if it still exists.
async fn send_event(to: Option<&FillEventSender>, event: FillEvent) {
    if let Some(to) = to {
        let _ = to.send(event).await;
    }
}

/// Asks the request that began the fill whether a response with this head may be stored; `None` when it has gone.
pub(super) async fn may_store(head: &ResponseHead, to: Option<&FillEventSender>) -> Option<bool> {
    let (verdict, decided) = oneshot::channel();
    to?.send(FillEvent::Head(head.clone(), verdict)).await.ok()?;
    decided.await.ok()
}

impl FillTask {
    async fn handle_failure(
        &mut self,
        error: FetchError,
        writer: FillWriter,
        to: Option<FillEventSender>,
    ) {
        let failure = match error.status {
            504 => Failure::Timeout,
            _ if error.invalid_header => Failure::InvalidHeader,
            _ => Failure::Error,
        };
        let verdict = self.verdict(OriginResult::Failed(failure));
        let_others_ask(&self.store, &self.cache.rules, writer.fill().key());
        writer.abort("no response from the origin");
        let event = match (verdict, self.stale.take()) {
            (OriginVerdict::ServeStale, Some(stale)) => FillEvent::Serve(stale, CacheStatus::Stale),
            _ => FillEvent::Failed(error, self.decision.status()),
        };
        send_event(to.as_ref(), event).await;
    }

    /// Handles the origin's response: makes the verdict, once, and carries it out.
    ///
    /// Invariant: whatever the verdict, the writer is consumed (stored, aborted or released), so that no waiter of
    /// this fill waits in vain; and the request that began it gets one final event.
    ///
    /// Cancelling: no client cancels it. A request that leaves while it evaluates `proxy_no_cache` stores nothing; at
    /// every other await its leaving changes nothing.
    pub(super) async fn handle_response(
        &mut self,
        received: OriginReply,
        writer: FillWriter,
        to: Option<FillEventSender>,
    ) {
        let OriginReply { response, is_head, origin, at: now, peer } = received;
        let status = response.head.status;
        let mut stored = match &peer {
            None if self.too_early => Err(Refusal::TooEarly),
            None => self.judge(&response, now),
            Some(peer) => peer.judge(now),
        };
        if stored.is_ok() && !self.cache.no_cache.is_empty() {
            match may_store(&response.head, to.as_ref()).await {
                Some(true) => {}
                Some(false) => stored = Err(Refusal::RequestFields),
                // The conditions cannot be evaluated, and no client waits. One of the others begins anew.
                None => return writer.abort("the client left before the response"),
            }
        }
        // A 304 counts only as the response to the cache's own condition.
        let renews = self.conditional && status == 304 && self.stale.is_some() && peer.is_none();
        let kind = match &stored {
            _ if renews => HeadKind::NotModified,
            Ok(_) => HeadKind::Storable,
            Err(_) => HeadKind::NotStorable,
        };
        let verdict = self.verdict(OriginResult::Head { status, kind });
        match (verdict, stored, self.stale.take()) {
            (OriginVerdict::Renew, _, Some(stale)) => {
                let entry = self.renew(&stale, &response.head.headers, &writer, now).await;
                writer.abort("the stored response is still valid");
                send_event(to.as_ref(), FillEvent::Serve(entry, CacheStatus::Revalidated)).await;
            }
            (OriginVerdict::ServeStale, _, Some(stale)) => {
                let_others_ask(&self.store, &self.cache.rules, writer.fill().key());
                writer.abort("the stored response is used instead");
                send_event(to.as_ref(), FillEvent::Serve(stale, CacheStatus::Stale)).await;
            }
            (OriginVerdict::Store, Ok(stored), _) => {
                let writer = self.unshared_if_live(&response.head, writer, now);
                let received = OriginReply { response, is_head, origin, at: now, peer };
                self.store(received, stored, writer, to).await;
            }
            // Not stored: the waiters are released, and later requests do not wait for a while if none may be stored.
            (_, stored, _) => {
                let unstorable = stored.is_err_and(|refusal| self.is_about_all(refusal));
                if unstorable {
                    self.mark_uncacheable(status, &writer, now);
                }
                writer.release();
                let stale = peer.and_then(|peer| peer.stale());
                let cache_status = stale.unwrap_or(self.decision.status());
                let event = FillEvent::Pass { response, status: cache_status, unstorable };
                send_event(to.as_ref(), event).await;
            }
        }
    }

    fn verdict(&self, result: OriginResult) -> OriginVerdict {
        self.decision.verdict(&self.cache.rules, result)
    }

    fn judge(&self, response: &OriginResponse, now: u64) -> Result<Storable, Refusal> {
        let head = &response.head;
        let redirects =
            head.headers.contains(Known::XAccelRedirect) && !self.cache.ignored.redirect;
        if redirects || matches!(response.body, OriginBody::Upgraded(_)) {
            return Err(Refusal::Status);
        }
        self.decide(head.status, &head.headers, now)
    }

    pub(super) fn decide(
        &self,
        status: u16,
        headers: &Headers,
        now: u64,
    ) -> Result<Storable, Refusal> {
        let (request, requested_at) = (&self.client_fields, self.requested_at);
        self.cache.decide(OriginExchange { request, requested_at, status, headers }, now)
    }

    /// Lets no other request read a live response (events, the pictures of a camera): each client gets its own, which
    /// begins when the client comes.
    fn unshared_if_live(&self, head: &ResponseHead, writer: FillWriter, now: u64) -> FillWriter {
        let content_type = head.headers.first(Known::ContentType).unwrap_or_default();
        let media_type = content_type.split(|byte| matches!(byte, b';' | b' ')).next();
        let media_type = media_type.unwrap_or_default();
        if !LIVE_TYPES.iter().any(|live| live.eq_ignore_ascii_case(media_type)) {
            return writer;
        }
        self.mark_uncacheable(head.status, &writer, now);
        let own = self.store.begin_fill_beside_for(writer.fill());
        writer.release();
        own
    }

    /// Publishes the head and copies the body to its end.
    ///
    /// The order matters: the object's key, its parts and the readers' means to continue without the fill are set
    /// before the head is published, since readers start with the head.
    async fn store(
        &self,
        received: OriginReply,
        stored: Storable,
        writer: FillWriter,
        to: Option<FillEventSender>,
    ) {
        let OriginReply { response, is_head, origin, at: now, peer } = received;
        let length = length_of(&response);
        let OriginResponse { head, body, .. } = response;
        let mut variant = Vec::new();
        write_variant(&stored.vary, &self.client_fields, &mut variant);
        let requested_at = peer.as_ref().map_or(writer.fill().started_at(), |peer| peer.began);
        let writer = self.at_current_key(&stored.vary, writer, now).await;
        let announced = head.headers.first(Known::ContentLength).and_then(connection::parse_length);
        let head_length = if is_head { Some(announced.unwrap_or(0)) } else { None };
        let Storable { times, must_revalidate, vary } = stored;
        let mut meta =
            Meta::of(head.status, head.reason(), &head.headers, vary, variant, head_length);
        meta.variant_set =
            if self.variant_set == 0 { new_variant_set(now) } else { self.variant_set };
        meta.requested_at = requested_at;
        meta.tags = tags_of(&meta.headers, &self.cache.tag_headers);
        if self.cache.rfc9111 {
            meta.make_rfc9111(must_revalidate, now);
        }
        let resume = origin.and_then(|origin| match peer {
            None => Resume::of(origin, &head, length),
            Some(_) => Resume::of_other(origin, &head, length),
        });
        self.adopt_parts(&writer, resume.as_ref());
        let from = match peer {
            None => Source::Origin,
            Some(peer) => peer.source(times, now),
        };
        let published = Published { meta, times, length, from };
        self.publish(published, body.into_body(), resume, (writer, to), now).await;
    }

    /// Publishes a head, notifies the request and copies the body.
    pub(super) async fn publish(
        &self,
        published: Published,
        body: Body,
        resume: Option<Resume>,
        (writer, to): (FillWriter, Option<FillEventSender>),
        now: u64,
    ) {
        let Published { meta, times, length, from } = published;
        if let Some(resume) = resume.as_ref().filter(|_| may_leave_readers_behind(length)) {
            resume.origin().attach(writer.fill());
        }
        if let (Some(tier), Source::Origin) = (&self.tier, &from) {
            tier.begun(writer.fill().key());
        }
        writer.publish_head(meta.encode(), times, length, now);
        let status = match &from {
            Source::Peer { stale: Some(status), .. } => *status,
            _ => self.decision.status(),
        };
        let reader = to.is_some().then(|| writer.fill().reader(0));
        if let Some(reader) = reader {
            send_event(to.as_ref(), FillEvent::Follow(reader, status)).await;
        }
        drop(to);
        let (store, figures) = (self.store.clone(), self.figures.clone());
        let key = writer.fill().key().clone();
        let keeps = !matches!(from, Source::Peer { keeps: false, .. });
        let cache = FilledCache { store, figures, status, keeps };
        let is_stored = pump(writer, body, resume, cache).await;
        if is_stored {
            self.note_stored(from, &key);
        }
    }

    /// Sets the id of the stored parts of the same object, so that the fill takes them up.
    fn adopt_parts(&self, writer: &FillWriter, resume: Option<&Resume>) {
        let key = writer.fill().key();
        let object = self.parts.as_ref().and_then(|entry| PartialObject::stored(key, entry));
        if let (Some(object), Some(resume)) = (object, resume)
            && *resume.identity() == object.identity
        {
            writer.fill().parts_id_or(object.id);
        }
    }

    /// Moves a variant whose origin has changed the fields that tell variants apart to the main key, where the next
    /// request finds them.
    pub(super) async fn at_current_key(
        &self,
        vary: &[Vec<u8>],
        writer: FillWriter,
        now: u64,
    ) -> FillWriter {
        if self.names.is_empty() || self.names == vary {
            return writer;
        }
        let moved = begin_after_placing(&self.store, &self.main, now).await;
        writer.release();
        moved
    }
}

/// Begins to fill a key that may have a running fill. If a complete fill of this key is being stored, waits up to
/// [`PLACING_MAX`] for it, so that later requests find the new fill; otherwise starts an unshared one.
pub(crate) async fn begin_after_placing(store: &Store, key: &Key, now: u64) -> FillWriter {
    let mut begun = store.begin_fill(key, now);
    if let Some(placing) = begun.as_ref().err().filter(|fill| fill.has_last_byte()) {
        let _ = timer::timeout(PLACING_MAX, placing.placed()).await;
        begun = store.begin_fill(key, now);
    }
    begun.unwrap_or_else(|_| store.begin_fill_beside(key, now))
}

/// The longest that a head waits while another object is stored: a slow disk must not delay it.
const PLACING_MAX: Duration = Duration::from_millis(20);
