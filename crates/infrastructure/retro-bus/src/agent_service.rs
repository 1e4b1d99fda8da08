//! Answers the requests of agents over the broker.
//!
//! **The need.** An agent harness that has a connection to the broker asks for memories without HTTP: one request on a
//! subject of its tenant, one reply. Tools find the service as any other NATS service (`nats micro`, ADR-32 of NATS).
//!
//! **The design.** Each process with the role of the gateway subscribes to the subjects of every operation in one queue
//! group, so the broker gives each request to one of them. An operation has a subscription of its own: a gateway of an
//! earlier version does not take requests that it does not know. A request is begun when it arrives, and either answered
//! at once or by a task; [`AgentService`] bounds the tasks. The connection is used for nothing else (see
//! [`BusConfig::for_agents`]), so agents who ask for too much delay no acknowledgement and no event.
//!
//! **Shutdown.** The subscriptions are drained: the broker sends no further requests, those that it has sent are answered,
//! and the answers are flushed.
//!
//! **The client's own service API** was considered and not used, as it is in version 0.51. It sends errors without a
//! payload, and an error with one is not counted in its statistics. When it is stopped, it unsubscribes and drops what the
//! broker has sent meanwhile. After one failed answer to a question about the service it answers none any more.

mod discovery;
mod statistics;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_nats::header::HeaderMap;
use async_nats::{HeaderValue, Message, Subject, Subscriber};
use futures::stream::{SelectAll, Stream, StreamExt as _};
use jiff::Timestamp;
use retro_events::agents::{
    AGENT_QUEUE, AgentOperation, AgentRefusal, AgentReply, AgentRequest, AgentService, BegunAnswer,
};
use retro_telemetry::metrics::AGENT_REQUESTS;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::discovery::{DiscoveryQuestion, ServiceDescription};
use self::statistics::EndpointStatistics;
use crate::connect::{Bus, BusConfig, BusError};

/// Maximum number of requests of an operation that wait in this process to be begun. To begin one takes microseconds, less
/// than to receive a large one, so only small ones wait, in a burst: a single read of the connection brings some hundreds.
/// More are dropped and logged, and their agents get no answer. With 1,024, half of 3,000 that came at once were dropped.
const WAITING_REQUESTS_MAX: usize = 8192;
/// Timeout for the last requests and answers of a process that stops. They take milliseconds, unless the broker is away.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of the header that says why a request was refused, in characters. The payload has the whole text.
const REFUSAL_HEADER_CHARS_MAX: usize = 400;
/// Headers by which clients and tools recognize an error of a NATS service.
const ERROR_HEADER: &str = "Nats-Service-Error";
const ERROR_CODE_HEADER: &str = "Nats-Service-Error-Code";

impl BusConfig {
    /// Returns this configuration for a connection on which only requests of agents arrive. Few of them wait in the
    /// process, where by default 65,536 messages of any size may.
    #[must_use]
    pub fn for_agents(self) -> Self {
        Self { waiting_messages_max: Some(WAITING_REQUESTS_MAX), ..self }
    }
}

/// Answers the requests of agents until `stop` is cancelled, then those that the broker has already sent. `started` is the
/// time that tools are shown as the start of the service. Without permission to subscribe no request arrives.
pub async fn serve_agents(
    bus: Bus,
    service: Arc<dyn AgentService>,
    started: Timestamp,
    stop: CancellationToken,
) {
    let mut server = match AgentServer::subscribe(bus, service, started).await {
        Ok(server) => server,
        Err(error) => return warn!("agents cannot ask over the broker: {error}"),
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = server.answer_requests() => {}
    }
    server.drain().await;
}

/// The subscriptions of this process, and the answers that are pending.
struct AgentServer {
    bus: Bus,
    service: Arc<dyn AgentService>,
    description: ServiceDescription,
    statistics: Arc<EndpointStatistics>,
    requests: SelectAll<Labelled<AgentOperation>>,
    questions: SelectAll<Labelled<DiscoveryQuestion>>,
    pending: JoinSet<()>,
}

impl AgentServer {
    async fn subscribe(
        bus: Bus,
        service: Arc<dyn AgentService>,
        started: Timestamp,
    ) -> Result<Self, BusError> {
        let failed = |error| BusError::unavailable("subscribe to requests of agents", error);
        let mut requests = SelectAll::new();
        for &label in AgentOperation::ALL {
            let subject = label.subject_of_all();
            let subscriber = bus.client.queue_subscribe(subject, AGENT_QUEUE.to_owned()).await;
            requests.push(Labelled { label, subscriber: subscriber.map_err(failed)? });
        }
        let description = ServiceDescription::new(&bus.client.new_inbox(), started);
        let mut questions = SelectAll::new();
        for &label in DiscoveryQuestion::ALL {
            for subject in description.subjects_of(label) {
                let subscriber = bus.client.subscribe(subject).await.map_err(failed)?;
                questions.push(Labelled { label, subscriber });
            }
        }
        let (statistics, pending) = (Arc::default(), JoinSet::new());
        info!("agents may ask over the broker: {}", AgentOperation::Context.subject_of_all());
        Ok(Self { bus, service, description, statistics, requests, questions, pending })
    }

    /// Answers requests and questions about the service. Returns only if the client has given up its subscriptions.
    async fn answer_requests(&mut self) {
        let subject = AgentOperation::Context.subject_of_all();
        let violations = self.bus.violations.clone();
        let refused = violations.wait_for_refusal(&subject);
        tokio::pin!(refused);
        let mut is_refused = false;
        loop {
            tokio::select! {
                () = &mut refused, if !is_refused => {
                    is_refused = true;
                    warn!(
                        "agents cannot ask over the broker: it denies the user {} the subscription to {subject}; \
                         `retro config nats-users` prints the users file of this version",
                        self.bus.user
                    );
                }
                Some((operation, message)) = self.requests.next() => self.take_request(operation, message).await,
                Some((question, message)) = self.questions.next() => self.answer_question(question, message).await,
                // Otherwise ended tasks would be kept until the process stops.
                Some(_) = self.pending.join_next() => {}
                else => return,
            }
        }
    }

    async fn take_request(&mut self, operation: AgentOperation, message: Message) {
        let Some(reply) = message.reply.filter(|reply| is_answerable(reply)) else {
            AGENT_REQUESTS.add(1, [operation.as_str(), "no_reply"]);
            return debug!("a request on {} names no subject for the answer", message.subject);
        };
        let begun = Instant::now();
        let request =
            AgentRequest { operation, subject: message.subject.into_string(), payload: message.payload };
        match self.service.begin_answer(request) {
            BegunAnswer::Ready(answer) => {
                self.statistics.record(operation, begun.elapsed(), answer.refusal.as_ref());
                send_answer(&self.bus, reply, answer).await;
            }
            BegunAnswer::Pending(answer) => {
                let (bus, statistics) = (self.bus.clone(), self.statistics.clone());
                self.pending.spawn(async move {
                    let answer = answer.await;
                    statistics.record(operation, begun.elapsed(), answer.refusal.as_ref());
                    send_answer(&bus, reply, answer).await;
                });
            }
        }
    }

    async fn answer_question(&self, question: DiscoveryQuestion, message: Message) {
        let Some(reply) = message.reply.filter(|reply| is_answerable(reply)) else { return };
        let payload = self.description.render_answer(question, &self.statistics);
        send_answer(&self.bus, reply, AgentReply { payload, refusal: None }).await;
    }

    /// Takes no further requests, answers those that the broker has sent, and flushes the answers.
    async fn drain(mut self) {
        let ended = async {
            let subscribers = self.requests.iter_mut().map(|labelled| &mut labelled.subscriber);
            for subscriber in subscribers {
                // Fails only if the client has ended, and then nothing arrives.
                let _ = subscriber.drain().await;
            }
            while let Some((operation, message)) = self.requests.next().await {
                self.take_request(operation, message).await;
            }
            while self.pending.join_next().await.is_some() {}
        };
        if tokio::time::timeout(DRAIN_TIMEOUT, ended).await.is_err() {
            warn!("some agents get no answer: the broker or the database was too slow for the last ones");
        }
        if let Err(error) = self.bus.flush(DRAIN_TIMEOUT).await {
            warn!("the last answers to agents may be lost: {error}");
        }
    }
}

/// Returns `true` if an answer may be sent to this subject. A subject of ours or of the server is none on which anybody
/// waits for an answer: where accounts do not separate the requester from us, it would make this process publish to it.
fn is_answerable(reply: &str) -> bool {
    !reply.starts_with("retro.") && !reply.starts_with('$')
}

async fn send_answer(bus: &Bus, reply: Subject, answer: AgentReply) {
    let AgentReply { payload, refusal } = answer;
    let headers = refusal.as_ref().map(error_headers);
    if let Err(error) = bus.answer_agent(reply, headers, payload).await {
        warn!("an agent gets no answer: {error}");
    }
}

fn error_headers(refusal: &AgentRefusal) -> HeaderMap {
    let one_line = |text: &str| -> String {
        let characters = text.chars().map(|one| if one.is_control() { ' ' } else { one });
        characters.take(REFUSAL_HEADER_CHARS_MAX).collect()
    };
    let mut headers = HeaderMap::new();
    headers.insert(ERROR_HEADER, HeaderValue::from(one_line(&refusal.reason)));
    headers.insert(ERROR_CODE_HEADER, HeaderValue::from(u64::from(refusal.status)));
    headers.insert("Content-Type", "application/problem+json");
    headers
}

/// A subscription whose messages carry what they are about.
struct Labelled<L> {
    label: L,
    subscriber: Subscriber,
}

impl<L: Copy + Unpin> Stream for Labelled<L> {
    type Item = (L, Message);

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let label = self.label;
        self.subscriber.poll_next_unpin(context).map(|message| Some((label, message?)))
    }
}

impl Bus {
    /// Returns `true` if a gateway that answers agents responds to this user.
    pub async fn finds_agent_service(&self) -> bool {
        let subject = DiscoveryQuestion::Ping.subject_of_service();
        self.ask_services(subject.into()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_go_to_inboxes_and_to_no_subject_of_ours_or_of_the_server() {
        for reply in ["_INBOX.x.1", "_INBOX_engine-acme.x", "_R_.abc.def", "harness.answers"] {
            assert!(is_answerable(reply), "{reply}");
        }
        for reply in ["retro.run.completed.acme.ci", "retro.work.x", "$JS.API.STREAM.PURGE.X", "$SRV.PING"] {
            assert!(!is_answerable(reply), "{reply}");
        }
    }

    #[test]
    fn the_headers_of_an_error_are_short_and_on_one_line() {
        let reason = format!("a\r\nb{}", "x".repeat(1000));
        let headers = error_headers(&AgentRefusal { status: 413, reason });
        let text = headers.get(ERROR_HEADER).unwrap().as_str();
        assert!(text.starts_with("a  bx") && text.len() == REFUSAL_HEADER_CHARS_MAX, "{text}");
        assert_eq!(headers.get(ERROR_CODE_HEADER).unwrap().as_str(), "413");
    }
}
