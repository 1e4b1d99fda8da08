//! Printing: data on stdout, everything else on stderr.
//!
//! Whatever is printed passes through here, and what somebody else wrote in it cannot steer the terminal: no other place may
//! open stdout or stderr, which clippy refuses.

use std::io::{IsTerminal as _, Stderr, Stdout, Write as _};

use retro_core::printable::{is_printable, make_printable, make_printable_json};
use serde::Serialize;

use crate::cli::Output;

/// Prints data: the table for people, or the rows as one JSON document.
pub(crate) fn data(
    output: Output,
    rows: &impl Serialize,
    table: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match output {
        Output::Table => line(&table()),
        Output::Json => json(&serde_json::to_string_pretty(rows)?),
    }
}

/// Prints text on stdout. A reader that has gone away is not an error.
pub(crate) fn line(text: &str) -> anyhow::Result<()> {
    print(&make_printable(text))
}

/// Prints JSON on stdout, one document or one a line: it parses to the same values, whatever it holds.
pub(crate) fn json(documents: &str) -> anyhow::Result<()> {
    print(&make_printable_json(documents))
}

/// Prints bytes and nothing else, so that they may go into a file; returns whether it did. A terminal gets only what cannot
/// harm it.
pub(crate) fn bytes(bytes: &[u8]) -> anyhow::Result<bool> {
    let harmless = std::str::from_utf8(bytes).is_ok_and(is_printable);
    if !harmless && stdout().is_terminal() {
        return Ok(false);
    }
    stdout().lock().write_all(bytes)?;
    Ok(true)
}

/// Tells a person something on stderr.
pub(crate) fn told(text: &str) {
    let _ = writeln!(stderr().lock(), "{}", make_printable(text));
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    match writeln!(out, "{}", text.trim_end_matches('\n')).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that prints data")]
fn stdout() -> Stdout {
    std::io::stdout()
}

/// Where people are told what is no data. The log writes there too, and makes each of its fields printable itself.
#[expect(clippy::disallowed_methods, reason = "the one place that tells people something")]
pub(crate) fn stderr() -> Stderr {
    std::io::stderr()
}
