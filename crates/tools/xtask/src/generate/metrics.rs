//! Generates `deploy/telemetry/metrics.md`, which lists every instrument of `retro-telemetry`.

use retro_telemetry::metrics::{ALL, InstrumentInfo};

use super::generated_file::GeneratedFile;

const HEAD: &str = "\
<!-- Generated from the crate `retro-telemetry` by `cargo xtask gen`. -->
# Metrics

Every metric below is served at `/metrics`, by the gateway's HTTP server and by `health_listen` of every process, and is exported to the
collector in `otlp_endpoint`. Counters start at 0 with each process, so use rates and sum them over processes. Gauges describe the whole
instance, whichever process reports them, so use the maximum. A value that could not be read is absent.

No label names a tenant, a workflow, a run, a memory or an event. A histogram has `_bucket`, `_sum` and `_count`.

| Prometheus | OTLP | kind | unit | labels | |
|---|---|---|---|---|---|
";

pub(super) fn generate_metrics_page() -> GeneratedFile {
    let rows: String = ALL.iter().map(render_row).collect();
    GeneratedFile { path: "deploy/telemetry/metrics.md", text: format!("{HEAD}{rows}") }
}

fn render_row(one: &InstrumentInfo) -> String {
    let InstrumentInfo { name, kind, unit, labels, description } = one;
    let labels: Vec<_> = labels.iter().map(|label| format!("`{}`", label.replace('.', "_"))).collect();
    let prometheus_name = one.prometheus_name();
    format!(
        "| `{prometheus_name}` | `{name}` | {kind} | `{unit}` | {} | {description} |\n",
        labels.join(", ")
    )
}
