//! A component that misbehaves, or reports its request and access rights, by path: the cases in `tests/handlers` run
//! it.
#![forbid(unsafe_code)]

mod inspect;
mod response;

use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use wasip2::cli::stderr::get_stderr;
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{ErrorCode, IncomingRequest, OutgoingBody, ResponseOutparam};

use response::{begin, refused, send};

/// The handler that is exported.
pub struct Component;

impl Guest for Component {
    fn handle(request: IncomingRequest, respond: ResponseOutparam) {
        let target = request.path_with_query().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        match path {
            "/trap" => trap(),
            "/loop" => spin(),
            "/allocate" => allocate(),
            "/recurse" => drop(black_box(recurse(1))),
            "/wait" => subscribe_duration(u64::MAX).block(),
            "/silent" => {}
            "/error" => {
                ResponseOutparam::set(
                    respond,
                    Err(ErrorCode::InternalError(Some("as asked".into()))),
                );
            }
            "/unfinished" => {
                if let Some((body, stream)) = begin(respond, b"unfinished") {
                    drop(stream);
                    drop(body);
                }
            }
            "/early-trap" => {
                let _begun = begin(respond, b"begun");
                trap();
            }
            "/begun-trap" => begun(respond, trap),
            "/begun-wait" => begun(respond, || subscribe_duration(u64::MAX).block()),
            "/begun-loop" => begun(respond, spin),
            "/endless" => endless(respond),
            "/late" => {
                send(respond, 200, b"in time");
                spin();
            }
            "/respond" => refused(respond, query),
            "/pieces" => pieces(respond, query.parse().unwrap_or(0)),
            "/count" => {
                static REQUESTS: AtomicU64 = AtomicU64::new(0);
                let count = REQUESTS.fetch_add(1, Ordering::Relaxed) + 1;
                send(respond, 200, count.to_string().as_bytes());
            }
            "/echo" => send(respond, 200, &inspect::body(&request)),
            "/describe" => send(respond, 200, inspect::describe(&request).as_bytes()),
            "/environment" => send(respond, 200, inspect::environment().as_bytes()),
            "/read" => send(respond, 200, inspect::read(query).as_bytes()),
            "/write" => send(respond, 200, inspect::write(query).as_bytes()),
            "/fetch" => send(respond, 200, inspect::fetch(query).as_bytes()),
            "/connect" => send(respond, 200, inspect::connect().as_bytes()),
            _ => send(respond, 404, b"no such path"),
        }
    }
}

#[cfg(target_arch = "wasm32")]
wasip2::http::proxy::export!(Component);

fn trap() {
    let _ = get_stderr().write_all(b"about to fail\n");
    panic!("as asked");
}

fn spin() {
    let mut rounds = 0_u64;
    loop {
        rounds = black_box(rounds).wrapping_add(1);
    }
}

fn allocate() {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    loop {
        kept.push(black_box(vec![1; 1 << 20]));
    }
}

fn recurse(depth: u64) -> u64 {
    if depth == u64::MAX {
        return depth;
    }
    black_box(depth) ^ recurse(black_box(depth + 1))
}

/// Makes a response whose body begins without an error; a pause lets the beginning be sent.
fn begun(respond: ResponseOutparam, rest: fn()) {
    let _body = begin(respond, b"begun");
    subscribe_duration(1_000_000).block();
    rest();
}

/// Streams a gigabyte, more than all buffers hold.
fn endless(respond: ResponseOutparam) {
    let Some((body, mut stream)) = begin(respond, b"") else { return };
    let piece = vec![b'm'; 1 << 16];
    for _ in 0..1 << 14 {
        if stream.write_all(&piece).is_err() {
            return;
        }
    }
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
}

/// Streams `count` pieces of a kilobyte.
fn pieces(respond: ResponseOutparam, count: usize) {
    let Some((body, mut stream)) = begin(respond, b"") else { return };
    for _ in 0..count {
        if stream.write_all(&[b'p'; 1 << 10]).is_err() {
            return;
        }
    }
    drop(stream);
    let _ = OutgoingBody::finish(body, None);
}
