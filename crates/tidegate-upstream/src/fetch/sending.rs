//! The part of a request that is still being sent while its response is awaited.

use std::io;
use std::task::{Context, Poll, ready};

use crate::h1::send::{SendError, Upload, UploadEnd};

/// A request on its way to an origin.
pub(crate) struct Sending {
    upload: Option<Upload>,
    /// The origin reads no more of it. A response may have arrived before.
    failure: Option<io::Error>,
    /// The connection has served other requests.
    reused: bool,
}

impl Sending {
    /// Continues behind the first write.
    ///
    /// # Errors
    /// Nothing could be sent on a connection that has served other requests: received bytes belong to none of them,
    /// so they are not parsed.
    pub(super) fn begun(
        begun: Result<Option<Upload>, SendError>,
        reused: bool,
    ) -> Result<Sending, SendError> {
        match begun {
            Ok(upload) => Ok(Sending { upload, failure: None, reused }),
            Err(SendError::Origin(error)) if !reused => {
                Ok(Sending { upload: None, failure: Some(error), reused })
            }
            Err(error) => Err(error),
        }
    }

    /// Continues sending. Ready once, when all is sent or sending has failed.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<UploadEnd> {
        let Some(upload) = &mut self.upload else { return Poll::Pending };
        let mut end = ready!(upload.as_mut().poll(context));
        self.upload = None;
        if end.sent > 0 || !self.reused {
            end.result = match end.result {
                Err(SendError::Origin(error)) => {
                    self.failure = Some(error);
                    Ok(())
                }
                result => result,
            };
        }
        Poll::Ready(end)
    }

    /// Returns whether bytes are left to be sent.
    pub(super) fn is_under_way(&self) -> bool {
        self.upload.is_some()
    }

    /// Returns why the origin has not received all of the request, if it has stopped reading it.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Returns the rest to be sent beside the response's body.
    pub(super) fn into_upload(self) -> Option<Upload> {
        self.upload
    }
}
