//! `ssl_session_ticket_key`: keys of session tickets from files, and keys that are derived from a secret and the time.
//!
//! ```nginx
//! ssl_session_ticket_key derived:/etc/nginx/tickets.secret rotate=12h;
//! ```

use std::sync::Arc;
use std::time::Duration;

use tidegate_conf::{Args, Diagnostic, Word, parse_seconds};
use tidegate_plan::PlanBuilder;
use tidegate_tls::{
    ConfiguredKey, DerivedKeys, RandomKeys, SECRET_BYTES_MIN, TicketKey, TicketKeys,
};

/// The directive as written.
#[derive(Clone, Debug)]
pub struct TicketKeyConf {
    pub file: Word,
    /// With `derived:` the file is a secret, from which keys are derived that change after this time.
    pub rotate: Option<Duration>,
}

/// In front of the name of a file with a secret, where others have keys.
const DERIVED: &[u8] = b"derived:";
/// `rotate` where it is not given.
const ROTATE_DEFAULT: Duration = Duration::from_secs(12 * 3600);

impl TicketKeyConf {
    /// Reads `ssl_session_ticket_key FILE` or `ssl_session_ticket_key derived:FILE [rotate=TIME]`.
    ///
    /// # Errors
    /// A wrong parameter.
    pub(super) fn parse(args: &Args<'_>) -> Result<TicketKeyConf, Diagnostic> {
        let mut file = args.word(0).clone();
        let Some(path) = file.bytes.strip_prefix(DERIVED) else {
            return match args.len() {
                1 => Ok(TicketKeyConf { file, rotate: None }),
                _ => Err(args.error(1, "only keys of \"derived:FILE\" are rotated")),
            };
        };
        if path.is_empty() {
            return Err(args.error(0, "\"derived:\" needs the name of a file"));
        }
        file.bytes = path.to_vec();
        let mut rotate = ROTATE_DEFAULT;
        if args.len() > 1 {
            let ("rotate", Some(value)) = args.parameter(1)? else {
                return Err(args.invalid_parameter(1));
            };
            let time = parse_seconds(value.as_bytes()).filter(|time| !time.is_zero());
            rotate = time.ok_or_else(|| args.error(1, format!("invalid rotate \"{value}\"")))?;
        }
        Ok(TicketKeyConf { file, rotate: Some(rotate) })
    }
}

/// Reads the keys; without any they are random ones, which reloads keep.
///
/// # Errors
/// A file that cannot be read, or has another size.
pub(super) fn compile(
    keys: &[TicketKeyConf],
    plan: &PlanBuilder<'_>,
    timeout: Duration,
) -> Result<TicketKeys, Diagnostic> {
    if keys.is_empty() {
        let make = || Ok::<_, Diagnostic>(RandomKeys::new(timeout));
        let name = format!("tickets:{}", timeout.as_secs());
        return Ok(TicketKeys::Random(plan.environment.reload_state.get_or_make(&name, make)?));
    }
    let keys: Result<_, _> = keys.iter().map(|key| compile_one(key, plan)).collect();
    keys.map(TicketKeys::Configured)
}

fn compile_one(conf: &TicketKeyConf, plan: &PlanBuilder<'_>) -> Result<ConfiguredKey, Diagnostic> {
    let word = &conf.file;
    let bytes = plan.read_file(word)?;
    let refused = |needed: &str| {
        let path = plan.conf_path(&word.display());
        let message = format!("\"{}\" must be {needed} bytes", path.display());
        Diagnostic::emerg(message).at(word.span)
    };
    match conf.rotate {
        None => match TicketKey::from_file(&bytes) {
            Some(key) => Ok(ConfiguredKey::File(key)),
            None => Err(refused("48 or 80")),
        },
        Some(rotate) => match DerivedKeys::new(&bytes, rotate) {
            Some(keys) => Ok(ConfiguredKey::Derived(Arc::new(keys))),
            None => Err(refused(&format!("at least {SECRET_BYTES_MIN}"))
                .help(format!("`openssl rand {SECRET_BYTES_MIN}` makes a secret"))),
        },
    }
}
