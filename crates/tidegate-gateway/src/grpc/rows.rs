//! The `grpc_*` directives.

use tidegate_conf::{Arity, Contexts, Directive, once, row};

use super::Conf;
use crate::common::options::{self, HasGateway, gateway_rows};
use crate::common::tls::gateway_tls_rows;

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;

pub(super) const CONNECTION: &[Directive<Conf>] = gateway_rows!(connection "grpc_", Conf);

pub(super) const RESPONSES: &[Directive<Conf>] = gateway_rows!(responses "grpc_", Conf);

pub(super) const TLS: &[Directive<Conf>] = gateway_tls_rows!("grpc_", Conf);

pub(super) const OWN: &[Directive<Conf>] = &[
    row(
        "grpc_pass",
        Contexts::LOCATION.union(Contexts::LOCATION_IF),
        Arity::ONE,
        "",
        "gRPC server: an address with a port, a path behind `unix:`, or a group's name, with `grpc://` or, for TLS, \
         `grpcs://` in front.",
        |conf, args| once(&mut conf.pass.word, args.word(0).clone(), args),
    ),
    row(
        "grpc_set_header",
        ALL,
        Arity::TWO,
        "Content-Length $content_length",
        "Sets or, with an empty value, leaves out a field of the request.",
        |conf, args| {
            let field = (args.word(0).clone(), args.word(1).clone());
            conf.set_header.get_or_insert_default().push(field);
            Ok(())
        },
    ),
    row(
        "grpc_web",
        ALL,
        Arity::FLAG,
        "off",
        "Whether requests of browsers in gRPC-Web are passed on as gRPC, and their responses as gRPC-Web.",
        |conf, args| {
            let flag = args.flag(0)?;
            once(&mut conf.web, flag, args)
        },
    ),
    row(
        "grpc_next_upstream",
        ALL,
        Arity::AT_LEAST_ONE,
        "error timeout",
        "Cases in which the request is passed to another server.",
        |conf, args| options::set_cases(conf.gateway(), args, options::UNCACHED_CASES),
    ),
];
