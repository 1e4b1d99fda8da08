//! Publishes to the broker without the program.

use retro_bus::{Bus, BusConfig, EventPublisher, OutgoingEvent};
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_events::github::{self, GithubData};
use retro_events::subject;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::World;
use super::wire::{build_connect_options, parse_host};

impl World {
    /// Publishes a run's event to the broker, as an engine does.
    pub(crate) async fn publish_event(&self, tenant: &str, workflow: &str, event: &Value) {
        let tenant = Tenant::new(tenant).expect("a name");
        let key = WorkflowKey { tenant, workflow: Workflow::new(workflow).expect("a name") };
        let headers = vec![("content-type".to_owned(), "application/cloudevents+json".to_owned())];
        let payload = event.to_string().into();
        let outgoing = OutgoingEvent { subject: subject::run_completed_subject(&key), headers, payload };
        let mut publisher = self.connect_publisher().await;
        publisher.publish_event(outgoing).await.expect("the broker accepts it");
        publisher.confirm_all().await.expect("the broker confirms it");
    }

    /// Publishes a GitHub event with a delivery id, as the bridge does.
    pub(crate) async fn publish_github_event(&self, tenant: &str, delivery: &str, data: &GithubData) {
        let tenant = Tenant::new(tenant).expect("a name");
        let at = "2026-11-20T10:00:00Z".parse().expect("a timestamp");
        let encoded = data.to_envelope(delivery, at).to_structured();
        let subject = github::event_subject(&tenant, data);
        let outgoing = OutgoingEvent { subject, headers: encoded.headers, payload: encoded.payload };
        let mut publisher = self.connect_publisher().await;
        publisher.publish_event(outgoing).await.expect("the broker accepts it");
        publisher.confirm_all().await.expect("the broker confirms it");
    }

    /// Asserts that the broker rejects a message of this size before it is sent, using the NATS protocol.
    pub(crate) async fn assert_too_large_for_broker(&self, subject: &str, bytes: usize) {
        let url = self.nats_url();
        let mut stream =
            BufReader::new(TcpStream::connect(parse_host(url)).await.expect("the broker answers"));
        let mut line = String::new();
        stream.read_line(&mut line).await.expect("the broker answers");
        let ask = format!("CONNECT {}\r\nPUB {subject} {bytes}\r\n", build_connect_options(url));
        stream.write_all(ask.as_bytes()).await.expect("the broker answers");
        // The broker may send a PING in between.
        loop {
            line.clear();
            stream.read_line(&mut line).await.expect("the broker answers");
            if line.trim_end() != "PING" {
                break;
            }
        }
        assert!(line.starts_with("-ERR 'Maximum Payload"), "{line}");
    }

    /// Connects a publisher that is independent of the program.
    pub(crate) async fn connect_publisher(&self) -> EventPublisher {
        let bus = Bus::connect(BusConfig::new(self.nats_url(), "test")).await.expect("an address");
        EventPublisher::new(bus)
    }
}
