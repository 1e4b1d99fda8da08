//! Outcome of a command and the exit code of the process.

use std::process::ExitCode;

use tokio::signal::unix::SignalKind;

/// Outcome of a command, from which the exit code is derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Done,
    /// The arguments are ambiguous: they match several items.
    UsageError,
    /// The requested item does not exist.
    NotFound,
    /// A check found a problem, or a request was refused.
    ProblemFound,
    /// A second signal, of this kind, ended the process immediately.
    Signalled(SignalKind),
    /// The process ended itself because work hung and could not be stopped.
    Hung,
}

impl Exit {
    /// Returns the exit code of the process.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::UsageError => 2,
            Self::NotFound => 3,
            Self::ProblemFound => 4,
            Self::Hung => 5,
            // The exit code that a shell reports for a process ended by this signal.
            Self::Signalled(signal) => 128 + u8::try_from(signal.as_raw_value()).unwrap_or(0),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.exit_code())
    }
}
