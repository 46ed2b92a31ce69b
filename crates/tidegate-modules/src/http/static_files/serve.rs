//! The content handler for files.

use std::cell::Cell;

use tidegate_codec::request::Method;
use tidegate_codec::uri::{Escape, escape};
use tidegate_codec::{Headers, Known};
use tidegate_core::exchange::{Exchange, RangeSupport};
use tidegate_core::settings::Settings;
use tidegate_core::{Body, Level, Step, error_page, file_path};
use tidegate_os::os_error;

use super::{
    Entry, EntryKind, Links, OpenFile, Options, is_absent, is_refused, open, open_nonblocking, warm,
};

/// Handles the content phase.
pub(super) fn handle<'a>(x: &'a mut Exchange) -> Step<'a> {
    serve(x, |_, file| file.body())
}

/// Makes a body of a file.
pub(super) type MakeBody = fn(&mut Exchange, &OpenFile) -> Body;

/// Serves the file that the request names, with the body that `body` makes of it.
pub(crate) fn serve(x: &mut Exchange, body: MakeBody) -> Step<'_> {
    if !matches!(x.request.method, Method::Get | Method::Head | Method::Post) {
        return Step::Status(405);
    }
    if x.request.path.ends_with(b"/") {
        return Step::Decline;
    }
    let mut path = PATH.take();
    if !file_path::map_into(x, &mut path) {
        PATH.set(path);
        return Step::Status(500);
    }
    let Some(entry) = open_nonblocking(x, &path) else {
        return Step::Wait(Box::pin(async move {
            warm(x, &path).await;
            let entry = open(x, &path);
            respond(x, &path, &entry, body)
        }));
    };
    let step = respond(x, &path, &entry, body);
    PATH.set(path);
    step
}

thread_local! {
    /// Buffer for the path, reused by later requests.
    static PATH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Responds with what was found at the path.
pub(crate) fn respond(
    x: &mut Exchange,
    path: &[u8],
    entry: &Entry,
    body: MakeBody,
) -> Step<'static> {
    match &entry.what {
        EntryKind::File(_) if x.request.method == Method::Post => Step::Status(405),
        EntryKind::File(file) => {
            x.progress.action = "sending response to client";
            head(x, file);
            Step::Respond(body(x, file))
        }
        EntryKind::Directory => to_directory(x),
        EntryKind::Other => {
            let path = String::from_utf8_lossy(path);
            x.log(Level::Crit, format_args!("\"{path}\" is not a regular file"));
            Step::Status(404)
        }
        EntryKind::Failed(errno) => failed(x, path, *errno),
    }
}

/// Sets the head of a whole file.
pub(crate) fn head(x: &mut Exchange, file: &OpenFile) {
    x.disposition.set_status(200);
    let response = &mut x.response;
    response.last_modified = Some(file.modified);
    response.ranges = RangeSupport::Many;
    if response.headers.is_empty() {
        response.headers.clone_from(&file.head);
    } else {
        for (known, _, value) in file.head.iter() {
            response.headers.set_known(known, value);
        }
    }
    // As in nginx: the time of an error page is not that of the response.
    let is_error_page = x.disposition.is_error_page();
    let response = &mut x.response;
    if is_error_page {
        response.headers.remove(Known::LastModified);
    }
    let settings = &x.plan.location(x.routing.location).settings;
    if !settings.etag {
        response.headers.remove(Known::Etag);
    }
    set_type(&mut response.headers, settings, &x.request.path);
}

fn set_type(headers: &mut Headers, settings: &Settings, path: &[u8]) {
    let kind = settings.media_type(path);
    if !kind.is_empty() {
        headers.set_known(Known::ContentType, kind);
    }
}

/// Redirects a request for a directory without its slash to the path with it, where relative links work.
fn to_directory(x: &mut Exchange) -> Step<'static> {
    let mut place = Vec::with_capacity(x.request.path.len() + x.request.args.len() + 2);
    escape(&x.request.path, Escape::Uri, &mut place);
    place.push(b'/');
    if !x.request.args.is_empty() {
        place.push(b'?');
        place.extend_from_slice(&x.request.args);
    }
    error_page::redirect_headers(x, &place);
    Step::Status(301)
}

fn failed(x: &mut Exchange, path: &[u8], errno: i32) -> Step<'static> {
    let (status, level) = match errno {
        _ if is_absent(errno) => (404, Level::Error),
        _ if is_refused(errno) => (403, Level::Error),
        _ => (500, Level::Crit),
    };
    if status != 404 || x.settings().log_not_found {
        let options = x.location().extensions.of::<Options>();
        let follow = options.is_none_or(|options| options.links == Links::Follow);
        let call = if follow { "open()" } else { "openat()" };
        let path = String::from_utf8_lossy(path);
        let error = os_error(&std::io::Error::from_raw_os_error(errno));
        x.log(level, format_args!("{call} \"{path}\" failed ({error})"));
    }
    Step::Status(status)
}
