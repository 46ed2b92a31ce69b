//! The position of a request in the phases: which handler runs next. It neither waits nor runs handlers, so that it
//! costs a waiting request a few words of memory.

use tidegate_codec::Known;

use crate::error_log::Level;
use crate::exchange::{Exchange, PathState};
use crate::handler::{Phase, PhaseHandler};
use crate::plan::{Location, Plan};
use crate::refused::Refused;
use crate::settings::Satisfy;
use crate::step::{Jump, Step};

/// The position of a request in the phases.
pub(crate) struct PhaseCursor<'p> {
    plan: &'p Plan,
    phase: Phase,
    /// The location whose handlers run. A change of location in between (`if`) takes effect with the next phase.
    location: &'p Location,
    /// The handlers of the phase that are still to run.
    left: &'p [PhaseHandler],
    /// Whether the location's own content handler runs next, before those of the phase.
    own_content: bool,
    /// The status that the access phase has refused with so far (`satisfy any`).
    refused: Option<u16>,
}

/// The next action of the caller.
pub(crate) enum NextAction<'p> {
    /// Run this handler and pass its step to [`PhaseCursor::after`].
    Run(&'p PhaseHandler),
    /// Read the end of a body without bytes: no handler will, yet the client waits for `100 Continue`
    /// (RFC 9110 section 10.1.1).
    EndBody,
    End(Step<'static>),
}

impl<'p> PhaseCursor<'p> {
    /// Starts at `phase` in the request's current location.
    pub(crate) fn new(x: &Exchange, plan: &'p Plan, phase: Phase) -> PhaseCursor<'p> {
        let location = plan.location(x.routing.location);
        let mut cursor =
            PhaseCursor { plan, phase, location, left: &[], own_content: false, refused: None };
        cursor.enter(x, phase);
        cursor
    }

    /// Returns the next handler of this or a later phase, or the end where there is none.
    #[inline]
    pub(crate) fn next(&mut self, x: &mut Exchange) -> NextAction<'p> {
        loop {
            if self.own_content {
                if x.request.expects_continue && x.request.body.is_unread_and_empty() {
                    return NextAction::EndBody;
                }
                let outer = || self.plan.location(self.location.outer?).content.as_ref();
                match self.location.content.as_ref().or_else(outer) {
                    Some(handler) => return NextAction::Run(handler),
                    None => self.own_content = false,
                }
            }
            if let Some((handler, left)) = self.left.split_first() {
                self.left = left;
                return NextAction::Run(handler);
            }
            if let Some(end) = self.leave(x) {
                return NextAction::End(end);
            }
        }
    }

    /// Evaluates a handler's step: returns the step that ends the request, or `None` to go on.
    #[inline]
    pub(crate) fn after(&mut self, x: &mut Exchange, step: Step<'static>) -> Option<Step<'static>> {
        if std::mem::take(&mut self.own_content) {
            return match step {
                // A file handler declines a directory: the phase's handlers run as if the location had none of its own.
                Step::Decline => None,
                Step::Next => Some(Step::Status(404)),
                step => Some(step),
            };
        }
        let satisfy_any =
            self.phase == Phase::Access && self.location.settings.satisfy == Satisfy::Any;
        match step {
            Step::Decline => None,
            Step::Next => {
                if satisfy_any {
                    self.refused = None;
                    self.left = &[];
                    // Drops the challenge of a module that refused before.
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

    /// Returns the phase whose handlers run.
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns whether the request is in the access phase.
    pub(crate) fn is_at_access(&self) -> bool {
        matches!(self.phase, Phase::Access | Phase::PostAccess)
    }

    /// Returns the next phase after the rewrites that has handlers: most locations have none before the content phase.
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
        self.left = self.location.handlers(phase);
        self.own_content = phase == Phase::Content;
    }

    /// Moves on from a phase whose handlers have all run; returns a step where the request ends.
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
            // The parent of a subrequest has passed the access phase.
            Phase::Preaccess if x.is_subrequest() => Phase::PostAccess,
            Phase::Preaccess => Phase::Access,
            Phase::Access => Phase::PostAccess,
            Phase::PostAccess => match self.refused.take() {
                None => Phase::Precontent,
                Some(status) => {
                    if status == 403 {
                        x.log(Level::Error, format_args!("access forbidden by rule"));
                    }
                    return Some(Step::Status(status));
                }
            },
            Phase::Precontent => Phase::Content,
            Phase::Content => return Some(all_declined(x)),
        };
        self.enter(x, next);
        None
    }
}

/// Ends a request that every content handler has declined.
#[cold]
fn all_declined(x: &mut Exchange) -> Step<'static> {
    if !x.request.path.ends_with(b"/") {
        return Step::Status(404);
    }
    let directory = crate::file_path::map(x).unwrap_or_default();
    let directory = String::from_utf8_lossy(&directory);
    x.log(Level::Error, format_args!("directory index of \"{directory}\" is forbidden"));
    Step::Status(403)
}

/// Counts an internal redirect: `to` a target, or by `rewrite`.
///
/// # Errors
/// 500 above the limit, which is logged as in nginx. It has the built-in page: an `error_page` would be one more
/// redirect.
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
