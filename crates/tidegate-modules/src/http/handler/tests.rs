//! Handlers in a bench.

use std::sync::Arc;

use tidegate_core::Chunk;
use tidegate_handler::server::{Payload, Taken, register};
use tidegate_handler::{Request, Response, with_variables};

use super::stream::{BodyPiece, pipe};
use crate::testing::Bench;

#[test]
fn a_handler_gets_what_the_configuration_says() {
    let greet = |mut request: Request| {
        let name = request.variable("name").unwrap_or(b"?").to_vec();
        let body = request.body().read_all(100)?;
        Ok(Response::text([&name[..], b" ", request.path(), b" ", &body].concat()).status(201))
    };
    register("bench_greet", Arc::new(with_variables(&["name", "arg_none"], greet)));
    let bench = Bench::new("server { location / { set $name you; handler bench_greet; } }");
    let reply = bench.get("/a%62?x");
    assert_eq!((reply.status, reply.text()), (201, "you /ab "));
}

#[test]
fn errors_are_reported() {
    register("bench_known", Arc::new(|_: Request| Err("never called".into())));
    let unknown = |_: Request| Err("never called".into());
    register("bench_asks", Arc::new(with_variables(&["no_such_thing"], unknown)));
    let check = |config: &str, message: &str| {
        assert_eq!(Bench::errors(&format!("server {{ location / {{ {config} }} }}")), [message]);
    };
    check("handler bench_missing;", "unknown handler \"bench_missing\"");
    check("handler bench_asks;", "unknown \"no_such_thing\" variable");
    check("handler bench_known pool=bench;", "unknown thread pool \"bench\"");
    check("handler bench_known timeout=0;", "invalid parameter \"timeout=0\"");
    check("handler bench_known max_body=-1;", "invalid parameter \"max_body=-1\"");
    check("handler bench_known pool;", "invalid parameter \"pool\"");
    check("handler bench_known; handler bench_known;", "\"handler\" directive is duplicate");
}

#[test]
fn a_stream_waits_for_its_reader() {
    let (sink, mut pieces) = pipe();
    let response = Response::stream(|out| out.write_bytes(vec![1; 1 << 20].into()));
    let Payload::Stream(write) = Taken::try_from(response).unwrap().payload else { panic!() };
    let thread = std::thread::spawn(move || sink.run(write));
    let got = tidegate_rt::block_on(async move {
        let mut got = 0;
        loop {
            let piece = std::future::poll_fn(|context| pieces.poll_receive(context)).await;
            match piece {
                Some(BodyPiece::Chunk(Chunk::Bytes(bytes))) => {
                    assert!(bytes.len() <= 64 << 10);
                    got += bytes.len();
                }
                Some(BodyPiece::End) => return got,
                _ => panic!("another piece"),
            }
        }
    });
    assert_eq!(got.unwrap(), 1 << 20);
    thread.join().unwrap();
}
