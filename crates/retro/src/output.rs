//! Prints data on stdout and everything else on stderr.
//!
//! All output passes through this module, which makes untrusted text printable so it cannot control the
//! terminal. No other module may use stdout or stderr; clippy enforces this.

use std::io::{IsTerminal as _, Stderr, Stdout, Write as _};

use retro_core::printable::{is_printable, make_printable, make_printable_json};
use retro_operator::{Layout, terminal_columns};
use serde::Serialize;

use crate::cli::Output;

/// Prints data in the selected format: as text, or as one JSON document.
pub(crate) fn print_data(
    output: Output,
    rows: &impl Serialize,
    table: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    print_list(output, rows, |_| table())
}

/// Prints data in the selected format: as text in this layout, or as one JSON document. Commands whose text is no
/// Markdown are refused before they run.
pub(crate) fn print_list(
    output: Output,
    rows: &impl Serialize,
    render: impl FnOnce(Layout) -> String,
) -> anyhow::Result<()> {
    match output {
        Output::Table => print_text(&render(Layout::Terminal(terminal_columns()))),
        Output::Json => print_json(&serde_json::to_string_pretty(rows)?),
        Output::Markdown => print_text(&render(Layout::Markdown)),
    }
}

/// Prints text on stdout. Ignores a pipe that the reader has closed.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    write_stdout(&make_printable(text))
}

/// Prints JSON on stdout: one document, or one per line. Unprintable characters in strings are escaped, which
/// does not change the parsed values.
pub(crate) fn print_json(documents: &str) -> anyhow::Result<()> {
    write_stdout(&make_printable_json(documents))
}

/// Prints bytes unchanged, for redirection into a file. Returns `false` without printing anything if stdout
/// is a terminal and the bytes are not printable text.
pub(crate) fn print_bytes(bytes: &[u8]) -> anyhow::Result<bool> {
    let harmless = std::str::from_utf8(bytes).is_ok_and(is_printable);
    if !harmless && stdout().is_terminal() {
        return Ok(false);
    }
    stdout().lock().write_all(bytes)?;
    Ok(true)
}

/// Prints a message for the user on stderr.
pub(crate) fn print_notice(text: &str) {
    let _ = writeln!(stderr().lock(), "{}", make_printable(text));
}

fn write_stdout(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    // Flushed here, because a failed write at exit would go unnoticed.
    match writeln!(out, "{}", text.trim_end_matches('\n')).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

#[expect(clippy::disallowed_methods, reason = "the only place that prints data")]
fn stdout() -> Stdout {
    std::io::stdout()
}

/// Returns stderr, for messages that are not data. The log also writes to it and makes its fields printable
/// itself.
#[expect(clippy::disallowed_methods, reason = "the only place that prints messages for people")]
pub(crate) fn stderr() -> Stderr {
    std::io::stderr()
}
