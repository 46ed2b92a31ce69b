//! Diagnostics of a configuration: nginx's line for tools, an excerpt of the source and advice for users.

use std::collections::HashSet;

use crate::source::{SourceMap, Span};

mod excerpt;

/// The severity of a diagnostic, in the names of `error_log` levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The configuration cannot be used.
    Emerg,
    /// As nginx uses it: an operating system call failed.
    Crit,
    /// An error that leaves the configuration usable.
    Error,
    /// Probably a mistake.
    Warn,
    /// Information only.
    Notice,
}

impl Severity {
    /// Returns the name in an error log.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Emerg => "emerg",
            Severity::Crit => "crit",
            Severity::Error => "error",
            Severity::Warn => "warn",
            Severity::Notice => "notice",
        }
    }

    /// Returns whether the configuration cannot be used.
    pub fn is_fatal(self) -> bool {
        matches!(self, Severity::Emerg | Severity::Crit)
    }
}

/// One message about a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// nginx's text, without ` in FILE:LINE`.
    pub message: String,
    /// The place that the excerpt shows.
    pub span: Option<Span>,
    /// The place whose line the first line contains, when nginx prints another one than that of `span`: the
    /// line of the `;` or `{` that ends the directive.
    pub line_span: Option<Span>,
    /// Text beside the underlined place; may be empty.
    pub label: String,
    /// Advice, one line each.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// Makes a diagnostic without a place.
    pub fn new(severity: Severity, message: impl Into<String>) -> Self {
        let message = message.into();
        Diagnostic {
            severity,
            message,
            span: None,
            line_span: None,
            label: String::new(),
            help: Vec::new(),
        }
    }

    /// Makes a diagnostic that makes a configuration unusable.
    pub fn emerg(message: impl Into<String>) -> Self {
        Self::new(Severity::Emerg, message)
    }

    /// Makes a warning of a probable mistake.
    pub fn warn(message: impl Into<String>) -> Self {
        Self::new(Severity::Warn, message)
    }

    /// Sorts diagnostics by the places of their first lines, in the order in which nginx reads them: the
    /// first error is then the one at which nginx would have stopped. Those without a place are last. A
    /// diagnostic that several blocks inherit is kept once.
    pub fn sort(diagnostics: &mut Vec<Diagnostic>, sources: &SourceMap) {
        diagnostics.sort_by_cached_key(|diagnostic| {
            let place = diagnostic.line_span.or(diagnostic.span);
            (place.is_none(), place.map(|span| sources.reading_key(span)))
        });
        let mut seen = HashSet::new();
        diagnostics.retain(|one| seen.insert((one.span, one.line_span, one.message.clone())));
    }

    /// Lowers the severity to a warning: for a diagnostic that [`crate::Args`] made with its place.
    pub fn as_warning(mut self) -> Self {
        self.severity = Severity::Warn;
        self
    }

    /// Sets the place.
    pub fn at(mut self, span: Span) -> Self {
        self.span = (span != Span::NONE).then_some(span);
        self
    }

    /// Sets the place whose line the first line contains, see [`Diagnostic::line_span`].
    pub fn line_at(mut self, span: Span) -> Self {
        self.line_span = (span != Span::NONE).then_some(span);
        self
    }

    /// Sets the text beside the underlined place.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds a line of advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Returns the message with its place in the format of nginx's error log: `MESSAGE in FILE:LINE`.
    pub fn first_line(&self, sources: &SourceMap) -> String {
        let place = self.line_span.or(self.span);
        let Some((span, file)) = place.and_then(|span| Some((span, sources.file(span.file)?)))
        else {
            return self.message.clone();
        };
        if file.path().is_none() {
            // nginx has no line numbers for a fragment.
            return format!("{} in {}", self.message, file.name());
        }
        format!("{} in {}:{}", self.message, file.name(), sources.line_column(span).0)
    }

    /// Returns all of it, several lines, each ended by a line feed: `nginx: [emerg] MESSAGE in FILE:LINE`
    /// first, then the excerpt. `color` adds terminal colours (to the excerpt only).
    pub fn render(&self, sources: &SourceMap, color: bool) -> String {
        let mut text = format!("nginx: [{}] {}\n", self.severity.name(), self.first_line(sources));
        excerpt::draw(self, sources, color, &mut text);
        text
    }
}
