//! One health check of one server by the gRPC health checking protocol (`type=grpc`): a call of
//! `grpc.health.v1.Health/Check`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_rt::clock;
use tidegate_upstream::care::checks::{CheckFailure, Probe};
use tidegate_upstream::{
    CollectError, FieldWriter, HeadList, ListFields, OriginHead, OriginRequest, OriginResponse,
    Peer, RequestPayload, Wire,
};

use super::common::{CheckedServers, ProbeError, fetch, limited, write_fields};
use super::serving::{ServingState, encode_request};
use crate::grpc::call::status_of;
use crate::grpc::settings::GrpcSettings;

/// A health check by gRPC.
pub(super) struct GrpcProbe {
    settings: Arc<GrpcSettings>,
    /// The request's frame.
    message: Vec<u8>,
    /// A further status that passes (`grpc_status`).
    passing_status: Option<u32>,
    servers: CheckedServers,
}

/// Method and path of the request line.
const LINE: &[u8] = b"POST /grpc.health.v1.Health/Check";
/// Offset of the path in [`LINE`].
const PATH_START: usize = 5;

/// Bytes of a response. Its message has two bytes besides unknown fields.
const BODY_BYTES_MAX: usize = 16 * 1024;

impl Probe for GrpcProbe {
    fn check(
        self: Arc<Self>,
        peer: Arc<Peer>,
    ) -> Pin<Box<dyn Future<Output = Result<(), CheckFailure>>>> {
        Box::pin(async move { limited(&self.settings.gateway.fetch, self.send(&peer)).await })
    }
}

impl GrpcProbe {
    pub(super) fn new(
        settings: Arc<GrpcSettings>,
        service: &str,
        passing_status: Option<u32>,
        servers: CheckedServers,
    ) -> GrpcProbe {
        GrpcProbe { settings, message: encode_request(service), passing_status, servers }
    }

    /// Makes the call. It passes when the service is serving, or with the status that the configuration lets pass,
    /// whose response needs no message.
    ///
    /// Cancelling: the limit in `check` and the end of the plan drop this at any await, which resets the stream.
    async fn send(&self, peer: &Arc<Peer>) -> Result<(), ProbeError> {
        let request = self.request(peer, clock::now());
        let OriginResponse { head, body, .. } =
            fetch(request, &self.settings.gateway, &self.servers).await?;
        if head.status != 200 {
            return Err(ProbeError::Status(head.status));
        }
        let collected = body.collect(BODY_BYTES_MAX).await;
        let (message, trailers) = collected.map_err(|error| match error {
            CollectError::Upgraded => ProbeError::Upgraded,
            CollectError::Broken => ProbeError::Incomplete,
            CollectError::TooLong => ProbeError::InvalidMessage,
        })?;
        // A response without a message may have its status in the head.
        let status = trailers.as_ref().and_then(status_of).or_else(|| status_of(&head.headers));
        match status {
            Some(status) if self.passing_status == Some(status) => Ok(()),
            Some(0) => match ServingState::of(&message).ok_or(ProbeError::InvalidMessage)? {
                ServingState::Serving => Ok(()),
                state => Err(ProbeError::NotServing(state.name())),
            },
            status => Err(ProbeError::GrpcStatus(status)),
        }
    }

    /// Makes the request with the fields of `grpc_set_header` that need no client's request, and those that each call
    /// has.
    fn request(&self, peer: &Arc<Peer>, now: Instant) -> OriginRequest {
        let settings = &self.settings;
        let host = settings.pass.fixed_host();
        let target = PATH_START..LINE.len();
        let mut list = HeadList::new(LINE, target.clone());
        let own = [Known::Te, Known::ContentType];
        write_fields(&settings.fields, &own, host, ListFields::new(&mut list));
        let mut fields = ListFields::new(&mut list);
        fields.field(Known::Te, b"te", b"trailers");
        fields.field(Known::ContentType, b"content-type", b"application/grpc");
        let group = self.servers.group(peer, now);
        let head = (OriginHead::List(Box::new(list)), target);
        let payload = RequestPayload::Bytes(self.message.clone().into());
        let tls = settings.tls.as_ref().map(|tls| tls.fixed_target(host));
        OriginRequest {
            reuse: self.servers.reuse(),
            wire: Wire::Http2 { grpc: true },
            ..OriginRequest::own(group, Method::Post, head, payload, tls)
        }
    }
}
