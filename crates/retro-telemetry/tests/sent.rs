//! What is measured reaches a collector, and one that is away holds nobody up.

use opentelemetry::trace::{Span, Tracer};
use opentelemetry::{KeyValue, global};
use retro_telemetry::{Origin, Telemetry};
use retro_testkit::Collector;

fn measured(endpoint: &str) {
    let origin = Origin { service: "retro-counter".to_owned(), instance: "host-7".to_owned() };
    let telemetry = Telemetry::start(&origin, Some(endpoint)).expect("it is plain http");
    global::tracer("retro").start("process RETRO_INTAKE").end();
    let counted = global::meter("retro").u64_counter("retro.runs").build();
    counted.add(3, &[KeyValue::new("role", "counter")]);
    assert!(telemetry.metrics_text().contains("retro_runs_total"), "{}", telemetry.metrics_text());
    telemetry.flush();
}

async fn measured_beside(endpoint: &str) {
    let endpoint = endpoint.to_owned();
    tokio::task::spawn_blocking(move || measured(&endpoint)).await.expect("it does not panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_and_a_metric_reach_the_collector_before_the_process_ends() {
    let collector = Collector::start().await;
    measured_beside(collector.url()).await;
    let spans = collector.spans_once(|spans| !spans.is_empty()).await;
    assert_eq!(
        (spans[0].name.as_str(), spans[0].service.as_str()),
        ("process RETRO_INTAKE", "retro-counter")
    );
    let metrics = collector.metrics_once(|metrics| !metrics.is_empty()).await;
    assert_eq!(
        (metrics[0].metric.name.as_str(), metrics[0].service.as_str()),
        ("retro.runs", "retro-counter")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_takes_nothing_lets_the_process_end() {
    // It listens, and never answers.
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    measured_beside(&format!("http://{}", deaf.local_addr().unwrap())).await;
}
