//! Answers the questions by which tools find and inspect a NATS service (ADR-32 of NATS): who is there, what it offers,
//! and how much it has done. The format is the convention's.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use retro_events::agents::{AGENT_QUEUE, AGENT_SERVICE, AgentOperation};
use serde_json::{Value, json};

use super::statistics::{EndpointStatistics, OperationStatistics};

/// Question about the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiscoveryQuestion {
    /// Who is there?
    Ping,
    /// Which endpoints are there?
    Info,
    /// How many requests did each endpoint answer?
    Stats,
}

impl DiscoveryQuestion {
    pub(super) const ALL: &'static [Self] = &[Self::Ping, Self::Info, Self::Stats];

    const fn verb(self) -> &'static str {
        match self {
            Self::Ping => "PING",
            Self::Info => "INFO",
            Self::Stats => "STATS",
        }
    }

    /// Returns the subject on which the question is put to every process of this service.
    pub(super) fn subject_of_service(self) -> String {
        format!("$SRV.{}.{AGENT_SERVICE}", self.verb())
    }
}

/// What this process says of itself.
#[derive(Debug, Clone)]
pub(super) struct ServiceDescription {
    id: String,
    started: Timestamp,
}

impl ServiceDescription {
    /// Creates the description of a process. The last token of `inbox`, which no other process has, names it.
    pub(super) fn new(inbox: &str, started: Timestamp) -> Self {
        let id = inbox.rsplit('.').next().unwrap_or_default().to_owned();
        Self { id, started }
    }

    /// Returns the subjects on which this process is asked the question: with every service, with every process of this
    /// one, and alone.
    pub(super) fn subjects_of(&self, question: DiscoveryQuestion) -> [String; 3] {
        let (verb, service) = (question.verb(), question.subject_of_service());
        [format!("$SRV.{verb}"), format!("{service}.{}", self.id), service]
    }

    /// Returns the answer as JSON.
    pub(super) fn render_answer(
        &self,
        question: DiscoveryQuestion,
        statistics: &EndpointStatistics,
    ) -> Bytes {
        let kind = format!("io.nats.micro.v1.{}_response", question.verb().to_ascii_lowercase());
        let mut answer = json!({
            "type": kind, "name": AGENT_SERVICE, "id": self.id, "version": env!("CARGO_PKG_VERSION"), "metadata": {},
        });
        let operations = AgentOperation::ALL.iter().copied();
        match question {
            DiscoveryQuestion::Ping => {}
            DiscoveryQuestion::Info => {
                answer["description"] = "memories of earlier runs, for agents".into();
                answer["endpoints"] = operations.map(describe_endpoint).collect();
            }
            DiscoveryQuestion::Stats => {
                answer["started"] = self.started.to_string().into();
                let count = |operation| count_requests(operation, &statistics.of_operation(operation));
                answer["endpoints"] = operations.map(count).collect();
            }
        }
        Bytes::from(answer.to_string())
    }
}

fn describe_endpoint(operation: AgentOperation) -> Value {
    json!({
        "name": operation.endpoint_name(), "subject": operation.subject_of_all(), "queue_group": AGENT_QUEUE,
        "metadata": {},
    })
}

fn count_requests(operation: AgentOperation, statistics: &OperationStatistics) -> Value {
    let OperationStatistics { requests, errors, last_error, processing_time } = statistics;
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let total = nanoseconds(*processing_time);
    json!({
        "name": operation.endpoint_name(), "subject": operation.subject_of_all(), "queue_group": AGENT_QUEUE,
        "num_requests": requests, "num_errors": errors, "last_error": last_error,
        "processing_time": total, "average_processing_time": total.checked_div(*requests).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use retro_events::agents::AgentRefusal;

    use super::*;

    fn answer(question: DiscoveryQuestion, statistics: &EndpointStatistics) -> Value {
        let description =
            ServiceDescription::new("_INBOX_gateway.Ab12", "2026-11-20T10:00:00Z".parse().unwrap());
        serde_json::from_slice(&description.render_answer(question, statistics)).unwrap()
    }

    #[test]
    fn a_process_is_asked_with_all_services_with_its_own_and_alone() {
        let description = ServiceDescription::new("_INBOX_gateway.Ab12", Timestamp::UNIX_EPOCH);
        assert_eq!(
            description.subjects_of(DiscoveryQuestion::Stats),
            ["$SRV.STATS", "$SRV.STATS.retro-agents.Ab12", "$SRV.STATS.retro-agents"]
        );
    }

    #[test]
    fn answers_have_the_fields_of_the_convention() {
        let statistics = EndpointStatistics::default();
        let refusal = AgentRefusal { status: 400, reason: "no JSON".to_owned() };
        statistics.record(AgentOperation::Context, Duration::from_nanos(10), None);
        statistics.record(AgentOperation::Context, Duration::from_nanos(20), Some(&refusal));
        let ping = answer(DiscoveryQuestion::Ping, &statistics);
        assert_eq!(
            ping,
            json!({"type": "io.nats.micro.v1.ping_response", "name": "retro-agents", "id": "Ab12",
                "version": env!("CARGO_PKG_VERSION"), "metadata": {}})
        );
        let info = answer(DiscoveryQuestion::Info, &statistics);
        assert_eq!(
            (&info["type"], &info["endpoints"][1]),
            (
                &json!("io.nats.micro.v1.info_response"),
                &json!({"name": "memory-read", "subject": "retro.agents.memory.read.*", "queue_group": "retro-gateway",
                    "metadata": {}})
            )
        );
        let stats = answer(DiscoveryQuestion::Stats, &statistics);
        assert_eq!(
            (&stats["started"], &stats["endpoints"][0]),
            (
                &json!("2026-11-20T10:00:00Z"),
                &json!({"name": "context", "subject": "retro.agents.context.*", "queue_group": "retro-gateway",
                    "num_requests": 2, "num_errors": 1, "last_error": "400:no JSON", "processing_time": 30,
                    "average_processing_time": 15})
            )
        );
        assert_eq!(stats["endpoints"][3]["average_processing_time"], 0);
    }
}
