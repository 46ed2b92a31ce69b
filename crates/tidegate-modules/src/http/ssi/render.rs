//! Renders a page: its parts wait in a queue, in the page's order, behind includes whose responses have not arrived
//! yet.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tidegate_core::body::{BodyError, Chunk};
use tidegate_core::byte_body::{ByteBody, Piece};
use tidegate_core::exchange::Captures;
use tidegate_core::generated::Yielder;
use tidegate_core::subrequest::{Subrequest, SubrequestResponse};
use tidegate_core::{Exchange, Level, LocalFuture};
use tidegate_rt::share;

use super::Settings;
use super::error::NoRoom;
use super::tag::{Token, Tokenizer};

/// Includes in progress at a time; the rest of the page is not processed before the first has ended.
const INCLUDES_MAX: usize = 32;
/// Bytes of text that may wait behind includes.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// Bytes of the longest `block`.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Nested conditions: an unclosed `if` costs memory until the page ends.
pub(super) const BRANCHES_MAX: usize = 64;
/// Bytes of a request's variables and blocks, names included: without the limit, a page that doubles a variable
/// again and again would use up the memory.
pub(super) const KEPT_BYTES_MAX: usize = 4 << 20;
/// Bytes that a kept value costs beside its own.
const KEPT_ENTRY_BYTES: usize = 64;
/// Bytes of a parameter with its variables expanded.
pub(super) const EXPANDED_BYTES_MAX: usize = 1 << 20;

/// What a page shares with its included pages.
#[derive(Default)]
pub(super) struct Page {
    /// Set by `set`, by includes with `set` and by named groups.
    pub variables: RefCell<HashMap<Vec<u8>, Bytes>>,
    pub blocks: RefCell<HashMap<Vec<u8>, Bytes>>,
    /// Bytes of variables and blocks, at most [`KEPT_BYTES_MAX`].
    kept_bytes: Cell<usize>,
}

impl Page {
    /// Assigns a variable.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn set(&self, name: Vec<u8>, value: Bytes) -> Result<(), NoRoom> {
        self.keep(&self.variables, name, value)
    }

    /// Keeps a block; errors as of [`Page::set`].
    pub(super) fn set_block(&self, name: Vec<u8>, text: Bytes) -> Result<(), NoRoom> {
        self.keep(&self.blocks, name, text)
    }

    fn keep(
        &self,
        among: &RefCell<HashMap<Vec<u8>, Bytes>>,
        name: Vec<u8>,
        value: Bytes,
    ) -> Result<(), NoRoom> {
        let mut among = among.borrow_mut();
        let cost = |value: &Bytes| name.len() + value.len() + KEPT_ENTRY_BYTES;
        let kept = self.kept_bytes.get() - among.get(&name).map_or(0, cost) + cost(&value);
        if kept > KEPT_BYTES_MAX {
            return Err(NoRoom { name: String::from_utf8_lossy(&name).into_owned() });
        }
        self.kept_bytes.set(kept);
        among.insert(name, value);
        Ok(())
    }
}

/// A text with commands: the page, or a block in place of an empty include.
pub(super) struct PageSource {
    tokenizer: Tokenizer,
    pub branches: Vec<Branch>,
    /// Number of nested conditions above [`BRANCHES_MAX`], all of them left out.
    pub too_deep: u64,
    pub block: Option<Block>,
}

/// An `if` whose `endif` has not been reached.
pub(super) struct Branch {
    /// Whether the text here is output.
    pub active: bool,
    /// Whether one of its conditions was true.
    pub taken: bool,
    pub had_else: bool,
}

/// A `block` whose `endblock` has not been reached.
pub(super) struct Block {
    pub name: Vec<u8>,
    pub text: BytesMut,
    /// Whether it was longer than [`BLOCK_BYTES_MAX`] and was not kept.
    pub too_long: bool,
}

impl PageSource {
    fn new(settings: &Settings) -> PageSource {
        let tokenizer = Tokenizer::new(settings.value_bytes_max);
        PageSource { tokenizer, branches: Vec::new(), too_deep: 0, block: None }
    }

    /// Returns whether all enclosing conditions are true.
    pub(super) fn is_active(&self) -> bool {
        self.too_deep == 0 && self.branches.iter().all(|branch| branch.active)
    }

    fn record(&mut self, text: &[u8]) -> bool {
        let Some(block) = &mut self.block else { return false };
        match block.text.len() + text.len() <= BLOCK_BYTES_MAX {
            true => block.text.extend_from_slice(text),
            false => block.too_long = true,
        }
        true
    }
}

/// A part of the page in the queue.
enum Item {
    Chunk(Chunk),
    Include(Box<Include>),
    /// The rest of a block.
    Block(Box<PageSource>),
}

struct Include {
    state: State,
    /// Block in place of an empty or failed response.
    stub: Option<Bytes>,
    /// Variable that the response is assigned to.
    set: Option<Vec<u8>>,
}

enum State {
    Running(LocalFuture<'static, SubrequestResponse>),
    Ready(Option<Box<SubrequestResponse>>),
}

impl Include {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Box<SubrequestResponse>>> {
        if let State::Running(future) = &mut self.state
            && let Poll::Ready(reply) = future.as_mut().poll(context)
        {
            self.state = State::Ready(Some(Box::new(reply)));
        }
        match &mut self.state {
            State::Running(_) => Poll::Pending,
            State::Ready(reply) => Poll::Ready(reply.take()),
        }
    }

    /// Polls the subrequest until it has a response, and keeps that.
    fn advance(&mut self, context: &mut Context<'_>) {
        if let Poll::Ready(reply) = self.poll(context) {
            self.state = State::Ready(reply);
        }
    }
}

/// The state of a page that is being rendered.
pub(super) struct Renderer {
    pub x: Exchange,
    pub page: Rc<Page>,
    pub(super) settings: Arc<Settings>,
    pub error_text: Bytes,
    /// Groups of the last regular expression of this page.
    pub captures: Captures,
    queue: VecDeque<Item>,
    /// Bytes of text in the queue.
    queued_bytes: u64,
    /// Includes in the queue.
    includes: usize,
}

impl Renderer {
    pub(super) fn new(x: Exchange, page: Rc<Page>, settings: Arc<Settings>) -> Renderer {
        let error_text = Bytes::from_static(b"[an error occurred while processing the directive]");
        let captures = Captures::default();
        Renderer {
            x,
            page,
            settings,
            error_text,
            captures,
            queue: VecDeque::new(),
            queued_bytes: 0,
            includes: 0,
        }
    }

    /// Renders the page to its end and yields the output.
    ///
    /// The page is processed piece by piece into a queue, in the page's order:
    ///
    /// | item | ready | at the head of the queue |
    /// |---|---|---|
    /// | text, flush | at once | is sent |
    /// | include | when its subrequest has a response | its body is sent or assigned to a variable, or its stub is run |
    /// | block | at once | is run, its output in front of the queue |
    ///
    /// Invariant: an include runs while the items before it are sent: each poll here polls all includes of the
    /// queue. The queue has at most [`INCLUDES_MAX`] includes and about [`WAITING_BYTES_MAX`] of text; the page is
    /// not processed beyond. Variables of an include are set before the text behind it is processed. Dropped at an
    /// await, the subrequests end with their page; what was sent remains sent, and the response is cut off.
    pub(super) async fn run(mut self, mut body: ByteBody, out: Yielder) -> Result<(), BodyError> {
        let mut source = PageSource::new(&self.settings);
        loop {
            if self.render(&mut source) {
                self.drain(&out).await?;
                continue;
            }
            if self.is_full() {
                self.drain(&out).await?;
            }
            let next = poll_fn(|context| {
                self.advance_includes(context);
                match body.poll_piece(context) {
                    Poll::Ready(next) => Poll::Ready(Some(next)),
                    Poll::Pending if self.queue.is_empty() => Poll::Pending,
                    Poll::Pending => Poll::Ready(None),
                }
            });
            match next.await {
                None => self.drain(&out).await?,
                Some(None) => break,
                Some(Some(Err(error))) => return Err(error),
                Some(Some(Ok(Piece::Flush))) => self.push_chunk(Chunk::Flush),
                Some(Some(Ok(Piece::Bytes(bytes)))) => source.tokenizer.push(bytes),
            }
        }
        self.finish_source(&mut source);
        out.set_trailers(body.trailers());
        self.drain(&out).await
    }

    /// Appends a text.
    pub(super) fn push(&mut self, text: Bytes) {
        if !text.is_empty() {
            self.push_chunk(Chunk::Bytes(text));
        }
    }

    /// Begins an include.
    pub(super) fn push_include(
        &mut self,
        subrequest: Subrequest,
        stub: Option<Bytes>,
        set: Option<Vec<u8>>,
    ) {
        let state = State::Running(subrequest.run());
        self.includes += 1;
        self.queue.push_back(Item::Include(Box::new(Include { state, stub, set })));
    }

    /// Appends the error text in place of a command that cannot be run, and logs why.
    pub(super) fn fail(&mut self, reason: &dyn Display) {
        self.x.log(Level::Error, format_args!("{reason}"));
        self.push_error_text();
    }

    pub(super) fn push_error_text(&mut self) {
        if !self.settings.silent_errors {
            self.push(self.error_text.clone());
        }
    }

    fn push_chunk(&mut self, chunk: Chunk) {
        self.queued_bytes += chunk.length();
        self.queue.push_back(Item::Chunk(chunk));
    }

    /// Processes the received text. Returns true when an include has to end before the text behind it is processed,
    /// or when the queue is full: a short command may output a long variable.
    fn render(&mut self, source: &mut PageSource) -> bool {
        while let Some(token) = source.tokenizer.next() {
            match token {
                Token::Text(text) => {
                    if !source.record(&text) && source.is_active() {
                        self.push(text);
                    }
                }
                Token::Broken(message) => {
                    if source.block.is_none() && source.is_active() {
                        self.fail(&message);
                    }
                }
                Token::Command(command) => {
                    let recorded = command.name != b"endblock" && source.record(&command.raw);
                    if !recorded
                        && (self.command(source, &command)
                            || self.includes >= INCLUDES_MAX
                            || self.queued_bytes >= WAITING_BYTES_MAX as u64)
                    {
                        return true;
                    }
                }
            }
        }
        false
    }

    fn finish_source(&mut self, source: &mut PageSource) {
        if let Some(text) = source.tokenizer.finish()
            && source.block.is_none()
            && source.is_active()
        {
            self.push(text);
        }
    }

    /// Returns whether the queue is full: processing more gains nothing before something has been sent.
    fn is_full(&self) -> bool {
        let includes = self.queue.iter().filter(|item| !matches!(item, Item::Chunk(_))).count();
        includes == 0 || includes >= INCLUDES_MAX || self.queued_bytes >= WAITING_BYTES_MAX as u64
    }

    fn advance_includes(&mut self, context: &mut Context<'_>) {
        for item in &mut self.queue {
            if let Item::Include(include) = item {
                include.advance(context);
            }
        }
    }

    /// Sends the whole queue.
    async fn drain(&mut self, out: &Yielder) -> Result<(), BodyError> {
        while let Some(item) = self.queue.pop_front() {
            match item {
                Item::Chunk(chunk) => {
                    self.queued_bytes -= chunk.length();
                    out.put(chunk).await;
                }
                Item::Include(include) => {
                    self.includes -= 1;
                    self.include(*include, out).await?;
                }
                Item::Block(source) => self.block(source),
            }
        }
        Ok(())
    }

    /// Handles an include at the head of the queue: waits for its response, then assigns it to a variable, or sends
    /// its body as it arrives, or runs its stub if it is empty or failed.
    ///
    /// Invariant: other includes are polled while this one is waited for. A body that breaks off breaks the page
    /// off. A variable is changed only by a successful response, within `subrequest_output_buffer_size`.
    async fn include(&mut self, mut include: Include, out: &Yielder) -> Result<(), BodyError> {
        let reply = poll_fn(|context| {
            self.advance_includes(context);
            include.poll(context)
        });
        let Some(mut reply) = reply.await else { return Ok(()) };
        // All includes may be ready in memory: other connections get their share of the event loop too.
        share::step().await;
        self.x.take_variables(&reply);
        if let Some(name) = include.set {
            if (200..300).contains(&reply.status()) {
                let bytes_max = reply.exchange().settings().subrequest_output_buffer_size;
                let value = reply.read(bytes_max).await?;
                if let Err(error) = self.page.set(name, value) {
                    self.x.log(Level::Error, format_args!("{error}"));
                }
            }
            return Ok(());
        }
        // With a stub, the error page of a refused subrequest is not shown.
        let refused = reply.refused_with().is_some() || reply.status() == 0;
        let mut empty = true;
        if include.stub.is_none() || !refused {
            let mut body = reply.into_body();
            loop {
                let next = poll_fn(|context| {
                    self.advance_includes(context);
                    body.poll_chunk(context)
                });
                let Some(chunk) = next.await else { break };
                let chunk = chunk?;
                if chunk.length() > 0 {
                    empty = false;
                    out.put(chunk).await;
                } else if matches!(chunk, Chunk::Flush) {
                    out.put(Chunk::Flush).await;
                }
            }
        }
        if let (true, Some(text)) = (empty, include.stub) {
            let mut source = PageSource::new(&self.settings);
            source.tokenizer.push(text);
            self.queue.push_front(Item::Block(Box::new(source)));
        }
        Ok(())
    }

    /// Runs a block and puts its output in front of the queue.
    fn block(&mut self, mut source: Box<PageSource>) {
        let mut rest = std::mem::take(&mut self.queue);
        if self.render(&mut source) {
            self.queue.push_back(Item::Block(source));
        } else {
            self.finish_source(&mut source);
        }
        self.queue.append(&mut rest);
    }
}
