//! Which handler comes next: a request's place among the phases, without waiting and without running
//! anything itself, so that what a waiting request keeps of it is a few words.

use tidegate_codec::Known;

use crate::error_log::Level;
use crate::exchange::{Exchange, PathState};
use crate::handler::{Handler, Phase};
use crate::plan::{Location, Plan};
use crate::refused::Refused;
use crate::step::{Jump, Step};

/// A request's place on its way through the phases.
pub(crate) struct PhaseCursor<'p> {
    plan: &'p Plan,
    phase: Phase,
    /// The location whose handlers run: one that is switched to meanwhile (`if`) counts from the next
    /// phase on.
    location: &'p Location,
    /// Handlers of the phase that have run.
    ran: usize,
    /// The location's own content handler is to run before those of the phase.
    own_content: bool,
    /// What the access phase refused with so far (`satisfy any`).
    refused: Option<u16>,
}

/// What is to be done next.
pub(crate) enum Next<'p> {
    /// Run this, then tell [`PhaseCursor::after`].
    Run(&'p Handler),
    /// Take note of the end of a body without bytes: nobody else will, yet its sender waits for the word
    /// (RFC 9110 section 10.1.1).
    EndBody,
    End(Step<'static>),
}

impl<'p> PhaseCursor<'p> {
    /// Starts at `phase` in the request's present location.
    pub(crate) fn new(x: &Exchange, plan: &'p Plan, phase: Phase) -> PhaseCursor<'p> {
        let location = plan.location(x.routing.location);
        let mut cursor =
            PhaseCursor { plan, phase, location, ran: 0, own_content: false, refused: None };
        cursor.enter(x, phase);
        cursor
    }

    /// The next handler of this or the phases behind it, or the end where there is none.
    #[inline]
    pub(crate) fn next(&mut self, x: &mut Exchange) -> Next<'p> {
        loop {
            if self.own_content {
                if x.request.expects_continue && x.request.body.is_unread_and_empty() {
                    return Next::EndBody;
                }
                match &self.location.content {
                    Some(handler) => return Next::Run(handler),
                    None => self.own_content = false,
                }
            }
            if let Some(handler) = self.location.handlers(self.phase).get(self.ran) {
                self.ran += 1;
                return Next::Run(handler);
            }
            if let Some(end) = self.leave(x) {
                return Next::End(end);
            }
        }
    }

    /// What a handler's answer means: the end of the way, or `None` to go on.
    #[inline]
    pub(crate) fn after(&mut self, x: &mut Exchange, step: Step<'static>) -> Option<Step<'static>> {
        if std::mem::take(&mut self.own_content) {
            return match step {
                // A directory, for a handler of files: as where the location had none.
                Step::Decline => None,
                Step::Next => Some(Step::Status(404)),
                step => Some(step),
            };
        }
        let satisfy_any = self.phase == Phase::Access && self.location.settings.satisfy_any;
        match step {
            Step::Decline => None,
            Step::Next => {
                if satisfy_any {
                    self.refused = None;
                    self.ran = usize::MAX;
                    // The challenge of a module that would have refused.
                    x.response.headers.remove(Known::WwwAuthenticate);
                }
                None
            }
            Step::Status(status @ (401 | 403)) if satisfy_any => {
                if self.refused != Some(401) {
                    self.refused = Some(status);
                }
                None
            }
            step => Some(step),
        }
    }

    /// Whether the verdict on who may come in is being found.
    pub(crate) fn is_at_access(&self) -> bool {
        matches!(self.phase, Phase::Access | Phase::PostAccess)
    }

    /// The next phase behind the rewrites in which there is something to do: most locations have nothing
    /// before the content.
    fn first_with_handlers(&self, x: &Exchange) -> Phase {
        let location = self.plan.location(x.routing.location);
        let between = [Phase::Preaccess, Phase::Access, Phase::Precontent];
        match between.into_iter().all(|phase| location.handlers(phase).is_empty()) {
            true => Phase::Content,
            false => Phase::Preaccess,
        }
    }

    fn enter(&mut self, x: &Exchange, phase: Phase) {
        self.phase = phase;
        self.location = self.plan.location(x.routing.location);
        self.ran = 0;
        self.own_content = phase == Phase::Content;
    }

    /// Goes on from a phase whose handlers have all run.
    fn leave(&mut self, x: &mut Exchange) -> Option<Step<'static>> {
        let next = match self.phase {
            Phase::PostRead => Phase::ServerRewrite,
            Phase::ServerRewrite => Phase::FindConfig,
            Phase::FindConfig => match crate::location::find_config(x, self.plan) {
                Step::Decline => Phase::Rewrite,
                step => return Some(step),
            },
            Phase::Rewrite => Phase::PostRewrite,
            Phase::PostRewrite if x.routing.path != PathState::Changed => {
                self.first_with_handlers(x)
            }
            Phase::PostRewrite => match count_redirect(x, None) {
                Ok(()) => Phase::FindConfig,
                Err(refused) => return Some(refused.into()),
            },
            // The request that a part belongs to has been let in.
            Phase::Preaccess if x.is_subrequest() => Phase::PostAccess,
            Phase::Preaccess => Phase::Access,
            Phase::Access => Phase::PostAccess,
            Phase::PostAccess => match self.refused.take() {
                None => Phase::Precontent,
                Some(status) => return Some(Step::Status(status)),
            },
            Phase::Precontent => Phase::Content,
            Phase::Content => return Some(nobody_answered(x)),
        };
        self.enter(x, next);
        None
    }
}

/// No content handler wanted the request.
#[cold]
fn nobody_answered(x: &mut Exchange) -> Step<'static> {
    if !x.request.path.ends_with(b"/") {
        return Step::Status(404);
    }
    let directory = crate::file_path::map(x).unwrap_or_default();
    let directory = String::from_utf8_lossy(&directory);
    x.log(Level::Error, format_args!("directory index of \"{directory}\" is forbidden"));
    Step::Status(403)
}

/// Counts an internal redirect, `to` somewhere or by `rewrite`. One too many is logged as nginx does, and has the
/// built-in page: an `error_page` would be one more.
pub(crate) fn count_redirect(x: &mut Exchange, to: Option<&Jump>) -> Result<(), Refused> {
    if x.routing.count_redirect() {
        return Ok(());
    }
    let (doing, target) = match to {
        None => ("processing", &x.request.path),
        Some(Jump::Path { path, .. }) => ("internally redirecting to", path),
        Some(Jump::Named(name)) => ("redirect to named location", name),
    };
    let target = String::from_utf8_lossy(target);
    let cycle = format_args!("rewrite or internal redirection cycle while {doing} \"{target}\"");
    x.log(Level::Error, cycle);
    x.disposition.give_up_error_pages();
    Err(Refused::INTERNAL)
}
