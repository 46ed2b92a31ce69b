//! A panic leaves a line in the error log: no thread ends silently.

use std::sync::{Mutex, Once, PoisonError};

use tidegate_core::error_log::{ErrorLog, Level};

static LOG: Mutex<Option<ErrorLog>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// Logs panics to this log from now on.
pub(crate) fn log_to(log: ErrorLog) {
    *LOG.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
    HOOK.call_once(|| std::panic::set_hook(Box::new(report)));
}

fn report(panic: &std::panic::PanicHookInfo<'_>) {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = panic.payload_as_str().unwrap_or("without a message");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name").to_owned();
    match log {
        Some(log) => {
            log.say(Level::Alert, format_args!("thread {name} panicked at {place}: {text}"));
        }
        None => eprintln!("nginx: [alert] thread {name} panicked at {place}: {text}"),
    }
}
