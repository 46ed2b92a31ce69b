//! `geoip2`: variables with what a MaxMind DB file (`*.mmdb`) has about an address, in the syntax of the module
//! ngx_http_geoip2_module.
//!
//! ```nginx
//! geoip2 /etc/GeoLite2-Country.mmdb {
//!     auto_reload           5m;
//!     $country_build        metadata build_epoch;
//!     $country              default=ZZ country iso_code;
//!     $other_country        source=$arg_ip country names en;
//! }
//! geoip2_proxy           192.168.100.0/24;
//! geoip2_proxy_recursive on;
//! ```
//! Without `source` the address is the client's; in `http`, one that trusted proxies report.

pub(crate) mod database;
mod reload;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Args, Arity, Contexts, Diagnostic, Directive, Kind, Span, Statement, Word};
use tidegate_conf::{once, row};
use tidegate_core::{Exchange, Template};
use tidegate_plan::module::Module;
use tidegate_plan::{PlanBuilder, made_variable};

use super::geoip::{Clients, trusted_proxy};
use super::realip::Trusted;
use database::{Database, DatabasePath};
use reload::{CurrentDatabase, DatabaseReloader};

/// `ngx_http_geoip2_module` and `ngx_stream_geoip2_module`.
pub(crate) struct GeoIp2;

/// The directives as written.
#[derive(Default)]
pub(crate) struct Conf {
    files: Vec<FileConf>,
    proxies: Vec<Trusted>,
    proxy_recursive: Option<bool>,
    warnings: Vec<Diagnostic>,
}

/// A `geoip2` block.
struct FileConf {
    name: Word,
    /// `auto_reload`.
    reload: Option<Duration>,
    variables: Vec<VariableConf>,
}

/// A variable of a block.
struct VariableConf {
    name: String,
    span: Span,
    value: ValueConf,
}

enum ValueConf {
    Metadata(Metadata),
    Data {
        default: Option<Vec<u8>>,
        /// A variable with an address.
        source: Option<Word>,
        path: DatabasePath,
    },
}

/// What a block's variable can tell of the file itself.
#[derive(Clone, Copy, Debug)]
enum Metadata {
    BuildEpoch,
    LastCheck,
    LastChange,
}

impl Module for GeoIp2 {
    type Conf = Conf;
    const NAME: &'static str = "geoip2";
    const DIRECTIVES: &'static [&'static [Directive<Conf>]] = &[ROWS];

    fn prepare_http(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        plan.diagnostics.extend(conf.warnings.iter().cloned());
        let clients = Arc::new(Clients {
            proxies: conf.proxies.clone(),
            proxy_recursive: conf.proxy_recursive.unwrap_or(false),
        });
        plan.show(&clients);
        let mut reloader = DatabaseReloader::default();
        for file in &conf.files {
            // Before the file is read: one that is replaced meanwhile is read again.
            let path = plan.conf_path(&file.name.display());
            let seen = file.reload.and_then(|_| reload::stamp(&path).ok());
            let current = open(file, path, plan)?;
            if let Some(interval) = file.reload {
                reloader.add(current.clone(), interval, seen);
            }
            for variable in &file.variables {
                define(variable, &current, &clients, plan)?;
            }
        }
        if !reloader.is_empty() {
            reloader.log = Some(plan.main.error_log.clone());
            plan.services.push(Arc::new(reloader));
        }
        Ok(())
    }

    fn prepare_stream(conf: &Conf, plan: &mut PlanBuilder<'_>) -> Result<(), Diagnostic> {
        GeoIp2::prepare_http(conf, plan)
    }
}

const ROWS: &[Directive<Conf>] = &[
    Directive {
        name: "geoip2",
        contexts: Contexts::HTTP_STREAM,
        args: Arity::ONE,
        kind: Kind::Block,
        default: "",
        doc: "Defines variables by a MaxMind DB file. Lines: `$variable [default=TEXT] [source=$address] KEY …`, `$variable metadata build_epoch|last_check|last_change`, `auto_reload TIME`.",
        has_effect: true,
        set: set_file,
    },
    row(
        "geoip2_proxy",
        Contexts::HTTP,
        Arity::ONE,
        "",
        "A trusted proxy whose `X-Forwarded-For` has the client's address; an address or a network.",
        set_proxy,
    ),
    row(
        "geoip2_proxy_recursive",
        Contexts::HTTP,
        Arity::FLAG,
        "off",
        "Whether the last address that is no trusted proxy's counts, instead of the last.",
        |conf: &mut Conf, args| once(&mut conf.proxy_recursive, args.flag(0)?, args),
    ),
];

fn set_proxy(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    conf.proxies.push(trusted_proxy(args, &mut conf.warnings)?);
    Ok(())
}

fn set_file(conf: &mut Conf, args: &Args<'_>) -> Result<(), Diagnostic> {
    let name = args.word(0).clone();
    if conf.files.iter().any(|file| file.name.bytes == name.bytes) {
        let message = format!("Duplicate GeoIP2 mmdb - {}", name.display());
        return Err(args.error(0, message));
    }
    let mut file = FileConf { name, reload: None, variables: Vec::new() };
    for entry in args.entries()? {
        read_entry(entry, &mut file)?;
    }
    conf.files.push(file);
    Ok(())
}

/// Reads a line of a `geoip2` block.
fn read_entry(entry: &Statement, file: &mut FileConf) -> Result<(), Diagnostic> {
    let fail = |message: String| Err(Diagnostic::emerg(message).at(entry.span));
    if entry.name.bytes == b"auto_reload" {
        let [time] = &entry.args[..] else {
            return fail("invalid number of arguments for auto_reload".to_owned());
        };
        let Some(interval) = tidegate_conf::parse_seconds(&time.bytes).filter(|it| !it.is_zero())
        else {
            return fail(format!("invalid value \"{}\" for auto_reload", time.display()));
        };
        file.reload = Some(interval);
        return Ok(());
    }
    let [b'$', name @ ..] = &entry.name.bytes[..] else {
        return fail(format!("invalid setting \"{}\"", entry.name.display()));
    };
    let name = String::from_utf8_lossy(name).into_owned();
    let value = match &entry.args[..] {
        [word, field] if word.bytes == b"metadata" => match metadata(&field.bytes) {
            Some(field) => ValueConf::Metadata(field),
            None => {
                let fields = "build_epoch, last_check and last_change";
                let message = format!("unknown metadata \"{}\"", field.display());
                return Err(Diagnostic::emerg(message)
                    .at(field.span)
                    .help(format!("there are {fields}")));
            }
        },
        words => data(words, &name)?,
    };
    file.variables.push(VariableConf { name, span: entry.name.span, value });
    Ok(())
}

fn metadata(field: &[u8]) -> Option<Metadata> {
    match field {
        b"build_epoch" => Some(Metadata::BuildEpoch),
        b"last_check" => Some(Metadata::LastCheck),
        b"last_change" => Some(Metadata::LastChange),
        _ => None,
    }
}

/// Reads `[default=TEXT] [source=$address] KEY …`.
fn data(words: &[Word], name: &str) -> Result<ValueConf, Diagnostic> {
    let (mut default, mut source, mut first) = (None, None, 0);
    for word in words {
        let empty = match &word.bytes[..] {
            [b'd', b'e', b'f', b'a', b'u', b'l', b't', b'=', text @ ..] => {
                default = Some(text.to_vec());
                text.is_empty()
            }
            [b's', b'o', b'u', b'r', b'c', b'e', b'=', text @ ..] => {
                if !text.is_empty() && text[0] != b'$' {
                    let text = String::from_utf8_lossy(text);
                    let message = format!("invalid source variable name \"{text}\"");
                    return Err(Diagnostic::emerg(message).at(word.span));
                }
                source = Some(Word { bytes: text.to_vec(), ..word.clone() });
                text.is_empty()
            }
            _ => break,
        };
        if empty {
            let message = format!("invalid setting \"{}\" for \"${name}\"", word.display());
            return Err(Diagnostic::emerg(message).at(word.span));
        }
        first += 1;
    }
    let path = DatabasePath::new(words[first..].iter().map(|word| word.display().into_owned()));
    Ok(ValueConf::Data { default, source, path })
}

fn open(
    file: &FileConf,
    path: PathBuf,
    plan: &mut PlanBuilder<'_>,
) -> Result<Arc<CurrentDatabase>, Diagnostic> {
    let fail = |reason: String| {
        let message = format!("MMDB_open(\"{}\") failed - {reason}", path.display());
        Diagnostic::emerg(message).at(file.name.span)
    };
    let bytes = plan.environment.resources.read(&path);
    let bytes = bytes.map_err(|error| fail(tidegate_os::os_error(&error).to_string()))?;
    let database = Database::parse(bytes).map_err(|error| {
        fail(error)
            .help("a file in the format MaxMind DB; `geoip_country` and others take older ones")
    })?;
    Ok(Arc::new(CurrentDatabase::new(path, database)))
}

fn define(
    variable: &VariableConf,
    current: &Arc<CurrentDatabase>,
    clients: &Arc<Clients>,
    plan: &mut PlanBuilder<'_>,
) -> Result<(), Diagnostic> {
    made_variable::check_free(plan, &variable.name, variable.span)?;
    let current = current.clone();
    match &variable.value {
        ValueConf::Metadata(field) => {
            let field = *field;
            let compute = move |_: &mut Exchange, out: &mut Vec<u8>| {
                let number = match field {
                    Metadata::BuildEpoch => current.database().build_epoch().to_string(),
                    Metadata::LastCheck => current.last_check().to_string(),
                    Metadata::LastChange => current.last_change().to_string(),
                };
                out.extend_from_slice(number.as_bytes());
                true
            };
            plan.variables.define_computed(&variable.name, Arc::new(compute), true);
        }
        ValueConf::Data { default, source, path } => {
            let source = match source {
                Some(word) => Some(plan.template(word)?),
                None => None,
            };
            let lookup = Lookup {
                current,
                clients: clients.clone(),
                source,
                path: path.clone(),
                default: default.clone(),
            };
            let compute = move |x: &mut Exchange, out: &mut Vec<u8>| lookup.write(x, out);
            plan.variables.define_computed(&variable.name, Arc::new(compute), true);
        }
    }
    Ok(())
}

/// The data that a variable is computed from.
struct Lookup {
    current: Arc<CurrentDatabase>,
    clients: Arc<Clients>,
    source: Option<Template>,
    path: DatabasePath,
    default: Option<Vec<u8>>,
}

impl Lookup {
    /// Appends the value; `false` for none.
    fn write(&self, x: &mut Exchange, out: &mut Vec<u8>) -> bool {
        let address = match &self.source {
            None => Some(self.clients.address(x)),
            Some(source) => {
                let text = source.value(x);
                std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok())
            }
        };
        let found = address.and_then(|address| self.current.database().value(address, &self.path));
        match found.as_ref().or(self.default.as_ref()) {
            Some(text) => {
                out.extend_from_slice(text);
                true
            }
            None => false,
        }
    }
}
