//! Defines the roles of a process, and the streams and consumers that each role needs.

use retro_fault::Label;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::{stream, subject};

/// Kind of work that a process does. A process has one or more roles.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case", parse_err_ty = String, parse_err_fn = describe_unknown_role)]
pub enum Role {
    /// Counts finished runs.
    Counter,
    /// Draws the sample of a retrospective.
    Sampler,
    /// Investigates sampled runs.
    Investigator,
    /// Changes memories.
    Writer,
    /// Decides which parts of a review become rules.
    Reviewer,
    /// Follows pull requests to their end.
    Tracker,
    /// Serves agents and operators over HTTP, and accepts events.
    Gateway,
    /// Receives GitHub's webhooks.
    Bridge,
    /// Publishes the outbox messages of all other roles, and the replays of dead letters.
    Relay,
}

/// A durable consumer at the broker, which stores how far a role has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurableConsumer {
    /// Name of the consumer, equal to the name of the role.
    pub name: &'static str,
    /// Stream that the consumer reads.
    pub stream: &'static str,
    /// Prefix of the subjects that the consumer reads.
    pub prefix: &'static str,
    /// Fault label for the acknowledgement of one of the consumer's messages.
    pub ack_label: Label,
}

impl Role {
    /// All roles in the order of declaration: the stages of a run in processing order, then the others.
    pub const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    /// Returns the name of the role, which is also the name of its consumer and of its user at the broker.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the durable consumer of the role; `None` if no messages wake the role.
    pub fn durable_consumer(self) -> Option<DurableConsumer> {
        let (stream, prefix, acknowledging) = match self {
            Self::Counter => (stream::INTAKE, subject::RUN_COMPLETED, Label::CountAck),
            Self::Sampler => (stream::WORK, subject::RETROSPECTIVE_DUE, Label::SampleAck),
            Self::Investigator => (stream::WORK, subject::INVESTIGATION_DUE, Label::InvestigateAck),
            Self::Writer => (stream::WORK, subject::MUTATIONS_DUE, Label::WriteAck),
            Self::Reviewer => (stream::GITHUB, subject::GITHUB, Label::RecordEventsAck),
            Self::Tracker => (stream::GITHUB, subject::GITHUB, Label::TrackAck),
            Self::Gateway | Self::Bridge | Self::Relay => return None,
        };
        Some(DurableConsumer { name: self.as_str(), stream, prefix, ack_label: acknowledging })
    }

    /// Returns the streams that the role queries and cannot work without. The stream of its consumer is
    /// included only if the role queries it directly, because otherwise the consumer's own check covers it.
    pub const fn required_streams(self) -> &'static [&'static str] {
        match self {
            Self::Sampler | Self::Writer | Self::Reviewer | Self::Tracker => &[],
            Self::Counter => &[stream::INTAKE],
            Self::Investigator => &[stream::BODIES],
            Self::Gateway => &[stream::INTAKE, stream::BODIES],
            Self::Bridge => &[stream::INTAKE, stream::GITHUB],
            // The relay replays dead letters to their original streams, and checks all streams.
            Self::Relay => {
                &[stream::INTAKE, stream::GITHUB, stream::WORK, stream::ANNOUNCEMENTS, stream::BODIES]
            }
        }
    }
}

/// Describes why a text is not the name of a role, with the known names.
fn describe_unknown_role(text: &str) -> String {
    let known: Vec<_> = Role::ALL.iter().map(|role| role.as_str()).collect();
    format!("{text:?} is not a role; the roles are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read_from_its_name_and_from_nothing_else() {
        let names = "counter sampler investigator writer reviewer tracker gateway bridge relay";
        assert_eq!(Role::ALL.iter().map(Role::to_string).collect::<Vec<_>>().join(" "), names);
        for role in Role::ALL {
            assert_eq!(role.as_str().parse::<Role>(), Ok(*role));
        }
        assert!("Counter".parse::<Role>().unwrap_err().contains("counter, sampler"));
    }
}
