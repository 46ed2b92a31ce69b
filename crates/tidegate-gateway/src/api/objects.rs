//! Objects of the API: a snapshot is taken on the connection's thread, and written in pieces on a pool thread.
//!
//! Making the JSON of thousands of servers takes longer than an event loop may be held. A handler collects references
//! to what is shown; each object is made when it is written. Small responses are written at once.

use std::io;

use bytes::Bytes;
use serde_json::Value;
use tidegate_core::generated::generate;
use tidegate_core::{Body, BodyError, Chunk, blocking};

use crate::exposition::WEIGHT_AT_ONCE;

/// Something that can be shown, and perhaps be reset.
pub(super) struct Object {
    show: Show,
    reset: Option<Box<dyn FnOnce() + Send>>,
    /// Objects in it that take time, such as servers.
    weight: usize,
}

/// How an object is shown.
enum Show {
    Whole(Box<dyn FnOnce() -> Value + Send>),
    Pieces(Pieces),
}

/// Appends the next part of an object's text; returns `false` behind the last one.
type Pieces = Box<dyn FnMut(&mut Vec<u8>) -> bool + Send>;

impl Object {
    pub(super) fn new(show: impl FnOnce() -> Value + Send + 'static) -> Object {
        Object { show: Show::Whole(Box::new(show)), reset: None, weight: 1 }
    }

    /// Makes an object of any size. `write` appends the next part of its text, and returns `false` behind the last one.
    pub(super) fn of_pieces(write: impl FnMut(&mut Vec<u8>) -> bool + Send + 'static) -> Object {
        Object { show: Show::Pieces(Box::new(write)), reset: None, weight: 1 }
    }

    /// What DELETE does.
    pub(super) fn resettable(mut self, reset: impl FnOnce() + Send + 'static) -> Object {
        self.reset = Some(Box::new(reset));
        self
    }

    pub(super) fn weighing(mut self, weight: usize) -> Object {
        self.weight = weight.max(1);
        self
    }

    /// Makes an object with this one as its only field.
    pub(super) fn inside(self, name: &'static str) -> Object {
        let weight = self.weight;
        let show = move || Value::Object([(name.to_owned(), self.value())].into_iter().collect());
        Object::new(show).weighing(weight)
    }

    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Returns what it shows.
    pub(super) fn value(self) -> Value {
        match self.show {
            Show::Whole(show) => show(),
            Show::Pieces(write) => value_of(write),
        }
    }

    /// Resets what it shows.
    pub(super) fn reset(self) {
        if let Some(reset) = self.reset {
            reset();
        }
    }
}

/// Returns the value of a text that is written in pieces.
fn value_of(mut write: Pieces) -> Value {
    let mut text = Vec::new();
    while write(&mut text) {}
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Objects by name, in the order in which they are shown.
pub(super) type Objects = Vec<(String, Object)>;

/// How several objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One object alone.
    Single,
    /// As fields of an object, by name.
    Map,
    /// As a list without names.
    List,
}

/// The value of a response.
pub(super) struct Document {
    pub(super) objects: Objects,
    pub(super) form: Form,
    /// The fields of each object that are wanted; `None` for all.
    pub(super) fields: Option<Vec<String>>,
}

/// Bytes of a piece: a pool thread writes whole objects until there are as many.
const PIECE_BYTES: usize = 64 * 1024;

impl Document {
    pub(super) fn single(object: Object) -> Document {
        Document { objects: vec![(String::new(), object)], form: Form::Single, fields: None }
    }

    /// Returns a writer of its text, a part at each call; it returns `false` behind the last one.
    pub(super) fn writer(self) -> impl FnMut(&mut Vec<u8>) -> bool + Send + 'static {
        let mut writer = Writer::new(self);
        move |out| writer.write(out)
    }

    /// Makes the body of a response.
    pub(super) fn body(self) -> Body {
        let weight: usize = self.objects.iter().map(|(_, object)| object.weight).sum();
        let mut writer = Writer::new(self);
        if weight <= WEIGHT_AT_ONCE {
            let mut text = Vec::new();
            while writer.write(&mut text) {}
            return Body::from(Bytes::from(text));
        }
        generate(|out| async move {
            loop {
                let work = move || {
                    let (mut piece, mut goes_on) = (Vec::with_capacity(PIECE_BYTES), true);
                    while goes_on && piece.len() < PIECE_BYTES {
                        goes_on = writer.write(&mut piece);
                    }
                    Ok::<_, io::Error>((writer, piece, goes_on))
                };
                let (next, piece, goes_on) = blocking::run(work).await.map_err(BodyError::Io)?;
                writer = next;
                out.put(Chunk::Bytes(Bytes::from(piece))).await;
                if !goes_on {
                    return Ok(());
                }
            }
        })
    }
}

/// The position in a document that is written.
struct Writer {
    objects: std::vec::IntoIter<(String, Object)>,
    form: Form,
    fields: Option<Vec<String>>,
    started: bool,
    /// The object that is written in pieces.
    present: Option<Pieces>,
}

impl Writer {
    fn new(document: Document) -> Writer {
        let Document { objects, form, fields } = document;
        // Without fields there are names alone.
        let names = form == Form::Map && fields.as_ref().is_some_and(Vec::is_empty);
        let form = if names { Form::List } else { form };
        let objects = objects.into_iter().map(|(name, object)| match names {
            true => (String::new(), Object::new(move || name.into())),
            false => (name, object),
        });
        let fields = fields.filter(|_| !names);
        let objects = objects.collect::<Vec<_>>().into_iter();
        Writer { objects, form, fields, started: false, present: None }
    }

    /// Writes the next object, or a piece of one; returns `false` behind the last one.
    fn write(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(write) = &mut self.present {
            if !write(out) {
                self.present = None;
            }
            return true;
        }
        let (open, close) = match self.form {
            Form::Single => ("", ""),
            Form::Map => ("{", "}"),
            Form::List => ("[", "]"),
        };
        let first = !std::mem::replace(&mut self.started, true);
        if first {
            out.extend_from_slice(open.as_bytes());
        }
        let Some((name, object)) = self.objects.next() else {
            out.extend_from_slice(close.as_bytes());
            return false;
        };
        if !first {
            out.push(b',');
        }
        if self.form == Form::Map {
            out.extend_from_slice(Value::String(name).to_string().as_bytes());
            out.push(b':');
        }
        let mut value = match object.show {
            Show::Whole(show) => show(),
            Show::Pieces(write) if self.fields.is_none() => {
                self.present = Some(write);
                return true;
            }
            Show::Pieces(write) => value_of(write),
        };
        if let (Some(wanted), Value::Object(fields)) = (&self.fields, &mut value) {
            fields.retain(|name, _| wanted.iter().any(|wanted| wanted == name));
        }
        out.extend_from_slice(value.to_string().as_bytes());
        true
    }
}
