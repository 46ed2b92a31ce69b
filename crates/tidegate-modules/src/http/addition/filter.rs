//! A body between the responses of two subrequests.

use tidegate_codec::Known;
use tidegate_codec::request::Method;
use tidegate_core::body::BodyError;
use tidegate_core::exchange::RangeSupport;
use tidegate_core::generated::{Yielder, generate};
use tidegate_core::subrequest::{Subrequest, SubrequestOptions};
use tidegate_core::{Body, Exchange};

use crate::http::gzip::weaken_etag;
use crate::http::media_types::MediaTypes;

/// The additions of a location.
#[derive(Debug)]
pub(super) struct AdditionFilter {
    pub before: Option<Vec<u8>>,
    pub after: Option<Vec<u8>>,
    pub types: MediaTypes,
}

impl AdditionFilter {
    pub(super) fn apply(&self, x: &mut Exchange, body: Body) -> Body {
        if x.disposition.status() != 200
            || x.is_subrequest()
            || matches!(body, Body::Tunnel(_))
            || !self.types.matches(x.response.headers.first(Known::ContentType))
        {
            return body;
        }
        let response = &mut x.response;
        response.content_length = None;
        response.ranges = RangeSupport::None;
        response.headers.remove(Known::ContentLength);
        response.headers.remove(Known::AcceptRanges);
        weaken_etag(&mut response.headers);
        if x.request.head.method == Method::Head {
            // No body is sent to HEAD, so no subrequest is made. A stream has no known length either.
            return generate(|_| async { Ok(()) });
        }
        let before = self.before.as_deref().and_then(|path| part(x, path));
        let after = self.after.as_deref().and_then(|path| part(x, path));
        generate(|out| joined(out, before, body, after))
    }
}

/// Makes the subrequest for one addition; `None` if the limit on subrequests is reached, which is logged.
fn part(x: &mut Exchange, path: &[u8]) -> Option<Subrequest> {
    x.subrequest(path.to_vec(), Vec::new(), SubrequestOptions::default()).ok()
}

/// Sends the parts one after the other; the response's trailers are those of the body. A part that fails fails the
/// whole response. Dropped at an await, the subrequest in progress ends, and the one behind it is not begun.
/// Sources: `add_before_body`, `add_after_body`.
async fn joined(
    out: Yielder,
    before: Option<Subrequest>,
    mut body: Body,
    after: Option<Subrequest>,
) -> Result<(), BodyError> {
    if let Some(before) = before {
        copy(&mut before.run().await.into_body(), &out).await?;
    }
    copy(&mut body, &out).await?;
    let trailers = body.trailers();
    drop(body);
    if let Some(after) = after {
        copy(&mut after.run().await.into_body(), &out).await?;
    }
    out.set_trailers(trailers);
    Ok(())
}

async fn copy(body: &mut Body, out: &Yielder) -> Result<(), BodyError> {
    while let Some(chunk) = body.next().await {
        out.put(chunk?).await;
    }
    Ok(())
}
