//! Writes the log as JSON lines, for collectors.
//!
//! Each line has `timestamp`, `level`, `target`, `message`, the fields of the message by name, and `spans`, the names and
//! fields of the spans around it, the outermost first. Text is escaped by JSON, and what no terminal may get is escaped
//! once more, so a line stays a line. Fields hold what the text form holds: lengths and hashes, never secrets.

use std::fmt::{self, Debug, Write as _};

use jiff::Timestamp;
use retro_core::printable::{make_printable_json, make_printable_line};
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer, debug_fn};
use tracing_subscriber::fmt::{FmtContext, FormattedFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

pub(super) fn build_subscriber<W>(filter: EnvFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let span_fields = debug_fn(|writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        write!(writer, "{}={}", field.name(), make_printable_line(&format!("{value:?}")))
    });
    tracing_subscriber::fmt()
        .with_ansi(false)
        .fmt_fields(span_fields.delimited(" "))
        .event_format(JsonLines)
        .with_env_filter(filter)
        .with_writer(writer)
        .finish()
}

/// Formats each event as one JSON document on one line.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = JsonFields::default();
        event.record(&mut fields);
        let mut line = Map::new();
        line.insert("timestamp".to_owned(), json!(now().to_string()));
        line.insert("level".to_owned(), json!(event.metadata().level().as_str()));
        line.insert("target".to_owned(), json!(event.metadata().target()));
        // A field cannot take the place of what every line has.
        for (name, value) in fields.0 {
            let name = if line.contains_key(&name) { format!("field.{name}") } else { name };
            line.insert(name, value);
        }
        let spans: Vec<Value> = context
            .event_scope()
            .into_iter()
            .flat_map(|scope| scope.from_root())
            .map(|span| {
                let extensions = span.extensions();
                let fields = extensions.get::<FormattedFields<N>>().map(|fields| fields.fields.clone());
                json!({"name": span.name(), "fields": fields.unwrap_or_default()})
            })
            .collect();
        if !spans.is_empty() {
            line.insert("spans".to_owned(), Value::Array(spans));
        }
        writeln!(writer, "{}", make_printable_json(&Value::Object(line).to_string()))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a log says when a message was written, by the clock of the machine"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

/// Fields of an event as JSON values.
#[derive(Default)]
struct JsonFields(Map<String, Value>);

impl JsonFields {
    fn put(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for JsonFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        // Writing to a string does not fail; a value that cannot be formatted leaves what it wrote.
        let _ = write!(text, "{value:?}");
        self.put(field, Value::String(text));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, json!(value));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Lines;
    use super::*;

    #[test]
    fn every_message_is_one_line_of_json_with_its_fields_and_spans() {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = build_subscriber(EnvFilter::new("info"), move || writer.clone());
        let hostile = "a\u{1b}[2Jb\u{202e}c\n{\"level\":\"ERROR\"}";
        tracing::subscriber::with_default(log, || {
            let _span = tracing::info_span!("stage", run = %hostile).entered();
            tracing::info!(run.id = %hostile, count = 3, level = "forged", "counted {hostile}");
            tracing::debug!("filtered out");
        });
        let text = lines.text();
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&line["level"], &line["field.level"]), (&json!("INFO"), &json!("forged")));
        assert_eq!((&line["count"], &line["run.id"]), (&json!(3), &json!(hostile)));
        assert_eq!(line["message"], format!("counted {hostile}"));
        assert_eq!(line["spans"][0]["name"], "stage");
        assert!(line["timestamp"].as_str().is_some_and(|at| at.ends_with('Z')), "{line}");
    }
}
