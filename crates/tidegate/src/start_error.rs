//! Why the program does not become a server, or a worker does not begin to serve.

use std::{fmt, io};

use tidegate_conf::Diagnostic;
use tidegate_os::error::is_out_of_descriptors;
use tidegate_os::os_error;

#[cfg(unix)]
use crate::activation::ActivationError;
#[cfg(unix)]
use crate::claims::ClaimError;
use crate::pidfile::PidFileError;

/// A failed step of the start. As a text it is the line for the error log and for the user who starts the program; most
/// of them are nginx's.
#[derive(Debug)]
pub(crate) enum StartError {
    /// The environment variable does not list sockets of an older binary.
    Inherited {
        variable: &'static str,
        error: io::Error,
    },
    /// A socket of systemd is not usable.
    #[cfg(unix)]
    Activation(ActivationError),
    /// Not every address is listened on; the reasons have been reported one by one.
    Bind,
    /// A directory could not be made, or given to the worker's user.
    Directory(Diagnostic),
    /// Another server uses a cache's directory.
    #[cfg(unix)]
    Claim(ClaimError),
    PidFile(PidFileError),
    /// The process cannot leave its terminal (`daemon`).
    Daemon(io::Error),
    /// A call by which a worker gets its rights and limits.
    Right {
        call: String,
        error: io::Error,
    },
    /// The configuration gives no plan: the first line of its first mistake.
    Configuration(String),
    /// No thread or descriptor was available.
    System(io::Error),
}

/// What helps where descriptors are missing.
const MORE_DESCRIPTORS: &str = "; raise \"worker_rlimit_nofile\", or the limit of the service: each thread has one for each address";

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Inherited { variable, error } => {
                write!(f, "invalid sockets in environment variable {variable}: {error}")
            }
            #[cfg(unix)]
            StartError::Activation(error) => error.fmt(f),
            StartError::Bind => f.write_str("still could not bind()"),
            StartError::Directory(found) => f.write_str(&found.message),
            #[cfg(unix)]
            StartError::Claim(error) => error.fmt(f),
            StartError::PidFile(error) => error.fmt(f),
            StartError::Daemon(error) => write!(f, "daemon() failed ({error})"),
            StartError::Right { call, error } => {
                write!(f, "{call} failed ({})", os_error(error))
            }
            StartError::Configuration(line) => f.write_str(line),
            StartError::System(error) => {
                write!(f, "cannot start threads and listeners ({})", os_error(error))?;
                match error.raw_os_error().is_some_and(is_out_of_descriptors) {
                    true => f.write_str(MORE_DESCRIPTORS),
                    false => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for StartError {}
