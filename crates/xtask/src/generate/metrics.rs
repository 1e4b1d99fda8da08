//! `deploy/telemetry/metrics.md`: every instrument, from the crate that has them.

use retro_meter::{ALL, Described, Kind};

use super::Generated;

const HEAD: &str = "\
<!-- Generated from the crate `retro-meter` by `cargo xtask gen`. -->
# What is measured

Everything below stands in `/metrics`, on the HTTP side of a gateway and on `health_listen` of every process, and goes to the collector that
`otlp_endpoint` names. Counts begin at nothing when a process starts: look at rates, and add them up over processes. Levels are of the whole
instance, whoever tells them: take the largest. What could not be looked at is absent.

No label names a tenant, a workflow, a run, a memory or an event. A histogram has `_bucket`, `_sum` and `_count`.

| Prometheus | OTLP | kind | unit | labels | |
|---|---|---|---|---|---|
";

pub(super) fn generate() -> Generated {
    let rows: String = ALL.iter().map(row).collect();
    Generated { path: "deploy/telemetry/metrics.md", text: format!("{HEAD}{rows}") }
}

fn row(one: &Described) -> String {
    let Described { name, kind, unit, labels, says } = one;
    let kind = match kind {
        Kind::Count => "counter",
        Kind::Spread => "histogram",
        Kind::Level => "gauge",
    };
    let labels: Vec<_> = labels.iter().map(|label| format!("`{}`", label.replace('.', "_"))).collect();
    let told = one.prometheus_name();
    format!("| `{told}` | `{name}` | {kind} | `{unit}` | {} | {says} |\n", labels.join(", "))
}
