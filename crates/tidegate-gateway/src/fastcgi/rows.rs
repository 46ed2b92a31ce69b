//! The `fastcgi_*` directives.

use tidegate_conf::{Arity, Contexts, Directive, once, row};

use super::Conf;
use crate::common::cgi::{HasCgi, cgi_rows};
use crate::common::options::{HasGateway, gateway_rows};
use crate::common::store::gateway_store_rows;

const ALL: Contexts = Contexts::HTTP_SERVER_LOCATION;

pub(super) const CONNECTION: &[Directive<Conf>] = gateway_rows!(connection "fastcgi_", Conf);

pub(super) const RESPONSES: &[Directive<Conf>] = gateway_rows!(responses "fastcgi_", Conf);

pub(super) const SHARED: &[Directive<Conf>] = gateway_rows!("fastcgi_", Conf);

pub(super) const STORE: &[Directive<Conf>] = gateway_store_rows!("fastcgi_", Conf);

pub(super) const CGI: &[Directive<Conf>] = cgi_rows!("fastcgi_", Conf);

pub(super) const OWN: &[Directive<Conf>] = &[
    row(
        "fastcgi_index",
        ALL,
        Arity::ONE,
        "",
        "File name appended to a path that ends with a slash, in `$fastcgi_script_name`.",
        |conf, args| once(&mut conf.index, args.word(0).clone(), args),
    ),
    row(
        "fastcgi_split_path_info",
        ALL,
        Arity::ONE,
        "",
        "Expression with two groups: `$fastcgi_script_name` and `$fastcgi_path_info`.",
        |conf, args| once(&mut conf.split, args.word(0).clone(), args),
    ),
    row(
        "fastcgi_catch_stderr",
        ALL,
        Arity::ONE,
        "",
        "Text on the application's error stream that makes its response invalid.",
        |conf, args| {
            conf.catch_stderr.get_or_insert_default().push(args.word(0).clone());
            Ok(())
        },
    ),
    row(
        "fastcgi_keep_conn",
        ALL,
        Arity::FLAG,
        "",
        "Whether connections are kept as the group says; not written: for a busy moment.",
        |conf, args| once(&mut conf.keep_conn, args.flag(0)?, args),
    ),
];
