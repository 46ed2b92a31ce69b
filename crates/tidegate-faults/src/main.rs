//! The server with handlers that misbehave, and handlers that report the results: the cases in `tests/handlers` run
//! against it.
#![forbid(unsafe_code)]

mod gate;

use std::fs::File;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use gate::Gate;
use tidegate::{Request, Response, Result, Server, with_variables};

/// The gate that `/wait` waits at and `/release` opens.
static GATE: Gate = Gate::new();
/// Bytes that streams have written.
static WRITTEN: AtomicU64 = AtomicU64::new(0);
/// How streams and waits ended.
static ENDS: Mutex<Vec<String>> = Mutex::new(Vec::new());

static MEGABYTE: [u8; 1 << 20] = [b'm'; 1 << 20];

fn main() -> ExitCode {
    Server::new()
        .handler("panic", |_: Request| panic!("as asked"))
        .handler("fail", |_: Request| Err("no such report".into()))
        .handler("wait", wait)
        .handler("release", release)
        .handler("begun", |_: Request| Ok(Response::text(GATE.arrived().to_string())))
        .handler("ends", |_: Request| Ok(Response::text(ends().join("\n"))))
        .handler("endless", endless)
        .handler("stream_panic", |_: Request| broken(|| panic!("in the middle")))
        .handler("stream_fail", |_: Request| broken(|| Err(std::io::Error::other("torn"))))
        .handler("stream_stall", |_: Request| broken(stall))
        .handler("stream", stream)
        .handler("respond", respond)
        .handler("ignore", |_: Request| Ok(Response::text("ignored")))
        .handler("echo", echo)
        .handler("describe", with_variables(&["arg_a", "server_port", "http_x_none"], describe))
        .handler("file", with_variables(&["request_filename"], file))
        .run()
}

fn ends() -> std::sync::MutexGuard<'static, Vec<String>> {
    ENDS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn wait(request: Request) -> Result {
    GATE.pass();
    let end = if request.is_abandoned() { "abandoned" } else { "awaited" };
    ends().push(end.to_owned());
    Ok(Response::text("done"))
}

fn release(request: Request) -> Result {
    let count = request.query_parameter("n").and_then(|n| str::from_utf8(n).ok()?.parse().ok());
    GATE.open(count.unwrap_or(1));
    Ok(Response::text("released"))
}

/// Streams a gigabyte, more than all buffers hold.
fn endless(_: Request) -> Result {
    Ok(Response::stream(|out| {
        let result = (0..1024).try_for_each(|_| {
            out.write_all(&MEGABYTE)?;
            WRITTEN.fetch_add(MEGABYTE.len() as u64, Ordering::Relaxed);
            Ok::<(), std::io::Error>(())
        });
        let end = result.as_ref().map_or_else(|error| error.kind().to_string(), |()| "all".into());
        ends().push(end);
        result
    }))
}

/// Makes a response whose body begins without an error.
fn broken(rest: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> Result {
    Ok(Response::stream(move |out| {
        out.write_all(b"begun")?;
        out.flush()?;
        rest()
    }))
}

fn stall() -> std::io::Result<()> {
    GATE.pass();
    ends().push("stalled".to_owned());
    Ok(())
}

/// Streams `?bytes=N`; `&length=N` is announced as the length.
fn stream(request: Request) -> Result {
    let number = |name| {
        let text = request.query_parameter(name)?;
        str::from_utf8(text).ok()?.parse::<u64>().ok()
    };
    let (bytes, length) = (number("bytes").unwrap_or(0), number("length"));
    let response = Response::stream(move |out| {
        std::io::copy(&mut std::io::repeat(b's').take(bytes), out).map(drop)
    });
    Ok(match length {
        Some(length) => response.content_length(length),
        None => response,
    })
}

/// Responds with `?status=N&name=TEXT&value=TEXT`, where `_` in the texts is a line end.
fn respond(request: Request) -> Result {
    let text = |name| {
        let text = request.query_parameter(name).unwrap_or_default();
        String::from_utf8_lossy(text).replace('_', "\r\n")
    };
    let response = Response::text("body").status(text("status").parse().unwrap_or(200));
    Ok(match &*text("name") {
        "" => response,
        name => response.header(name, text("value")),
    })
}

fn echo(mut request: Request) -> Result {
    Ok(Response::bytes("application/octet-stream", request.body().read_all(64 << 20)?))
}

fn describe(mut request: Request) -> Result {
    let shown = |text: Option<&[u8]>| match text {
        Some(text) => String::from_utf8_lossy(text).into_owned(),
        None => "-".to_owned(),
    };
    let mut text = format!(
        "{} {} {} {}\nfrom {} at {}\na={} none={} x={}\n",
        shown(Some(request.method())),
        shown(Some(request.target())),
        shown(Some(request.path())),
        shown(Some(request.query())),
        request.client_address(),
        shown(request.variable("server_port").map(|port| if port.is_empty() {
            port
        } else {
            b"port"
        })),
        shown(request.variable("arg_a")),
        shown(request.variable("http_x_none")),
        shown(request.header("x-test")),
    );
    text.push_str(&format!(
        "deadline {}\nbody {}\n",
        request.deadline().is_some(),
        request.body().len()
    ));
    Ok(Response::text(text))
}

fn file(request: Request) -> Result {
    let path =
        String::from_utf8(request.variable("request_filename").unwrap_or_default().to_vec())?;
    Ok(Response::file(File::open(path)?)?.header("Content-Type", "text/x-file"))
}
