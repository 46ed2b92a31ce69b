//! `geoip_country`, `geoip_city`, `geoip_org`: variables with the location of a client's address, from databases in
//! the legacy GeoIP format. In `http` an address that trusted proxies report is used.
//!
//! ```nginx
//! geoip_country         GeoIP.dat;
//! geoip_city            GeoLiteCity.dat utf8;
//! geoip_proxy           192.168.100.0/24;
//! geoip_proxy_recursive on;
//! ```

pub(crate) mod database;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tidegate_codec::Known;
use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Word, once, row};
use tidegate_core::Exchange;
use tidegate_core::client::Address;
use tidegate_os::os_error;
use tidegate_plan::PlanBuilder;
use tidegate_plan::module::Module;

use database::{City, Country, Database, DatabaseKind};

use super::realip::{self, Trusted};
use tidegate_conf::network::{self, Network};

/// `ngx_http_geoip_module` and `ngx_stream_geoip_module`.
pub(crate) struct GeoIp;

/// The directives as written.
#[derive(Default)]
pub(crate) struct Conf {
    country: Option<File>,
    city: Option<File>,
    org: Option<File>,
    proxies: Vec<Trusted>,
    proxy_recursive: Option<bool>,
    warnings: Vec<Diagnostic>,
}

#[derive(Clone)]
struct File {
    name: Word,
    utf8: bool,
}

/// A database in use, with the settings for the client's address.
#[derive(Clone)]
struct DatabaseSource {
    database: Arc<Database>,
    utf8: bool,
    clients: Arc<Clients>,
}

/// How the address of a client is found.
#[derive(Debug)]
pub(crate) struct Clients {
    pub proxies: Vec<Trusted>,
    pub proxy_recursive: bool,
}

/// Files that this build has already read.
#[derive(Default)]
struct LoadedFiles(Vec<(Vec<u8>, Arc<Database>)>);

impl Module for GeoIp {
    type Conf = Conf;
    const NAME: &'static str = "geoip";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        plan.diagnostics.extend(conf.warnings.iter().cloned());
        let clients = Arc::new(Clients {
            proxies: conf.proxies.clone(),
            proxy_recursive: conf.proxy_recursive.unwrap_or(false),
        });
        plan.show(&clients);
        let country = load(&conf.country, "", DatabaseKind::Country, &clients, plan)?;
        let city = load(&conf.city, "City ", DatabaseKind::City, &clients, plan)?;
        let org = load(&conf.org, "Org ", DatabaseKind::Name, &clients, plan)?;
        // Without a database other directives may define variables of these names, as in an nginx without this
        // module.
        if country.is_some() || city.is_some() || org.is_some() {
            let names = COUNTRY_VARIABLES.iter().chain(CITY_VARIABLES).map(|(name, _)| *name);
            names.chain(["geoip_org"]).for_each(|name| plan.variables.keep(name));
        }
        for (name, value) in COUNTRY_VARIABLES {
            define(plan, name, country.clone(), *value);
        }
        for (name, value) in CITY_VARIABLES {
            define(plan, name, city.clone(), *value);
        }
        define(plan, "geoip_org", org, |source, address| {
            Some(source.text(source.database.name(address)?))
        });
        Ok(())
    }

    fn prepare_stream(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        GeoIp::prepare_http(conf, plan)
    }
}

const ROWS: &[Directive<Conf>] = &[
    row(
        "geoip_country",
        Contexts::HTTP_STREAM,
        Arity::ONE_OR_TWO,
        "",
        "Database of countries in the legacy GeoIP format.",
        |conf: &mut Conf, args| once(&mut conf.country, file(args)?, args),
    ),
    row(
        "geoip_city",
        Contexts::HTTP_STREAM,
        Arity::ONE_OR_TWO,
        "",
        "Database of cities in the legacy GeoIP format; with `utf8` its texts are converted.",
        |conf: &mut Conf, args| once(&mut conf.city, file(args)?, args),
    ),
    row(
        "geoip_org",
        Contexts::HTTP_STREAM,
        Arity::ONE_OR_TWO,
        "",
        "Database of organisations, providers, domains or networks in the legacy GeoIP format.",
        |conf: &mut Conf, args| once(&mut conf.org, file(args)?, args),
    ),
    row(
        "geoip_proxy",
        Contexts::HTTP,
        Arity::ONE,
        "",
        "A trusted proxy whose `X-Forwarded-For` has the client's address; an address or a network.",
        set_proxy,
    ),
    row(
        "geoip_proxy_recursive",
        Contexts::HTTP,
        Arity::FLAG,
        "off",
        "Whether the last address that is no trusted proxy's counts, instead of the last.",
        |conf: &mut Conf, args| once(&mut conf.proxy_recursive, args.flag(0)?, args),
    ),
];

/// Computes a variable's value for an address.
type Value = fn(&DatabaseSource, IpAddr) -> Option<Vec<u8>>;

const COUNTRY_VARIABLES: &[(&str, Value)] = &[
    ("geoip_country_code", |source, address| source.country(address, |country| country.code)),
    ("geoip_country_code3", |source, address| source.country(address, |country| country.code3)),
    ("geoip_country_name", |source, address| source.country(address, |country| country.name)),
];

const CITY_VARIABLES: &[(&str, Value)] = &[
    ("geoip_city_continent_code", |source, address| {
        source.city_country(address, |country| country.continent)
    }),
    ("geoip_city_country_code", |source, address| {
        source.city_country(address, |country| country.code)
    }),
    ("geoip_city_country_code3", |source, address| {
        source.city_country(address, |country| country.code3)
    }),
    ("geoip_city_country_name", |source, address| {
        source.city_country(address, |country| country.name)
    }),
    ("geoip_region", |source, address| source.city_text(address, |city| city.region)),
    ("geoip_region_name", |source, address| {
        let city = source.database.city(address)?;
        let region = std::str::from_utf8(city.region).ok()?;
        let name = database::region_name(database::country(city.country)?.code, region)?;
        Some(name.as_bytes().to_vec())
    }),
    ("geoip_city", |source, address| source.city_text(address, |city| city.name)),
    ("geoip_postal_code", |source, address| source.city_text(address, |city| city.postal_code)),
    ("geoip_latitude", |source, address| source.degrees(address, |city| city.latitude)),
    ("geoip_longitude", |source, address| source.degrees(address, |city| city.longitude)),
    ("geoip_dma_code", |source, address| {
        Some(source.database.city(address)?.dma_code.to_string().into_bytes())
    }),
    ("geoip_area_code", |source, address| {
        Some(source.database.city(address)?.area_code.to_string().into_bytes())
    }),
];

fn file(args: &Args<'_>) -> Result<File, Diagnostic> {
    let utf8 = match args.len() {
        1 => false,
        _ if args.bytes(1) == b"utf8" => true,
        _ => {
            let message = format!("invalid parameter \"{}\"", args.word(1).display());
            return Err(args.error(1, message));
        }
    };
    Ok(File { name: args.word(0).clone(), utf8 })
}

fn set_proxy(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    conf.proxies.push(trusted_proxy(args, &mut conf.warnings)?);
    Ok(())
}

/// Returns the proxy of `geoip_proxy` and of `geoip2_proxy`: an address or a network.
pub(super) fn trusted_proxy(
    args: &Args<'_>,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Trusted, Diagnostic> {
    let text = args.text(0)?;
    let Some((network, exact)) = Network::parse(text) else {
        return Err(args.error(0, format!("invalid network \"{text}\"")));
    };
    if !exact {
        warnings.push(network::meaningless_bits(args, 0));
    }
    Ok(Trusted::Network(network))
}

fn load(
    file: &Option<File>,
    what: &str,
    kind: DatabaseKind,
    clients: &Arc<Clients>,
    plan: &mut PlanBuilder<'_>,
) -> Result<Option<DatabaseSource>, Diagnostic> {
    let Some(File { name, utf8 }) = file else { return Ok(None) };
    let path = plan.conf_path(&name.display());
    let known = plan.shared::<LoadedFiles>().0.iter().find(|(known, _)| *known == name.bytes);
    let database = match known.map(|(_, database)| database.clone()) {
        Some(database) => database,
        None => {
            let bytes = plan.environment.resources.read(&path).map_err(|error| {
                let (path, reason) = (path.display(), os_error(&error));
                Diagnostic::emerg(format!("GeoIP_open(\"{path}\") failed ({reason})")).at(name.span)
            })?;
            let database = Database::parse(bytes).map(Arc::new).ok_or_else(|| {
                let message = format!("invalid GeoIP {what}database \"{}\"", path.display());
                let help = "for a database in the newer format (*.mmdb): `geoip2`";
                Diagnostic::emerg(message).at(name.span).help(help)
            })?;
            plan.shared::<LoadedFiles>().0.push((name.bytes.clone(), database.clone()));
            database
        }
    };
    if database.kind() != kind {
        let edition = database.edition;
        let message = format!("invalid GeoIP {what}database \"{}\" type:{edition}", path.display());
        return Err(Diagnostic::emerg(message).at(name.span));
    }
    Ok(Some(DatabaseSource { database, utf8: *utf8, clients: clients.clone() }))
}

/// Defines a variable. It exists without a database too, and then has no value.
fn define(plan: &mut PlanBuilder<'_>, name: &str, source: Option<DatabaseSource>, value: Value) {
    let compute = move |x: &mut Exchange, out: &mut Vec<u8>| {
        let found = source.as_ref().and_then(|source| value(source, source.clients.address(x)));
        found.map(|text| out.extend_from_slice(&text)).is_some()
    };
    plan.variables.define_computed(name, Arc::new(compute), true);
}

impl DatabaseSource {
    fn country(&self, address: IpAddr, part: fn(&Country) -> &'static str) -> Option<Vec<u8>> {
        let country = database::country(self.database.country(address)?)?;
        Some(part(&country).as_bytes().to_vec())
    }

    fn city_country(&self, address: IpAddr, part: fn(&Country) -> &'static str) -> Option<Vec<u8>> {
        let country = database::country(self.database.city(address)?.country)?;
        Some(part(&country).as_bytes().to_vec())
    }

    /// Returns a text of the city record; an empty text is no value.
    fn city_text(
        &self,
        address: IpAddr,
        part: for<'c> fn(&City<'c>) -> &'c [u8],
    ) -> Option<Vec<u8>> {
        let city = self.database.city(address)?;
        Some(part(&city)).filter(|text| !text.is_empty()).map(|text| self.text(text))
    }

    fn degrees(&self, address: IpAddr, part: fn(&City<'_>) -> i32) -> Option<Vec<u8>> {
        let number = part(&self.database.city(address)?);
        let (sign, number) = (if number < 0 { "-" } else { "" }, number.unsigned_abs());
        Some(format!("{sign}{}.{:04}", number / 10_000, number % 10_000).into_bytes())
    }

    fn text(&self, text: &[u8]) -> Vec<u8> {
        match self.utf8 {
            true => text.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes(),
            false => text.to_vec(),
        }
    }
}

impl Clients {
    /// Returns the client's address, that which trusted proxies report.
    pub(crate) fn address(&self, x: &Exchange) -> IpAddr {
        let Address::Inet(own) = x.client_address() else { return NO_ADDRESS };
        let own = SocketAddr::new(own.ip(), 0);
        if !realip::is_trusted(&self.proxies, &Address::Inet(own)) {
            return own.ip();
        }
        let values: Vec<&[u8]> = x.request.head.headers.all(Known::XForwardedFor).collect();
        let client = realip::client(values.into_iter(), &self.proxies, self.proxy_recursive);
        client.unwrap_or(own).ip()
    }
}

/// Stands in for the address of a client that has none.
const NO_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);
