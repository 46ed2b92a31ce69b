//! `grpc_web`: requests of browsers in gRPC-Web are passed on as gRPC, and the responses as gRPC-Web.
//!
//! The frames of messages are the same in both, so they pass as they arrive; base64 is undone and done piece by piece.
//! `Content-Type` and `TE` change, and the trailers of a response become its last frame. Other requests of the
//! location, and responses that are not gRPC's, are not changed.

mod request;
mod response;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_codec::grpc_web::{self, ContentType};
use tidegate_codec::request::Method;
use tidegate_codec::{Headers, Known};
use tidegate_core::{Body, Exchange};
use tidegate_upstream::FieldWriter;

pub(super) use request::payload;

use super::settings::GrpcSettings;
use response::WebBody;

/// Returns the type of a request in gRPC-Web that is to be translated.
pub(super) fn request_type<'x>(
    x: &'x Exchange,
    settings: &GrpcSettings,
) -> Option<ContentType<'x>> {
    if !settings.web || x.request.method != Method::Post {
        return None;
    }
    ContentType::parse(x.request.head.headers.first(Known::ContentType)?)
}

/// Returns whether the request of a location with `grpc_pass` is to be translated: its server sends trailers then.
pub(super) fn is_translated(x: &Exchange) -> bool {
    let location = x.location_ref();
    let settings = location.extensions.of::<Arc<GrpcSettings>>();
    settings.is_some_and(|settings| request_type(x, settings).is_some())
}

/// Writes the fields of a request with the `Content-Type` of gRPC.
pub(super) struct WebFields<W> {
    pub writer: W,
    pub content_type: Vec<u8>,
}

impl<W: FieldWriter> FieldWriter for WebFields<W> {
    fn begin(&mut self, name: &[u8]) -> (&mut Vec<u8>, usize) {
        self.writer.begin(name)
    }

    fn end(&mut self, name: &[u8]) {
        self.writer.end(name);
    }

    fn field(&mut self, known: Known, name: &[u8], value: &[u8]) {
        match known {
            Known::ContentType => self.writer.field(known, name, &self.content_type),
            _ => self.writer.field(known, name, value),
        }
    }
}

/// Translates a response: its `Content-Type` changes, and the trailers become the body's last frame. The length, where
/// the server announced one, does not hold any more.
pub(super) fn respond(x: &mut Exchange, settings: &GrpcSettings, body: Body) -> Body {
    let Some(sent) = request_type(x, settings) else { return body };
    let is_text = grpc_web::wants_text(x.request.head.headers.first(Known::Accept), sent);
    let fields = &mut x.response.headers;
    let own = fields.first(Known::ContentType);
    let Some(made) = own.and_then(|own| grpc_web::response_type(own, is_text)) else { return body };
    fields.set_known(Known::ContentType, &made);
    match body {
        // A response without a message has its status in the head.
        Body::Empty => Body::Empty,
        body => {
            x.response.content_length = None;
            x.delivery.expects_trailers = false;
            Body::Stream(Box::new(WebBody::new(body, is_text)))
        }
    }
}

/// Returns the last frame of a response; without trailers there is none.
fn trailer_frame(trailers: Option<&Headers>) -> Option<Vec<u8>> {
    let trailers = trailers.filter(|trailers| !trailers.is_empty())?;
    let mut frame = Vec::with_capacity(trailers.text().len() + 64);
    grpc_web::write_trailers(trailers, &mut frame);
    Some(frame)
}
