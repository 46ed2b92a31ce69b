//! Objects of the API: they are collected and written in pieces on a pool thread, where there are many.
//!
//! Collecting thousands of zones, and making the JSON of thousands of servers, takes longer than an event loop may be held.
//! So a handler says where objects come from ([`Contents`]); each is made when it is written. Small responses are written at
//! once.

use std::io;

use bytes::Bytes;
use serde_json::Value;
use tidegate_core::generated::generate;
use tidegate_core::{Body, BodyError, Chunk, blocking};

use super::source::Source;
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

/// The objects of a document, which may be collected when it is written.
pub(super) struct Contents {
    make: Box<dyn FnOnce() -> Objects + Send>,
    /// Objects in them that take time.
    weight: usize,
}

impl Contents {
    /// Makes contents of objects that are there.
    pub(super) fn of(objects: Objects) -> Contents {
        let weight = objects.iter().map(|(_, object)| object.weight).sum();
        Contents { make: Box::new(move || objects), weight }
    }

    /// Makes contents that are collected when they are written.
    pub(super) fn later(
        source: &Source,
        all: impl FnOnce(&Source) -> Objects + Send + 'static,
    ) -> Contents {
        let (source, weight) = (source.clone(), source.weight);
        Contents { make: Box::new(move || all(&source)), weight }
    }

    /// Makes one object of all.
    pub(super) fn whole(self) -> Object {
        let weight = self.weight;
        let document = Document { objects: self, form: Form::Map, fields: None };
        Object::of_pieces(document.writer()).weighing(weight)
    }
}

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
    pub(super) objects: Contents,
    pub(super) form: Form,
    /// The fields of each object that are wanted; `None` for all.
    pub(super) fields: Option<Vec<String>>,
}

/// Bytes of a piece: a pool thread writes whole objects until there are as many.
const PIECE_BYTES: usize = 64 * 1024;

impl Document {
    pub(super) fn single(object: Object) -> Document {
        let objects = Contents::of(vec![(String::new(), object)]);
        Document { objects, form: Form::Single, fields: None }
    }

    /// Returns a writer of its text, a part at each call; it returns `false` behind the last one.
    pub(super) fn writer(self) -> impl FnMut(&mut Vec<u8>) -> bool + Send + 'static {
        let mut writer = Writer::new(self);
        move |out| writer.write(out)
    }

    /// Makes the body of a response.
    pub(super) fn body(self) -> Body {
        let weight = self.objects.weight;
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
    /// Makes the objects, until the first one is written.
    make: Option<Box<dyn FnOnce() -> Objects + Send>>,
    objects: std::vec::IntoIter<(String, Object)>,
    /// Whether names are written instead of objects.
    names: bool,
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
        let fields = fields.filter(|_| !names);
        let (make, objects) = (Some(objects.make), Vec::new().into_iter());
        Writer { make, objects, names, form, fields, started: false, present: None }
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
        if let Some(make) = self.make.take() {
            self.objects = make().into_iter();
            out.extend_from_slice(open.as_bytes());
            return true;
        }
        let first = !std::mem::replace(&mut self.started, true);
        let Some((name, object)) = self.objects.next() else {
            out.extend_from_slice(close.as_bytes());
            return false;
        };
        if !first {
            out.push(b',');
        }
        if self.form == Form::Map {
            out.extend_from_slice(Value::from(&*name).to_string().as_bytes());
            out.push(b':');
        }
        let mut value = match object.show {
            _ if self.names => name.into(),
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
