//! Renewal information: when the server suggests to renew a certificate (RFC 9773 section 4.2).

use crate::json::{Malformed, Object, printable};
use crate::time::Time;

/// The suggested time of a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renewal {
    pub start: Time,
    pub end: Time,
    /// A page that explains the suggestion, for the log.
    pub explanation: Option<String>,
}

impl Renewal {
    pub(crate) fn parse(body: &[u8]) -> Result<Renewal, Malformed> {
        let object = Object::parse("renewal information", body)?;
        let window = object.member("suggestedWindow");
        let window = window.ok_or_else(|| object.fault("suggestedWindow", "it is missing"))?;
        let window = Object::of("renewal information", window)?;
        let moment = |name| window.time(name)?.ok_or_else(|| window.fault(name, "it is missing"));
        let (start, end) = (moment("start")?, moment("end")?);
        // Such a window is to be treated as no window (RFC 9773 section 4.3.3).
        if end <= start {
            return Err(object.fault("suggestedWindow", "its end is not after its start"));
        }
        let explanation = object.text("explanationURL")?.map(printable);
        Ok(Renewal { start, end, explanation })
    }
}
