//! A page on its way: what was read waits in a queue in the page's order, behind includes whose answers
//! have not come yet.

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
use tidegate_core::subrequest::{Reply, Subrequest};
use tidegate_core::{Exchange, Level, LocalFuture};
use tidegate_rt::share;

use super::Settings;
use super::error::NoRoom;
use super::tag::{Token, Tokenizer};

/// Includes that may be under way at a time; the page is not read on before the first has ended.
const INCLUDES_MAX: usize = 32;
/// Text that may wait behind includes.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// Longest `block`.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Conditions within conditions: an unclosed `if` costs memory until the page ends.
pub(super) const BRANCHES_MAX: usize = 64;
/// Variables and blocks of a request, names included: a page that sets a variable to twice itself again and again
/// would else take all memory there is.
pub(super) const KEPT_BYTES_MAX: usize = 4 << 20;
/// What a kept value costs beside its bytes.
const KEPT_ENTRY_BYTES: usize = 64;
/// A parameter with its variables replaced.
pub(super) const EXPANDED_BYTES_MAX: usize = 1 << 20;

/// What a page shares with the pages that it includes.
#[derive(Default)]
pub(super) struct Page {
    /// Made by `set`, by includes with `set` and by named groups.
    pub variables: RefCell<HashMap<Vec<u8>, Bytes>>,
    pub blocks: RefCell<HashMap<Vec<u8>, Bytes>>,
    /// Bytes of both, at most [`KEPT_BYTES_MAX`].
    kept_bytes: Cell<usize>,
}

impl Page {
    /// Gives a variable its value.
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

/// A text with commands: the page, or a block in the place of an empty include.
pub(super) struct Source {
    tokenizer: Tokenizer,
    pub branches: Vec<Branch>,
    /// Conditions deeper than [`BRANCHES_MAX`], all of them left out.
    pub too_deep: u64,
    pub block: Option<Block>,
}

/// An `if` whose `endif` has not come.
pub(super) struct Branch {
    /// What stands here counts.
    pub active: bool,
    /// One of its parts was the right one.
    pub taken: bool,
    pub had_else: bool,
}

/// A `block` whose `endblock` has not come.
pub(super) struct Block {
    pub name: Vec<u8>,
    pub text: BytesMut,
    /// There was more, which was not kept.
    pub too_long: bool,
}

impl Source {
    fn new(settings: &Settings) -> Source {
        let tokenizer = Tokenizer::new(settings.value_bytes_max);
        Source { tokenizer, branches: Vec::new(), too_deep: 0, block: None }
    }

    /// No condition around is false.
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

/// A part of the page that waits for its turn.
enum Item {
    Chunk(Chunk),
    Include(Box<Include>),
    /// What is left of a block.
    Block(Box<Source>),
}

struct Include {
    state: State,
    /// Block for an empty or failed answer.
    stub: Option<Bytes>,
    /// Variable that gets the answer.
    set: Option<Vec<u8>>,
}

enum State {
    Running(LocalFuture<'static, Reply>),
    Ready(Option<Box<Reply>>),
}

impl Include {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Box<Reply>>> {
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

    /// Goes on until the answer is there, which stays.
    fn advance(&mut self, context: &mut Context<'_>) {
        if let Poll::Ready(reply) = self.poll(context) {
            self.state = State::Ready(reply);
        }
    }
}

/// A page in the making.
pub(super) struct Renderer {
    pub x: Exchange,
    pub page: Rc<Page>,
    pub(super) settings: Arc<Settings>,
    pub error_text: Bytes,
    /// Groups of the last expression of this page.
    pub captures: Captures,
    queue: VecDeque<Item>,
    /// Bytes of text in the queue.
    queued_bytes: u64,
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
        }
    }

    /// Reads the page to its end and gives what it becomes.
    ///
    /// The page is read and run piece by piece into a queue, in the page's order:
    ///
    /// | item | ready | at its turn |
    /// |---|---|---|
    /// | text, flush | at once | leaves |
    /// | include | when its subrequest has an answer | its body leaves, or goes to a variable, or its stub is run |
    /// | block | at once | is run, in front of all that waits |
    ///
    /// Invariant: an include runs while what is before it leaves: at each poll here all of the queue are moved on. The
    /// queue has at most [`INCLUDES_MAX`] includes and about [`WAITING_BYTES_MAX`] of text; the page is not read on
    /// beyond. Variables of an include are the page's before the text behind it is run. Dropped at an await, the
    /// subrequests end with their page; what has left stays left, and the response is cut off.
    pub(super) async fn run(mut self, mut body: ByteBody, out: Yielder) -> Result<(), BodyError> {
        let mut source = Source::new(&self.settings);
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
        self.queue.push_back(Item::Include(Box::new(Include { state, stub, set })));
    }

    /// A command that cannot be run: its place is taken by the error text.
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

    /// Runs what has been received. True when an include has to end before the text goes on, or what waits has to
    /// leave: a short command may put a long variable.
    fn render(&mut self, source: &mut Source) -> bool {
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
                            || self.queued_bytes >= WAITING_BYTES_MAX as u64)
                    {
                        return true;
                    }
                }
            }
        }
        false
    }

    fn finish_source(&mut self, source: &mut Source) {
        if let Some(text) = source.tokenizer.finish()
            && source.block.is_none()
            && source.is_active()
        {
            self.push(text);
        }
    }

    /// Nothing is gained by reading on before something has left.
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

    /// Gives all that waits.
    async fn drain(&mut self, out: &Yielder) -> Result<(), BodyError> {
        while let Some(item) = self.queue.pop_front() {
            match item {
                Item::Chunk(chunk) => {
                    self.queued_bytes -= chunk.length();
                    out.put(chunk).await;
                }
                Item::Include(include) => self.include(*include, out).await?,
                Item::Block(source) => self.block(source),
            }
        }
        Ok(())
    }

    /// An include at its turn: its answer is waited for, then it goes to a variable, or its body leaves as it comes,
    /// or, where there was none, its stub is run in its place.
    ///
    /// Invariant: other includes are moved on while this one is waited for. A body that breaks off breaks the page off.
    /// A variable changes only by a success, within `subrequest_output_buffer_size`.
    async fn include(&mut self, mut include: Include, out: &Yielder) -> Result<(), BodyError> {
        let reply = poll_fn(|context| {
            self.advance_includes(context);
            include.poll(context)
        });
        let Some(mut reply) = reply.await else { return Ok(()) };
        // They may all be in memory: other connections get their turn too.
        share::step().await;
        self.x.take_variables(&reply);
        if let Some(name) = include.set {
            if (200..300).contains(&reply.status()) {
                let bytes_max = reply.exchange().settings().subrequest_output_bytes_max;
                let value = reply.read(bytes_max).await?;
                if let Err(error) = self.page.set(name, value) {
                    self.x.log(Level::Error, format_args!("{error}"));
                }
            }
            return Ok(());
        }
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
            let mut source = Source::new(&self.settings);
            source.tokenizer.push(text);
            self.queue.push_front(Item::Block(Box::new(source)));
        }
        Ok(())
    }

    /// Puts what a block becomes before all that waits.
    fn block(&mut self, mut source: Box<Source>) {
        let mut rest = std::mem::take(&mut self.queue);
        if self.render(&mut source) {
            self.queue.push_back(Item::Block(source));
        } else {
            self.finish_source(&mut source);
        }
        self.queue.append(&mut rest);
    }
}
