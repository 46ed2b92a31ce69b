//! One request to an instance: on one thread, the program runs and its response is taken piece by piece. While the
//! client is slower than the program, the thread waits for the client.

use std::future::poll_fn;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::response::Parts;
use http_body::Body;
use tidegate_handler::{Response, Writer};
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use crate::failure::Failure;
use crate::watch::Watch;

/// Responses of up to this number of bytes are sent as a whole, with their length.
const WHOLE_BYTES_MAX: usize = 256 << 10;
/// Smaller pieces, in bytes, are collected before they are sent.
const SMALL_BYTES: usize = 8 << 10;

/// The running program.
pub(crate) type Guest = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// The place for the head of the program's response.
pub(crate) type HeadSlot = Arc<Mutex<Option<Result<http::Response<HyperOutgoingBody>, ErrorCode>>>>;

/// A request in progress. Dropping it ends the program.
pub(crate) struct Call {
    /// `None` when the program has ended without an error.
    guest: Option<Guest>,
    head: HeadSlot,
    body: Option<HyperOutgoingBody>,
    watch: Arc<Watch>,
}

/// A result of a call, in this order. An error ends the call.
enum Event {
    Head(Box<Parts>),
    Piece(Bytes),
    /// The response is complete. The program may still run; it is dropped with the call.
    End,
}

type Polled = Poll<Result<Event, Failure>>;

impl Call {
    pub(crate) fn new(guest: Guest, head: HeadSlot, watch: Arc<Watch>) -> Call {
        Call { guest: Some(guest), head, body: None, watch }
    }

    /// Runs the program until its response is complete or larger than [`WHOLE_BYTES_MAX`], or until the program waits.
    ///
    /// # Errors
    /// The program failed.
    pub(crate) fn respond(mut self) -> Result<Response, Failure> {
        let Event::Head(head) = self.wait()? else { return Err(Failure::NoResponse) };
        let mut pieces = Vec::new();
        let mut length = 0;
        loop {
            match self.progress()? {
                Some(Event::Piece(piece)) => {
                    length += piece.len();
                    pieces.push(piece);
                }
                Some(Event::End) => return Ok(whole(&head, pieces)),
                Some(Event::Head(_)) | None => break,
            }
            if length > WHOLE_BYTES_MAX {
                break;
            }
        }
        Ok(with_head(Response::stream(move |out| self.stream(pieces, out)), &head))
    }

    fn stream(mut self, pieces: Vec<Bytes>, out: &mut Writer<'_>) -> io::Result<()> {
        for piece in pieces {
            write(out, piece)?;
        }
        loop {
            let event = match self.progress().map_err(io::Error::other)? {
                Some(event) => event,
                None => {
                    // The program waits: its output so far is sent meanwhile.
                    out.flush()?;
                    self.wait().map_err(io::Error::other)?
                }
            };
            match event {
                Event::Piece(piece) => write(out, piece)?,
                Event::End | Event::Head(_) => return Ok(()),
            }
        }
    }

    fn wait(&mut self) -> Result<Event, Failure> {
        block_on(poll_fn(|context| self.poll(context)))?
    }

    /// Returns the next event; `None` while the program waits.
    fn progress(&mut self) -> Result<Option<Event>, Failure> {
        block_on(poll_fn(|context| {
            Poll::Ready(match self.poll(context) {
                Poll::Ready(event) => event.map(Some),
                Poll::Pending => Ok(None),
            })
        }))?
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Polled {
        if self.watch.poll_over(context.waker()) {
            return Poll::Ready(Err(Failure::Abandoned));
        }
        if let Some(guest) = &mut self.guest
            && let Poll::Ready(ended) = guest.as_mut().poll(context)
        {
            self.guest = None;
            // Output that was written before a failure is not passed on.
            ended?;
        }
        let head = self.head.lock().unwrap_or_else(PoisonError::into_inner).take();
        match head {
            Some(Ok(response)) => {
                let (head, body) = response.into_parts();
                self.body = Some(body);
                Poll::Ready(Ok(Event::Head(Box::new(head))))
            }
            Some(Err(code)) => Poll::Ready(Err(Failure::ReturnedError(code))),
            None => self.poll_body(context),
        }
    }

    fn poll_body(&mut self, context: &mut Context<'_>) -> Polled {
        while let Some(body) = &mut self.body {
            match Pin::new(body).poll_frame(context) {
                // Trailers are not passed on.
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(piece) = frame.into_data() {
                        return Poll::Ready(Ok(Event::Piece(piece)));
                    }
                }
                Poll::Ready(None) => return Poll::Ready(Ok(Event::End)),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(Failure::Unfinished)),
                Poll::Pending => break,
            }
        }
        match (&self.guest, &self.body) {
            (Some(_), _) => Poll::Pending,
            (None, Some(_)) => Poll::Ready(Err(Failure::Unfinished)),
            (None, None) => Poll::Ready(Err(Failure::EndedWithoutResponse)),
        }
    }
}

fn whole(head: &Parts, mut pieces: Vec<Bytes>) -> Response {
    let response = with_head(Response::new(200), head);
    match pieces.len() {
        // A response without a body keeps its `Content-Length` (HEAD).
        0 => response,
        1 => response.body(pieces.swap_remove(0)),
        _ => response.body(pieces.concat()),
    }
}

fn with_head(response: Response, head: &Parts) -> Response {
    let response = response.status(head.status.as_u16());
    head.headers.iter().fold(response, |response, (name, value)| response.header(name, value))
}

fn write(out: &mut Writer<'_>, piece: Bytes) -> io::Result<()> {
    if piece.len() < SMALL_BYTES { out.write_all(&piece) } else { out.write_bytes(piece) }
}

/// Runs a future on this thread, with the event loop that the interface's clocks need.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    // Parts of the program wait for each other, which must not use up the task's time share.
    let future = tidegate_rt::unconstrained(future);
    tidegate_rt::blocking::wait(future).map_err(Failure::NoEventLoop)
}
