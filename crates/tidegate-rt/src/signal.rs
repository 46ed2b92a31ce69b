//! Signals to the process, as a stream: Unix signals, or named events where there are none.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::Signals;
#[cfg(windows)]
pub use windows::Signals;

/// What nginx's master and workers react to (nginx manual, "Controlling nginx").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessSignal {
    /// HUP: read the configuration again.
    Hangup,
    /// QUIT: finish gracefully.
    Quit,
    /// TERM: end now.
    Terminate,
    /// INT: end now.
    Interrupt,
    /// USR1: open the logs again.
    User1,
    /// USR2: upgrade the binary.
    User2,
    /// WINCH: end the workers gracefully.
    WindowChange,
    /// CHLD: a child ended.
    Child,
}
