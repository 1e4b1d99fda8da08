//! Writes the log to stderr. Messages and fields may contain untrusted text, so each is made printable and
//! kept on one line. The log's own colours are preserved.

mod json;
#[cfg(test)]
mod testing;

use std::backtrace::Backtrace;
use std::fmt::{self, Debug};

use retro_core::printable::make_printable_line;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use crate::cli::LogFormat;
use crate::output;

/// Initializes logging to stderr. Commands other than `up` and `serve` log only warnings and errors.
pub(crate) fn init_logging(filter: &str, format: LogFormat, serving: bool) {
    let filter = if serving { filter } else { "warn" };
    // The NATS client repeats its messages while the broker is unreachable, which the bus already logs once.
    // The OpenTelemetry library logs its own setup, and the one of the Model Context Protocol each request thrice and
    // whatever a client did wrong.
    let quiet = "async_nats=warn,async_nats::connector=off,opentelemetry=warn,rmcp=error";
    let filter = format!("{quiet},{filter}");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter));
    let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let set = match format {
        LogFormat::Text => {
            tracing::subscriber::set_global_default(build_subscriber(filter, output::stderr, coloured))
        }
        LogFormat::Json => {
            tracing::subscriber::set_global_default(json::build_subscriber(filter, output::stderr))
        }
    };
    set.expect("logging is set up once, at the start of `main`");
}

/// Makes panic messages printable like all other output on stderr, because they may contain untrusted text.
pub(crate) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("unnamed");
        output::print_notice(&format!("thread {name} {panic}\n{}", Backtrace::capture()));
    }));
}

fn build_subscriber<W>(filter: EnvFilter, writer: W, coloured: bool) -> impl tracing::Subscriber + Send + Sync
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    // Every message, field and span passes through `write_field`, so no call of `info!` can bypass it.
    let fields = debug_fn(write_field).delimited(" ");
    tracing_subscriber::fmt()
        .compact()
        .with_ansi(coloured)
        .fmt_fields(fields)
        .with_env_filter(filter)
        .with_writer(writer)
        .finish()
}

/// Writes a field in the logging library's format, with its value printable and on one line.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let value = format!("{value:?}");
    let value = make_printable_line(&value);
    match (field.name(), writer.has_ansi_escapes()) {
        ("message", _) => write!(writer, "{value}"),
        (name, true) => write!(writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m{value}"),
        (name, false) => write!(writer, "{name}={value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Lines;
    use super::*;

    #[test]
    fn hostile_text_is_logged_on_one_line_without_losing_the_colours() {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = build_subscriber(EnvFilter::new("info"), move || writer.clone(), true);
        let hostile = "a\u{1b}[2Jb\u{202e}c\nERROR forged\u{9b}2J";
        tracing::subscriber::with_default(log, || {
            let _span = tracing::info_span!("stage", run = %hostile).entered();
            tracing::info!(run.id = %hostile, quoted = hostile, count = 3, "counted {hostile}");
        });
        let text = lines.text();
        let shown = r"a\u{1b}[2Jb\u{202e}c\nERROR forged\u{9b}2J";
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert_eq!(text.matches(shown).count(), 4, "message, both fields and span: {text:?}");
        let coloured = |name| format!("\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m");
        assert!(text.contains(&format!("{}3 ", coloured("count"))), "{text:?}");
        assert!(text.contains(&coloured("run.id")), "{text:?}");
    }
}
