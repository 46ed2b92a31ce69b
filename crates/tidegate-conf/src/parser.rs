//! Parses words into a tree, with included files in their place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bundle::path_from_bytes;
use crate::diagnostic::Diagnostic;
use crate::foreign::has_lua_block;
use crate::lexer::{Lexer, Token, WORD_BYTES_MAX};
use crate::loader::Loader;
use crate::loader::glob::is_pattern;
use crate::source::{FileId, SourceMap, Span};
use crate::tree::{Block, Statement, Word};

mod mistakes;

use mistakes::{Braces, Layout};

/// Deepest nesting of included files. nginx has no limit of its own but open files; the deepest
/// tree seen in practice has four levels.
pub const INCLUDE_DEPTH_MAX: usize = 32;

/// Deepest nesting of blocks, included files counted in. nginx's directives nest some nine levels
/// deep; the limit bounds recursion over the tree.
pub const BLOCK_DEPTH_MAX: usize = 100;

/// Most bytes that one configuration may have, repeated includes counted each time: files that
/// include each other twice grow as a power of two.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// Most files that one configuration may include, repeated ones counted each time.
const INCLUDES_MAX: usize = 200_000;

/// The most errors before the parser stops: further ones are most probably consequences.
const ERRORS_MAX: usize = 100;

/// A parser of configurations: files and fragments into one [`SourceMap`], all errors into one list.
pub struct Parser<'a> {
    loader: &'a dyn Loader,
    conf_prefix: PathBuf,
    sources: SourceMap,
    diagnostics: Vec<Diagnostic>,
    /// Files being read, the outermost first.
    including: Vec<FileId>,
    block_depth: usize,
    includes: usize,
    text_bytes: usize,
    /// The indentation of the text being read.
    layout: Layout,
}

impl<'a> Parser<'a> {
    /// Makes a parser that reads by `loader`. Paths in `include` are relative to `conf_prefix`, the directory
    /// of the main configuration file.
    pub fn new(loader: &'a dyn Loader, conf_prefix: impl Into<PathBuf>) -> Self {
        Parser {
            loader,
            conf_prefix: conf_prefix.into(),
            sources: SourceMap::new(),
            diagnostics: Vec::new(),
            including: Vec::new(),
            block_depth: 0,
            includes: 0,
            text_bytes: 0,
            layout: Layout::default(),
        }
    }

    /// Parses a configuration file and all that it includes. Errors are added to [`Parser::diagnostics`]; the
    /// result is the part that could be parsed.
    pub fn parse_file(&mut self, path: &Path) -> Vec<Statement> {
        let mut statements = Vec::new();
        self.read_into(path, Span::NONE, &mut statements);
        statements
    }

    /// Parses directives of a text that is no file, such as that of `-g`. `name` is the place that nginx
    /// prints, `command line`. Blocks are not allowed there.
    pub fn parse_fragment(&mut self, name: &str, text: &[u8]) -> Vec<Statement> {
        let mut statements = Vec::new();
        let Some(file) = self.sources.add_fragment(name, text.to_vec()) else {
            self.report(Diagnostic::emerg("too long command line"));
            return statements;
        };
        self.parse_text(file, Form::Fragment, &mut statements);
        statements
    }

    /// Returns the texts read until now.
    pub fn sources(&self) -> &SourceMap {
        &self.sources
    }

    /// Returns the diagnostics until now.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns the texts and their diagnostics.
    pub fn finish(self) -> (SourceMap, Vec<Diagnostic>) {
        (self.sources, self.diagnostics)
    }

    /// Parses the file at `path`; `place` is the `include` of it.
    fn read_into(&mut self, path: &Path, place: Span, statements: &mut Vec<Statement>) {
        let file = match self.sources.find(path) {
            Some(file) => file,
            None => match self.load(path) {
                Ok(file) => {
                    self.sources.note_include(file, place);
                    file
                }
                Err(error) => return self.report(error.at(place)),
            },
        };
        if self.including.contains(&file) {
            let message = format!("\"{}\" includes itself", path.display());
            return self.report(Diagnostic::emerg(message).at(place));
        }
        if self.including.len() > INCLUDE_DEPTH_MAX {
            let message = format!("files are included more than {INCLUDE_DEPTH_MAX} levels deep");
            return self.report(Diagnostic::emerg(message).at(place));
        }
        self.includes += 1;
        self.text_bytes += self.sources.file(file).map_or(0, |file| file.bytes().len());
        if self.includes > INCLUDES_MAX || self.text_bytes > TEXT_BYTES_MAX {
            return self.report(
                Diagnostic::emerg("too large configuration")
                    .at(place)
                    .help("do files include each other again and again?"),
            );
        }
        self.parse_text(file, Form::File, statements);
    }

    /// Reads a file into the map of sources.
    fn load(&mut self, path: &Path) -> Result<FileId, Diagnostic> {
        let bytes = self.loader.read(path).map_err(|error| {
            let call = if error.kind() == io::ErrorKind::IsADirectory { "pread" } else { "open" };
            let path = path.display();
            Diagnostic::emerg(format!("{call}() \"{path}\" failed ({})", describe(&error)))
        })?;
        self.sources
            .add_file(path, bytes)
            .ok_or_else(|| Diagnostic::emerg(format!("too large file \"{}\"", path.display())))
    }

    fn parse_text(&mut self, file: FileId, form: Form, statements: &mut Vec<Statement>) {
        let Some(source) = self.sources.file(file) else { return };
        let text: Arc<[u8]> = source.shared_bytes();
        let limit = if form == Form::File { WORD_BYTES_MAX } else { usize::MAX };
        let mut lexer = Lexer::new(&text, file, limit);
        self.including.push(file);
        let outer = std::mem::take(&mut self.layout);
        self.parse_statements(&mut lexer, form, None, statements);
        self.layout = outer;
        self.including.pop();
    }

    /// Parses up to the `}` of the block that `open` describes, or to the end of the text; returns the place
    /// where it stopped. `None` after the end of the text or when it stops for too many errors.
    fn parse_statements(
        &mut self,
        lexer: &mut Lexer<'_>,
        form: Form,
        open: Option<Opened>,
        statements: &mut Vec<Statement>,
    ) -> Option<Span> {
        let mut words: Vec<Word> = Vec::new();
        while self.diagnostics.len() < ERRORS_MAX {
            let token = lexer.next();
            for diagnostic in lexer.diagnostics.drain(..) {
                self.report(diagnostic);
            }
            match token {
                Token::Word(word) => {
                    if let Some(brace) = lexer.expression_brace.take() {
                        let first = words.first();
                        let text = lexer.text();
                        self.report(mistakes::unquoted_expression(text, first, &word, brace));
                    }
                    words.push(word);
                }
                Token::Semicolon(span) => match mistakes::missing_open(lexer.text(), &words) {
                    Some(at) => {
                        self.finish_unopened(lexer, form, &mut words, at, span, statements)?
                    }
                    None => self.finish_simple(&mut words, span, statements),
                },
                Token::Open(span) => {
                    self.finish_block(lexer, form, &mut words, span, statements)?
                }
                Token::Close(span) => {
                    if words.is_empty() && open.is_some() {
                        return Some(span);
                    }
                    // A superfluous `}`, or one behind a statement without `;`, which is kept.
                    self.unexpected_close(lexer.text(), &words, span);
                    if !words.is_empty() {
                        self.finish_simple(&mut words, span, statements);
                    }
                    if open.is_some() {
                        return Some(span);
                    }
                }
                Token::End(span) => {
                    let word = words.last().map(|word| word.span);
                    self.check_end(form, lexer, word, span, open);
                    return None;
                }
                Token::EndInWord(word) => {
                    self.check_end(form, lexer, Some(word), lexer.end(), open);
                    return None;
                }
            }
        }
        None
    }

    /// Ends a statement at `;`: the words are a statement, or an include.
    fn finish_simple(&mut self, words: &mut Vec<Word>, end: Span, statements: &mut Vec<Statement>) {
        let Some((name, args)) = take_words(words) else {
            return self.report(
                Diagnostic::emerg("unexpected \";\"")
                    .at(end)
                    .label("there is no directive before it"),
            );
        };
        let span = name.span.to(end);
        let statement = Statement { name, args, block: None, span };
        if statement.name.bytes == b"include" {
            self.include(&statement, statements);
        } else {
            statements.push(statement);
        }
    }

    /// Parses a block behind `{` and makes the statement. Returns `None` when the text ended in it; the
    /// statement is kept nevertheless.
    fn finish_block(
        &mut self,
        lexer: &mut Lexer<'_>,
        form: Form,
        words: &mut Vec<Word>,
        open: Span,
        statements: &mut Vec<Statement>,
    ) -> Option<()> {
        let head = take_words(words);
        self.check_open(form, head.as_ref().map(|(name, _)| name), open);
        if self.block_depth >= BLOCK_DEPTH_MAX {
            self.report(
                Diagnostic::emerg(format!(
                    "blocks are nested more than {BLOCK_DEPTH_MAX} levels deep"
                ))
                .at(open),
            );
            return skip_block(lexer);
        }
        let mut inner = Vec::new();
        let is_lua = head.as_ref().is_some_and(|(name, _)| has_lua_block(&name.bytes));
        let close = if is_lua {
            let close = lexer.skip_lua_block();
            if close.is_none() {
                let opened = Opened { open, name: head.as_ref().map(|(name, _)| name.span) };
                self.check_end(form, lexer, None, lexer.end(), Some(opened));
            }
            close
        } else {
            self.block_depth += 1;
            let name = head.as_ref().map(|(name, _)| name.span);
            let opened = Opened { open, name };
            let close = self.parse_statements(lexer, form, Some(opened), &mut inner);
            self.block_depth -= 1;
            if let (Some(close), Some(name)) = (close, name) {
                self.layout.note(lexer.text(), Braces { name, open, close });
            }
            close
        };
        if let Some((name, args)) = head
            && name.bytes != b"include"
        {
            let close_span = close.unwrap_or(lexer.end());
            let span = name.span.to(close_span);
            inner.shrink_to_fit();
            let block = Block { statements: Arc::new(inner), open, close: close_span };
            statements.push(Statement { name, args, block: Some(block), span });
        }
        close.map(|_| ())
    }

    /// Reports a `;` in a statement that should have been a block: its `{` is missing before the word at
    /// `at`. Continues as if the brace were present.
    fn finish_unopened(
        &mut self,
        lexer: &mut Lexer<'_>,
        form: Form,
        words: &mut Vec<Word>,
        at: usize,
        end: Span,
        statements: &mut Vec<Statement>,
    ) -> Option<()> {
        let mut rest = words.split_off(at);
        self.report(mistakes::no_opening(words, end));
        let mut inner = Vec::new();
        self.finish_simple(&mut rest, end, &mut inner);
        let (name, args) = take_words(words)?;
        if self.block_depth >= BLOCK_DEPTH_MAX {
            return Some(());
        }
        let open = name.span;
        self.block_depth += 1;
        let opened = Opened { open, name: Some(name.span) };
        let close = self.parse_statements(lexer, form, Some(opened), &mut inner);
        self.block_depth -= 1;
        let span = name.span.to(close.unwrap_or(lexer.end()));
        let block =
            Block { statements: Arc::new(inner), open, close: close.unwrap_or(lexer.end()) };
        statements.push(Statement { name, args, block: Some(block), span });
        close.map(|_| ())
    }

    fn check_open(&mut self, form: Form, name: Option<&Word>, open: Span) {
        let error = match name {
            None => Diagnostic::emerg("unexpected \"{\"").label("there is no directive before it"),
            Some(_) if form == Form::Fragment => {
                Diagnostic::emerg("block directives are not supported in -g option")
            }
            Some(name) if name.bytes == b"include" => {
                Diagnostic::emerg("directive \"include\" is not terminated by \";\"")
                    .label("expected `;`")
            }
            Some(_) => return,
        };
        self.report(error.at(open));
    }

    fn unexpected_close(&mut self, text: &[u8], words: &[Word], span: Span) {
        let error = Diagnostic::emerg("unexpected \"}\"").at(span);
        self.report(match words.last() {
            Some(last) => error
                .label("expected `;` before it")
                .help(format!("is a `;` missing after `{}`?", shorten(last))),
            None => self.layout.superfluous(text, error),
        });
    }

    /// Checks the end of a text: nothing may be unfinished. `word` is a word without a `;`, `open` the
    /// innermost open block.
    fn check_end(
        &mut self,
        form: Form,
        lexer: &Lexer<'_>,
        word: Option<Span>,
        end: Span,
        open: Option<Opened>,
    ) {
        let error = match (form, word, open) {
            (Form::Fragment, Some(word), _) => {
                Diagnostic::emerg("unexpected end of parameter, expecting \";\"")
                    .at(word)
                    .label("expected `;` after this")
            }
            (_, Some(word), _) => {
                Diagnostic::emerg("unexpected end of file, expecting \";\" or \"}\"")
                    .at(word)
                    .label("the directive with this is not finished")
            }
            (Form::File, None, Some(opened)) => {
                self.layout.unclosed(lexer.text(), opened.open, opened.name)
            }
            // The block itself was the error.
            (Form::Fragment, None, Some(_)) | (_, None, None) => return,
        };
        let error = if error.line_span.is_some() { error } else { error.line_at(end) };
        self.report(error);
    }

    /// Puts the statements of the included files in the place of the `include`.
    fn include(&mut self, statement: &Statement, statements: &mut Vec<Statement>) {
        let [word] = statement.args.as_slice() else {
            return self.report(
                Diagnostic::emerg("invalid number of arguments in \"include\" directive")
                    .at(statement.span)
                    .line_at(statement.terminator())
                    .label(format!("`include` takes 1 argument, found {}", statement.args.len())),
            );
        };
        let Some(path) = path_from_bytes(&word.bytes) else {
            return self.report(invalid_path(word));
        };
        let path = self.conf_prefix.join(path);
        if !is_pattern(&word.bytes) {
            return self.read_into(&path, word.span, statements);
        }
        let Some(pattern) = path.to_str() else { return self.report(invalid_path(word)) };
        match self.loader.glob(pattern) {
            Ok(paths) => {
                for path in paths {
                    if self.diagnostics.len() >= ERRORS_MAX {
                        return;
                    }
                    self.read_into(&path, word.span, statements);
                }
            }
            Err(error) => self.report(
                Diagnostic::emerg(format!("glob() \"{pattern}\" failed ({})", describe(&error)))
                    .at(word.span),
            ),
        }
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }
}

/// The block that is being read.
#[derive(Clone, Copy)]
struct Opened {
    /// The `{`.
    open: Span,
    /// The directive's name.
    name: Option<Span>,
}

/// The kind of text that is parsed.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    File,
    Fragment,
}

/// Takes all words: the name and the arguments.
fn take_words(words: &mut Vec<Word>) -> Option<(Word, Vec<Word>)> {
    let mut taken = words.drain(..);
    let name = taken.next()?;
    let mut args = Vec::with_capacity(taken.len());
    args.extend(taken);
    Some((name, args))
}

/// Advances behind the `}` of a block whose `{` was read; returns `None` when the text ends before.
fn skip_block(lexer: &mut Lexer<'_>) -> Option<()> {
    let mut depth = 1_usize;
    while depth > 0 {
        match lexer.next() {
            Token::Open(_) => depth += 1,
            Token::Close(_) => depth -= 1,
            Token::End(_) | Token::EndInWord(_) => return None,
            Token::Word(_) | Token::Semicolon(_) => {}
        }
        lexer.diagnostics.clear();
    }
    Some(())
}

fn invalid_path(word: &Word) -> Diagnostic {
    Diagnostic::emerg(format!("invalid path \"{}\"", word.display()))
        .at(word.span)
        .label("not valid UTF-8")
}

/// Returns a word for a help line; very long ones are cut.
fn shorten(word: &Word) -> String {
    let shown = word.display();
    if shown.chars().count() <= 60 {
        return shown.into_owned();
    }
    shown.chars().take(57).chain("...".chars()).collect()
}

/// Returns an error of the operating system as nginx prints it: `2: No such file or directory`.
fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => {
            let suffix = format!(" (os error {code})");
            format!("{code}: {}", text.strip_suffix(&suffix).unwrap_or(&text))
        }
        None => text,
    }
}

#[cfg(test)]
mod tests;
