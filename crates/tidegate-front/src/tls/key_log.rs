//! `ssl_key_log`: the secrets of clients' connections.

use tidegate_conf::{Arity, Diagnostic, Directive, once};
use tidegate_plan::PlanBuilder;
use tidegate_tls::KeyLog;

use super::conf::{Conf, row};

pub(super) const ROWS: &[Directive<Conf>] = &[row(
    "ssl_key_log",
    Arity::ONE,
    "",
    "File to which the secrets of clients' connections are written, in the format SSLKEYLOGFILE, so that Wireshark can \
     decrypt recorded connections. The master creates it with mode 0600, and reopens it as it does logs.",
    |conf, args| once(&mut conf.key_log, args.word(0).clone(), args),
)];

/// Opens the log of a server.
///
/// # Errors
/// The file cannot be opened.
pub(super) fn compile(conf: &Conf, plan: &PlanBuilder<'_>) -> Result<Option<KeyLog>, Diagnostic> {
    let Some(word) = &conf.key_log else { return Ok(None) };
    let path = plan.path(&word.display());
    let file = plan.private_log_file(&path, word.span)?;
    Ok(Some(KeyLog::new(&path.to_string_lossy(), move |line| file.write(line))))
}
