//! Tests that spans and metrics reach a collector, and that an unavailable collector does not delay the
//! process.

use opentelemetry::trace::{Span, Tracer};
use opentelemetry::{KeyValue, global};
use retro_telemetry::export::{ServiceIdentity, Telemetry};
use retro_testkit::Collector;

fn record_and_shut_down(endpoint: &str) {
    let origin = ServiceIdentity { service: "retro-counter".to_owned(), instance: "host-7".to_owned() };
    let telemetry = Telemetry::start(&origin, Some(endpoint)).expect("the endpoint is plain HTTP");
    global::tracer("retro").start("process RETRO_INTAKE").end();
    let counted = global::meter("retro").u64_counter("retro.runs").build();
    counted.add(3, &[KeyValue::new("role", "counter")]);
    assert!(telemetry.metrics_text().contains("retro_runs_total"), "{}", telemetry.metrics_text());
    telemetry.shutdown();
}

async fn record_on_blocking_thread(endpoint: &str) {
    let endpoint = endpoint.to_owned();
    tokio::task::spawn_blocking(move || record_and_shut_down(&endpoint))
        .await
        .expect("the task does not panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_and_a_metric_reach_the_collector_before_the_process_ends() {
    let collector = Collector::start().await;
    record_on_blocking_thread(collector.url()).await;
    let spans = collector.wait_for_spans(|spans| !spans.is_empty()).await;
    assert_eq!(
        (spans[0].name.as_str(), spans[0].service.as_str()),
        ("process RETRO_INTAKE", "retro-counter")
    );
    let metrics = collector.wait_for_metrics(|metrics| !metrics.is_empty()).await;
    assert_eq!(
        (metrics[0].metric.name.as_str(), metrics[0].service.as_str()),
        ("retro.runs", "retro-counter")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_collector_does_not_delay_the_end() {
    // A listener that accepts connections and never answers.
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    record_on_blocking_thread(&format!("http://{}", deaf.local_addr().unwrap())).await;
}
