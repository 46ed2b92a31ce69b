//! The state of a timeline, its verdict, and their text forms.

use std::fmt::Write as _;

use super::cause::{CAUSES, Cause};

/// A timeline at one moment. All times are in microseconds; moments count from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The time from the start.
    pub total: u32,
    /// When the head had been read, if it has.
    pub head: Option<u32>,
    /// When there was a response, if there is one.
    pub response: Option<u32>,
    pub(super) spent: [u32; CAUSES],
    pub(super) ended: [u32; CAUSES],
}

/// The waits for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The cause.
    pub cause: Cause,
    /// Their sum, in microseconds.
    pub time: u32,
    /// When the last of them ended, in microseconds from the start.
    pub end: u32,
}

/// The cause that took most of a request's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The cause; `None` if none was long enough.
    pub cause: Option<Cause>,
    /// Its time in microseconds.
    pub time: u32,
}

/// Least time of a cause that is named, in microseconds.
pub(super) const NAMED_MICROS: u32 = 1000;
/// Least part of the whole time of a cause that is named: a tenth.
const NAMED_PART: u64 = 10;

impl View {
    /// Returns the causes for which the request has waited, in the order in which their last waits ended.
    pub fn waits(&self) -> Vec<Wait> {
        let all = Cause::ALL.into_iter().zip(self.spent).zip(self.ended);
        let mut waits: Vec<Wait> = all
            .filter(|((_, time), _)| *time > 0)
            .map(|((cause, time), end)| Wait { cause, time, end })
            .collect();
        waits.sort_by_key(|wait| wait.end);
        waits
    }

    /// Returns the cause that took most of the time: at least a millisecond, and a tenth of the whole.
    pub fn verdict(&self) -> Verdict {
        let named = Cause::ALL.into_iter().zip(self.spent);
        let named = named.filter(|(cause, _)| *cause != Cause::Other);
        // Of equal ones the first.
        let (cause, time) = named.fold((Cause::Other, 0), |most, one| match one.1 > most.1 {
            true => one,
            false => most,
        });
        let matters = time >= NAMED_MICROS && u64::from(time) * NAMED_PART >= u64::from(self.total);
        match matters {
            true => Verdict { cause: Some(cause), time },
            false => Verdict::default(),
        }
    }

    /// Appends the object of `$request_timeline`. Its times are in seconds, with microseconds.
    pub fn write_json(&self, out: &mut String) {
        let verdict = self.verdict();
        out.push_str("{\"total\":");
        write_seconds(self.total, out);
        let _ = write!(out, ",\"verdict\":\"{}\",\"share\":", verdict.name());
        write_seconds(verdict.time, out);
        for (name, moment) in [("head", self.head), ("response", self.response)] {
            if let Some(moment) = moment {
                let _ = write!(out, ",\"{name}\":");
                write_seconds(moment, out);
            }
        }
        out.push_str(",\"waits\":{");
        for (place, wait) in self.waits().iter().enumerate() {
            if place > 0 {
                out.push(',');
            }
            let _ = write!(out, "\"{}\":{{\"time\":", wait.cause.name());
            write_seconds(wait.time, out);
            out.push_str(",\"end\":");
            write_seconds(wait.end, out);
            out.push('}');
        }
        out.push_str("}}");
    }

    /// Returns the value of `Server-Timing` (W3C Server Timing, section 2.1), whose durations are in milliseconds: the
    /// whole time and the verdict, or with `all` every wait and the moments of head and response as well.
    pub fn server_timing(&self, all: bool) -> String {
        let verdict = self.verdict();
        let mut out = String::from("total;dur=");
        write_millis(self.total, &mut out);
        let _ = write!(out, ", verdict;desc=\"{}\";dur=", verdict.name());
        write_millis(verdict.time, &mut out);
        if all {
            if let Some(head) = self.head {
                out.push_str(", head;dur=");
                write_millis(head, &mut out);
            }
            for wait in self.waits() {
                let _ = write!(out, ", {};dur=", wait.cause.name());
                write_millis(wait.time, &mut out);
            }
        }
        out
    }
}

impl Verdict {
    /// Returns the word of `$request_verdict`.
    pub fn name(&self) -> &'static str {
        self.cause.map_or("none", Cause::name)
    }
}

/// Appends microseconds as seconds with six digits.
pub fn write_seconds(micros: u32, out: &mut String) {
    let _ = write!(out, "{}.{:06}", micros / 1_000_000, micros % 1_000_000);
}

/// Appends microseconds as milliseconds with three digits.
fn write_millis(micros: u32, out: &mut String) {
    let _ = write!(out, "{}.{:03}", micros / 1000, micros % 1000);
}
