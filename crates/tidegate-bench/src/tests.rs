//! Tests of the parts that decide figures, and one run of the load against the origin.

use std::ffi::OsString;
use std::path::Path;

use crate::machine::Processors;
use crate::options::{Command, Options, parse};
use crate::origin::Origin;
use crate::report::Environment;
use crate::server::{Binary, Kind};
use crate::suites::Context;

mod depth;
mod draw;
mod figures;
mod growth;
mod parsing;
mod protocols;
mod smoke;
mod study;
mod tuning;
mod wine;

/// A load of one line.
fn options(line: &[&str]) -> Result<Options, String> {
    match parse(line.iter().map(OsString::from))? {
        Command::Run(options) => Ok(*options),
        _ => Err("no run".to_owned()),
    }
}

/// Returns the context of this line, with genuine nginx on both sides; `None` where it is not installed.
fn with_nginx_in_both_places(line: &[&str]) -> Option<(Context, Environment)> {
    let Ok(nginx) = Binary::probe(Kind::Nginx, Path::new("/usr/sbin/nginx")) else {
        eprintln!("skipped: nginx is not installed");
        return None;
    };
    let options = options(line).expect("the line is in order");
    let processors = Processors::choose(None, None).expect("a processor");
    let environment = Environment::collect(&nginx, Some(&nginx), processors, &options);
    let context = Context {
        options,
        processors,
        origin: Origin::start().expect("a loopback port"),
        tidegate: nginx.clone(),
        nginx: Some(nginx),
        others: Vec::new(),
    };
    Some((context, environment))
}
