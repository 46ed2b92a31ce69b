//! The part of a request that is still being sent while its answer is awaited, and what became of it.

use std::io;
use std::task::{Context, Poll, ready};

use crate::h1::send::{SendError, Upload, UploadEnd};

/// A request on its way to an origin.
pub(crate) struct Sending {
    upload: Option<Upload>,
    /// The origin has stopped to take it. An answer may have come before.
    failure: Option<io::Error>,
    /// The connection has served other requests.
    reused: bool,
}

impl Sending {
    /// Goes on behind the first write.
    ///
    /// # Errors
    /// Nothing could be sent on a connection that has served other requests: what may have come on it belongs to
    /// none of them, so it is not looked at.
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

    /// Sends on. Ready once, when all is sent or nothing more can be.
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

    /// Bytes are left to be sent.
    pub(super) fn is_under_way(&self) -> bool {
        self.upload.is_some()
    }

    /// Why the origin has not got all of the request, if it has stopped to take it.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// What is left to be sent beside the answer's body.
    pub(super) fn into_upload(self) -> Option<Upload> {
        self.upload
    }
}
