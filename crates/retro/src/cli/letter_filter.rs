//! Which dead letters a command is about.

use clap::Args;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use retro_core::dead_letter::Code;
use retro_core::id::{DeadLetterId, Workflow};
use retro_operator::LetterSearch;
use retro_store::{DeadLetterFilter, LetterStatus};

/// Which dead letters; what is not said does not matter.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LetterFilterArgs {
    /// Only with this code.
    #[arg(long, value_parser = code)]
    pub(crate) code: Option<Code>,
    /// Only what this role gave up: counter, sampler, investigator, writer, reviewer or tracker.
    #[arg(long)]
    pub(crate) role: Option<retro_bus::Role>,
    /// Only of this workflow.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
    /// Only those given up since: a moment such as 2026-11-20T10:00:00Z, or so long ago, such as 90m, 2h or 3d.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) since: Option<Moment>,
    /// Only those given up before: a moment, or so long ago.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) until: Option<Moment>,
    /// Only those that show this text, in any case: in the reason, the subject, the headers or the payload, redacted.
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// Only those that stand there: open, replaying, handled, discarded or replayed.
    #[arg(long, value_parser = status)]
    pub(crate) status: Option<LetterStatus>,
}

impl LetterFilterArgs {
    /// What is asked of the store, at this moment: these letters, or any that fit.
    pub(crate) fn search(&self, ids: &[DeadLetterId], limit: u32, now: Timestamp) -> LetterSearch {
        let filter = DeadLetterFilter {
            ids: ids.to_vec(),
            code: self.code,
            consumer: self.role.map(|role| role.as_str().to_owned()),
            workflow: self.workflow.clone(),
            since: self.since.map(|moment| moment.at(now)),
            until: self.until.map(|moment| moment.at(now)),
            status: self.status,
            behind: None,
            limit,
        };
        LetterSearch { filter, text: self.text.clone() }
    }
}

/// A moment as somebody says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// That one.
    At(Timestamp),
    /// So long before now.
    Ago(SignedDuration),
}

impl Moment {
    fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(moment) => moment,
            Self::Ago(long) => now.checked_sub(long).unwrap_or(Timestamp::MIN),
        }
    }
}

fn moment(text: &str) -> Result<Moment, String> {
    if let Ok(moment) = text.parse() {
        return Ok(Moment::At(moment));
    }
    let span: Option<Span> = text.parse().ok();
    let ago = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    ago.map(Moment::Ago)
        .ok_or_else(|| "a moment such as 2026-11-20T10:00:00Z, or an age such as 2h".to_owned())
}

fn code(text: &str) -> Result<Code, String> {
    let known = || Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(", ");
    Code::ALL.iter().copied().find(|one| one.as_str() == text).ok_or_else(|| format!("one of: {}", known()))
}

fn status(text: &str) -> Result<LetterStatus, String> {
    let known = || LetterStatus::ALL.map(LetterStatus::as_str).join(", ");
    let found = LetterStatus::ALL.into_iter().find(|one| one.as_str() == text);
    found.ok_or_else(|| format!("one of: {}", known()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_one_or_an_age() {
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        let at = |text: &str| moment(text).map(|moment| moment.at(now).to_string());
        assert_eq!(at("2026-11-19T10:00:00Z").as_deref(), Ok("2026-11-19T10:00:00Z"));
        assert_eq!(at("90m").as_deref(), Ok("2026-11-20T08:30:00Z"));
        assert_eq!(at("3d").as_deref(), Ok("2026-11-17T10:00:00Z"));
        assert!(at("yesterday").is_err() && at("").is_err());
    }
}
