//! `mp4`: parts of videos by time (`?start=SECONDS&end=SECONDS`), as videos of their own.
//!
//! ```nginx
//! location /video/ {
//!     mp4;
//!     mp4_max_buffer_size 20m;
//!     mp4_start_key_frame on;
//! }
//! ```
//! The index (`moov`) is read on a pool thread, cut (`cut.rs`, `track.rs`: pure), and sent in front of the part of
//! the file that it describes.

mod boxes;
mod cut;
mod find;
#[cfg(test)]
mod tests;
mod track;

use bytes::Bytes;
use tidegate_codec::range::ByteRange;
use tidegate_codec::request::Method;
use tidegate_codec::{Known, conditional};
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, once, row};
use tidegate_core::exchange::Exchange;
use tidegate_core::{Level, Step, blocking, file_path};
use tidegate_os::os_error;
use tidegate_plan::LocationBuilder;
use tidegate_plan::module::{BlockInfo, Module};

use super::static_files::{
    self, Content, head, open, open_nonblocking, respond, serve, warm, whole,
};
use cut::{MoviePart, RequestedPart};
use find::PartError;

/// `ngx_http_mp4_module`.
pub(crate) struct Mp4;

#[derive(Default)]
pub(crate) struct Conf {
    on: Option<()>,
    buffer_size: Option<u64>,
    max_buffer_size: Option<u64>,
    start_key_frame: Option<bool>,
}

const BUFFER_SIZE: u64 = 512 << 10;
const MAX_BUFFER_SIZE: u64 = 10 << 20;
const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;

impl Module for Mp4 {
    type Conf = Conf;
    const NAME: &'static str = "mp4";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn inherit(child: &mut Conf, parent: &Conf, _block: BlockInfo<'_>) {
        child.buffer_size = child.buffer_size.or(parent.buffer_size);
        child.max_buffer_size = child.max_buffer_size.or(parent.max_buffer_size);
        child.start_key_frame = child.start_key_frame.or(parent.start_key_frame);
    }

    fn prepare(conf: &Conf, location: &mut LocationBuilder<'_, '_>) -> Result<(), Diagnostic> {
        if conf.on.is_some() {
            // An index that fits the first buffer is read, however small the largest one is to be.
            let index_max = conf.max_buffer_size.unwrap_or(MAX_BUFFER_SIZE);
            let index_max = index_max.max(conf.buffer_size.unwrap_or(BUFFER_SIZE));
            let key_frame = conf.start_key_frame.unwrap_or(false);
            location.plan.show(&(index_max, key_frame));
            location.content(Box::new(move |x| handle(x, index_max, key_frame)));
        }
        Ok(())
    }
}

const ROWS: &[Directive<Conf>] = &[
    row(
        "mp4",
        Contexts::LOCATION,
        Arity::NONE,
        "",
        "Serves the part of an MP4 file between the times, in seconds, that the `start` and `end` \
         arguments name.",
        |conf, _args| {
            conf.on = Some(());
            Ok(())
        },
    ),
    row(
        "mp4_buffer_size",
        ALL,
        Arity::ONE,
        "512k",
        "An index (moov) of this size is read even if `mp4_max_buffer_size` is smaller. The memory for an index is as \
         large as the index.",
        |conf, args| size(&mut conf.buffer_size, args),
    ),
    row(
        "mp4_max_buffer_size",
        ALL,
        Arity::ONE,
        "10m",
        "The largest index (moov) that is read; for a file with a larger one a request for a part gets 500.",
        |conf, args| size(&mut conf.max_buffer_size, args),
    ),
    row(
        "mp4_start_key_frame",
        ALL,
        Arity::FLAG,
        "off",
        "Whether a part begins with a key frame; what is too early is hidden by an edit list.",
        |conf, args| once(&mut conf.start_key_frame, args.flag(0)?, args),
    ),
];

fn size(slot: &mut Option<u64>, args: &Args<'_>) -> Result<(), Diagnostic> {
    once(slot, args.size(0)?, args)
}

fn handle(x: &mut Exchange, index_max: u64, key_frame: bool) -> Step<'_> {
    if !matches!(x.request.method, Method::Get | Method::Head) {
        return Step::Status(405);
    }
    let wanted = requested_part(&x.request.args).filter(|_| !x.request.path.ends_with(b"/"));
    let (Some(mut wanted), Some(path)) = (wanted, file_path::map(x)) else {
        return serve(x, |x, file| whole(x, "", file));
    };
    wanted.key_frame = key_frame;
    Step::Wait(Box::pin(part(x, path, wanted, index_max)))
}

/// Responds with a part of a file.
///
/// | await | waits for | dropped there |
/// |---|---|---|
/// | warm | a pool thread that brings the file's name into memory | nothing is left behind |
/// | piece | the index is read and cut on a pool thread | a waiting job is not begun; the result of a running one is discarded |
///
/// Invariant: the response is either the whole file or a video of its own, whose index describes the bytes that
/// follow it: the new index, then one range of the file. Its entity tag is made from its own length. A video that cannot be
/// cut is 500, as in nginx. Sources: `mp4`, `mp4_max_buffer_size`, `mp4_start_key_frame`, ISO/IEC 14496-12.
async fn part(
    x: &mut Exchange,
    path: Vec<u8>,
    wanted: RequestedPart,
    index_max: u64,
) -> Step<'static> {
    let entry = match open_nonblocking(x, &path) {
        Some(entry) => entry,
        None => {
            warm(x, &path).await;
            open(x, &path)
        }
    };
    let Some(file) = entry.file() else {
        return respond(x, &path, &entry, |x, file| whole(x, "", file));
    };
    let (content, size) = (file.content.clone(), file.size);
    let made = blocking::run(move || Ok(movie_part(&content, size, index_max, &wanted))).await;
    match made.map_err(PartError::Read).and_then(|made| made) {
        Ok(made) => {
            x.progress.action = "sending mp4 to client";
            head(x, file);
            // Nothing to cut: the file as it is.
            let Some(made) = made else { return Step::Respond(whole(x, "", file)) };
            let length = made.head.len() as u64 + made.length;
            if x.response.headers.contains(Known::Etag) {
                let mut etag = Vec::with_capacity(32);
                conditional::write_etag(file.modified, length, &mut etag);
                x.response.headers.set_known(Known::Etag, &etag);
            }
            let range = ByteRange { start: made.start, end: made.start + made.length };
            let body = static_files::part(x, file, Bytes::from(made.head), range);
            Step::Respond(body)
        }
        Err(problem) => {
            let path = String::from_utf8_lossy(&path);
            match problem {
                PartError::Movie(fault) => {
                    x.log(Level::Error, format_args!("{}", fault.about(&path)));
                }
                PartError::Read(error) => {
                    let error = os_error(&error);
                    x.log(Level::Crit, format_args!("pread() \"{path}\" failed ({error})"));
                }
            }
            Step::Status(500)
        }
    }
}

/// Makes the part; `None` where that is the whole file.
fn movie_part(
    content: &Content,
    size: u64,
    index_max: u64,
    wanted: &RequestedPart,
) -> Result<Option<MoviePart>, PartError> {
    let found = find::find(content, size, index_max)?;
    if wanted.start == 0 && wanted.length.is_none() && found.is_streamable {
        return Ok(None);
    }
    cut::cut(&found.movie(), wanted).map(Some).map_err(PartError::Movie)
}

/// Parses the arguments of a request; `None` for the whole file.
fn requested_part(args: &[u8]) -> Option<RequestedPart> {
    let start = argument(args, b"start").and_then(milliseconds);
    let end = argument(args, b"end").and_then(milliseconds).filter(|end| *end > 0);
    if start.is_none() && end.is_none() {
        return None;
    }
    let start = start.unwrap_or(0);
    let length = end.and_then(|end| end.checked_sub(start)).filter(|length| *length > 0);
    Some(RequestedPart { start, length, key_frame: false })
}

fn argument<'a>(args: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    args.split(|byte| *byte == b'&').find_map(|pair| {
        let (key, value) = pair.split_at_checked(name.len())?;
        if key.eq_ignore_ascii_case(name) { value.strip_prefix(b"=") } else { None }
    })
}

/// Parses seconds with up to three decimals; further ones are ignored.
fn milliseconds(text: &[u8]) -> Option<u64> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    if text.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |value: u64, byte: &u8| {
        value.checked_mul(10)?.checked_add(u64::from(byte.saturating_sub(b'0')))
    };
    let whole = whole.iter().try_fold(0, digit)?;
    fraction.iter().chain(b"000").take(3).try_fold(whole, digit)
}
