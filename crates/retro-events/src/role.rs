//! The roles of a process, and what each needs at the broker.

use std::fmt;
use std::str::FromStr;

use retro_fault::Label;

use crate::{stream, subject};

/// One kind of work, which a process does alone or together with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Counts finished runs.
    Counter,
    /// Draws the sample of a retrospective.
    Sampler,
    /// Looks into sampled runs.
    Investigator,
    /// Changes memory.
    Writer,
    /// Decides what of a review is a rule.
    Reviewer,
    /// Follows pull requests to their end.
    Tracker,
    /// Answers agents and people, and takes events over HTTP.
    Gateway,
    /// Takes GitHub's webhooks.
    Bridge,
    /// Says what the transactions of all others left in the outbox, and sends dead letters again.
    Relay,
}

/// A durable consumer: where the broker remembers how far a role is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable {
    /// Its name, which is the role's.
    pub name: &'static str,
    /// The stream it reads.
    pub stream: &'static str,
    /// The prefix of the subjects it takes, before tenant and workflow.
    pub prefix: &'static str,
    /// What acknowledging one of its messages is called.
    pub acknowledging: Label,
}

impl Role {
    /// Every role, in the order in which a run meets them.
    pub const ALL: [Self; 9] = [
        Self::Counter,
        Self::Sampler,
        Self::Investigator,
        Self::Writer,
        Self::Reviewer,
        Self::Tracker,
        Self::Gateway,
        Self::Bridge,
        Self::Relay,
    ];

    /// Its name: of the role, its consumer and its user at the broker.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Sampler => "sampler",
            Self::Investigator => "investigator",
            Self::Writer => "writer",
            Self::Reviewer => "reviewer",
            Self::Tracker => "tracker",
            Self::Gateway => "gateway",
            Self::Bridge => "bridge",
            Self::Relay => "relay",
        }
    }

    /// The durable consumer it takes its messages from; `None` for a role that is not woken by messages.
    pub const fn durable(self) -> Option<Durable> {
        let (stream, prefix, acknowledging) = match self {
            Self::Counter => (stream::INTAKE, subject::RUN_COMPLETED, Label::CountAck),
            Self::Sampler => (stream::WORK, subject::RETROSPECTIVE_DUE, Label::SampleAck),
            Self::Investigator => (stream::WORK, subject::INVESTIGATION_DUE, Label::InvestigateAck),
            Self::Writer => (stream::WORK, subject::MUTATIONS_DUE, Label::WriteAck),
            Self::Reviewer => (stream::GITHUB, subject::GITHUB, Label::HearAck),
            Self::Tracker => (stream::GITHUB, subject::GITHUB, Label::TrackAck),
            Self::Gateway | Self::Bridge | Self::Relay => return None,
        };
        Some(Durable { name: self.as_str(), stream, prefix, acknowledging })
    }

    /// The streams it asks about and without which it cannot work; its consumer's only where it looks at that itself, since the
    /// consumer answers for its own.
    pub const fn streams(self) -> &'static [&'static str] {
        match self {
            Self::Sampler | Self::Writer | Self::Reviewer | Self::Tracker => &[],
            Self::Counter => &[stream::INTAKE],
            Self::Investigator => &[stream::BODIES],
            Self::Gateway => &[stream::INTAKE, stream::BODIES],
            Self::Bridge => &[stream::INTAKE, stream::GITHUB],
            // It sends dead letters again, to wherever they came from, and watches what the broker has.
            Self::Relay => {
                &[stream::INTAKE, stream::GITHUB, stream::WORK, stream::ANNOUNCEMENTS, stream::BODIES]
            }
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    /// Reads a role's name; fails with the names that there are.
    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::as_str).join(", ");
        Self::ALL
            .into_iter()
            .find(|role| role.as_str() == text)
            .ok_or_else(|| format!("{text:?} is no role; there are {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read_from_its_name_and_from_nothing_else() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        assert!("Counter".parse::<Role>().unwrap_err().contains("counter, sampler"));
    }
}
