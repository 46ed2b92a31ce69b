//! A configuration with a directive's written default has the same effect as one without the directive.
//!
//! Compared are the plans: the settings of the core modules, the number of handlers, filters, trailers, loggers and
//! services, and the settings that handlers hold, which modules show to tests
//! ([`show`](tidegate_plan::PlanBuilder::show)). Some other value of the directive must differ from the default there:
//! a directive whose value no plan shows is a failure, unless its row says that it has no effect, or it is listed with
//! the reason. So no directive is without effect in silence. One that is declared without effect must not be shown.

mod surroundings;
mod wrong;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

use tidegate_conf::{Kind, Row};
use tidegate_core::plan::{Location, Plan};
use tidegate_core::settings::SessionSettings;
use tidegate_plan::testing::{Bench, ModuleList};

use crate::testing::All;
use surroundings::{Place, places};

/// Directives that are not compared, each with its reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("listen", "the default is words: the port depends on the rights of the process"),
    ("map_hash_bucket_size", "the default is words: it depends on the processor"),
    ("userid_service", "the default is words: the address of the server"),
    ("user", "the built-in user is read at start, if the process may change it"),
    ("env", "the worker keeps `TZ` in any case"),
    ("thread_pool", "the pool `default` is started when a location first uses it"),
    ("log_format", "the format `combined` is built in and cannot be defined again"),
    (
        "proxy_cache_key",
        "the default is about this text: scheme, origin, path and arguments as they are sent",
    ),
    (
        "grpc_set_header",
        "the default is about this text: the length of the body that is sent, with or without such a field of the client",
    ),
    ("proxy_ssl_name", "without the directive the name is the requested host, and no variable"),
    ("uwsgi_ssl_name", "the default is words"),
    ("grpc_ssl_name", "the default is words"),
    (
        "access_log in stream",
        "the default is that of `http`: sessions are not logged without the directive",
    ),
];

/// Directives whose values no plan shows although they have an effect, each with its reason.
const NOT_SHOWN: &[(&str, &str)] = &[
    ("acme", "it adds statements to the configuration before a plan is made"),
    ("mp4_buffer_size", "it only counts where `mp4_max_buffer_size` is smaller"),
    ("ssl_stapling_verify", "a certificate needs an issuer with an OCSP responder"),
];

/// Other values that directives are tried with, in place of each word of the default; between bars.
const OTHERS: &str = "off|on|7|7s|70k|16k|500|none|any|always|error|warn|merge|xml|retry|PUT|POST|user:r|1.0|\
    TLSv1.2|$args|x|optional|builtin|max=7|if_not_owner|secure|AES128-GCM-SHA256|X25519|text/x|7m|a b|a secure|\
    threads=handlers|nested|inject|http/protobuf|shared:o:1m|0123456789ABCDEFGHIJKLMNOPQRSTUV|unix:/s|\
    ring self=127.0.0.1";

#[test]
fn a_written_default_has_the_effect_of_no_directive() {
    let (mut comparison, mut wrong, mut compared) = (Comparison::<All>::default(), Vec::new(), 0);
    for module in crate::MODULES {
        let rows = module.rows().into_iter();
        for row in rows.filter(|row| !row.default.is_empty() && row.kind != Kind::Block) {
            for place in places(module.name(), &row) {
                let full = format!("{} in {}", row.name, place.context.describe());
                if LEFT_OUT.iter().any(|(left_out, _)| [row.name, &full].contains(left_out)) {
                    continue;
                }
                compared += 1;
                let found = comparison.mistake(&row, &place);
                wrong.extend(found.map(|found| format!("{full}: {found}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{} of {compared}", wrong.join("\n"), wrong.len());
    assert!(compared > 400, "{compared}");
}

/// A comparison of the plans of a list of modules.
struct Comparison<L> {
    /// Plans without the directive, by the configuration: those of a module's directives are the same.
    without: HashMap<String, Result<String, String>>,
    list: PhantomData<L>,
}

impl<L> Default for Comparison<L> {
    fn default() -> Self {
        Comparison { without: HashMap::new(), list: PhantomData }
    }
}

impl<L: ModuleList> Comparison<L> {
    /// Compares the plans with the default, without the directive, and with other values.
    fn mistake(&mut self, row: &Row, place: &Place) -> Option<String> {
        let with = |value: &str| effect::<L>(&place.with(&format!("{} {value};", row.name)));
        let without = self.without.entry(place.with("")).or_insert_with_key(|it| effect::<L>(it));
        let differs = |value: String| with(&value).is_ok_and(|it| Ok(&it) != without.as_ref());
        match (&*without, with(row.default)) {
            (Ok(without), Ok(with)) if *without == with => {
                let excused = NOT_SHOWN.iter().any(|(name, _)| *name == row.name);
                match (row.has_effect, others(row).any(differs)) {
                    (true, false) if !excused => Some("no plan shows its value".to_owned()),
                    (false, true) => {
                        Some("its value has an effect, which its row denies".to_owned())
                    }
                    _ => None,
                }
            }
            (Ok(without), Ok(with)) => Some(first_difference(without, &with)),
            (Err(errors), _) => Some(format!("the surroundings are refused: {errors}")),
            (_, Err(errors)) => Some(format!("the default is refused: {errors}")),
        }
    }
}

/// Returns values beside the default: one of its words is another one.
fn others(row: &Row) -> impl Iterator<Item = String> {
    let words: Vec<&str> = row.default.split(' ').collect();
    (0..words.len()).flat_map(move |index| {
        let words = words.clone();
        OTHERS.split('|').map(move |other| {
            let mut words = words.clone();
            words[index] = other;
            words.join(" ")
        })
    })
}

fn first_difference(without: &str, with: &str) -> String {
    let (mut without, mut with) = (without.lines(), with.lines());
    loop {
        match (without.next(), with.next()) {
            (without, with) if without == with => {}
            (without, with) => return format!("without {without:?}, with the default {with:?}"),
        }
    }
}

/// Returns the plan of a configuration as text.
fn effect<L: ModuleList>(config: &str) -> Result<String, String> {
    static FILES: LazyLock<[(&str, String); 2]> = LazyLock::new(surroundings::files);
    let files = FILES.each_ref().map(|(name, text)| (*name, text.as_str()));
    let bench = Bench::<L>::try_build(config, &files).map_err(|errors| errors.join("; "))?;
    let mut shown = format!("{:#?}\n{:?}\n", bench.plan.main, bench.warnings);
    show(&bench.plan, &mut shown);
    if let Some(sessions) = &bench.plan.sessions {
        show(sessions, &mut shown);
    }
    shown.push_str(&bench.shown.join("\n"));
    Ok(shown.replace(bench.dir.path().to_str().unwrap(), "DIR"))
}

fn show(plan: &Plan, shown: &mut String) {
    for listener in &plan.listeners {
        let (tls, datagram) = (listener.tls, listener.datagram);
        writeln!(shown, "{:?} {tls} {datagram} {:?}", listener.address, listener.socket).unwrap();
    }
    for server in &plan.servers {
        writeln!(shown, "{:?}\n{:#?}", server.name, server.settings).unwrap();
    }
    for location in &plan.locations {
        show_location(location, shown);
    }
    writeln!(shown, "services {}", plan.services.len()).unwrap();
}

fn show_location(location: &Location, shown: &mut String) {
    let types: BTreeMap<_, _> = location.settings.types.iter().collect();
    writeln!(shown, "{types:?}").unwrap();
    let mut settings = (*location.settings).clone();
    settings.types = Arc::default();
    writeln!(shown, "{settings:#?}").unwrap();
    writeln!(shown, "phases {:?}", location.phases).unwrap();
    writeln!(shown, "content {}", location.content.is_some()).unwrap();
    writeln!(shown, "filters {}", location.filters.len()).unwrap();
    writeln!(shown, "trailers {}", location.trailers.len()).unwrap();
    writeln!(shown, "loggers {}", location.loggers.len()).unwrap();
    writeln!(shown, "warn_uninitialized {}", location.warn_uninitialized).unwrap();
    writeln!(shown, "{:#?}", location.extensions.of::<SessionSettings>()).unwrap();
}
