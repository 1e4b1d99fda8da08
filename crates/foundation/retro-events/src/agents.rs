//! Defines what agents request over the broker, and the port that answers them.
//!
//! A request is sent to the subject of an operation and a tenant, and is answered once. Its payload is the JSON that the
//! HTTP API takes, and so is the answer's. Who may send it is decided by the broker's permissions: see
//! [`permissions`](crate::permissions).

use std::pin::Pin;

use bytes::Bytes;
use retro_core::id::Tenant;
use strum::{IntoStaticStr, VariantArray};

use crate::subject::{decode_token, encode_token};

/// Name of the service by which tools such as `nats micro` find the gateways that answer agents.
pub const AGENT_SERVICE: &str = "retro-agents";
/// Queue group of the gateways: the broker gives each request to one of them.
pub const AGENT_QUEUE: &str = "retro-gateway";

/// Something that agents request over the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum AgentOperation {
    /// Context for a step that is about to start: `POST /v1/context`.
    Context,
    /// One memory in full: `GET /v1/memories/{id}`.
    ReadMemory,
    /// Memories about a text: `GET /v1/memories/search`.
    SearchMemories,
    /// What a memory did: `POST /v1/feedback`.
    GiveFeedback,
}

impl AgentOperation {
    /// All operations, in order of declaration.
    pub const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    /// Returns the name of the operation, as in labels of metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the prefix of the operation's subjects; the tenant follows.
    pub const fn subject_prefix(self) -> &'static str {
        match self {
            Self::Context => "retro.agents.context",
            Self::ReadMemory => "retro.agents.memory.read",
            Self::SearchMemories => "retro.agents.memory.search",
            Self::GiveFeedback => "retro.agents.feedback",
        }
    }

    /// Returns the name of the operation's endpoint in the service.
    pub const fn endpoint_name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::ReadMemory => "memory-read",
            Self::SearchMemories => "memory-search",
            Self::GiveFeedback => "feedback",
        }
    }

    /// Returns the subject on which a tenant's agents request the operation.
    pub fn subject_of_tenant(self, tenant: &Tenant) -> String {
        format!("{}.{}", self.subject_prefix(), encode_token(tenant.as_str()))
    }

    /// Returns the pattern that matches the subjects of every tenant.
    pub fn subject_of_all(self) -> String {
        format!("{}.*", self.subject_prefix())
    }

    /// Parses the tenant from a subject of the operation. Fails with the problem if the subject is not one, or spells the
    /// tenant in another way than [`encode_token`] does.
    pub fn parse_tenant(self, subject: &str) -> Result<Tenant, String> {
        let token = subject.strip_prefix(self.subject_prefix()).and_then(|rest| rest.strip_prefix('.'));
        let token = token
            .ok_or_else(|| format!("{subject:?} is not {} with a tenant after it", self.subject_prefix()))?;
        Tenant::new(decode_token(token)?).map_err(|error| error.to_string())
    }
}

/// Request of an agent, as the broker delivers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRequest {
    /// Operation to whose subjects the request was sent.
    pub operation: AgentOperation,
    /// Subject of the request, which names the tenant.
    pub subject: String,
    /// JSON of the request.
    pub payload: Bytes,
}

/// Answer to a request of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentReply {
    /// JSON of the answer, or of the problem.
    pub payload: Bytes,
    /// Reason why the request was refused; `None` if it was answered.
    pub refusal: Option<AgentRefusal>,
}

/// Reason why a request was refused, for the headers of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRefusal {
    /// HTTP status of the same refusal.
    pub status: u16,
    /// Explanation of the problem on one line.
    pub reason: String,
}

/// A request that has been begun.
pub enum BegunAnswer {
    /// The answer is there.
    Ready(AgentReply),
    /// The answer comes within the time that an agent waits.
    Pending(Pin<Box<dyn Future<Output = AgentReply> + Send>>),
}

/// Answers the requests of agents.
pub trait AgentService: Send + Sync + 'static {
    /// Begins to answer a request, without waiting. If as many answers are pending as the service permits, or if the
    /// request cannot be read, the answer is ready.
    fn begin_answer(&self, request: AgentRequest) -> BegunAnswer;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tenant_is_read_from_exactly_one_spelling_of_the_subject() {
        for operation in AgentOperation::ALL {
            for name in ["acme", "größe & $co"] {
                let tenant = Tenant::new(name).unwrap();
                let subject = operation.subject_of_tenant(&tenant);
                assert_eq!(operation.parse_tenant(&subject), Ok(tenant));
                for other in AgentOperation::ALL.iter().filter(|other| *other != operation) {
                    assert!(other.parse_tenant(&subject).is_err(), "{subject}");
                }
            }
        }
        let context = AgentOperation::Context;
        assert_eq!(
            context.subject_of_tenant(&Tenant::new("a.b c").unwrap()),
            "retro.agents.context.a=2Eb=20c"
        );
        for (subject, problem) in [
            ("retro.agents.context", "with a tenant after it"),
            ("retro.agents.context.", "empty"),
            ("retro.agents.context.=61cme", "has to be written \"acme\""),
            ("retro.agents.context.acme.more", "has to be written"),
            ("retro.agents.context.=0A", "control character"),
        ] {
            let error = context.parse_tenant(subject).unwrap_err();
            assert!(error.contains(problem), "{subject}: {error}");
        }
    }
}
