//! Defines the filter options for dead letters.

use clap::Args;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::{DeadLetterId, Workflow};
use retro_operator::DeadLetterSearch;
use retro_store::{DeadLetterFilter, DeadLetterStatus};

use super::variant::parse_variant;

/// Filters for dead letters. An absent filter matches every dead letter.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DeadLetterFilterArgs {
    /// Filter by code, such as field_invalid or attempts_exhausted.
    #[arg(long, value_parser = parse_code)]
    pub(crate) code: Option<DeadLetterCode>,
    /// Filter by the role that gave up on the message: counter, sampler, investigator, writer, reviewer or
    /// tracker.
    #[arg(long)]
    pub(crate) role: Option<retro_bus::Role>,
    /// Filter by workflow.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
    /// Filter by the time at which the role gave up: at or after this time, such as 2026-11-20T10:00:00Z, or
    /// at most this long ago, such as 90m, 2h or 3d.
    #[arg(long, value_name = "WHEN", value_parser = parse_time_bound)]
    pub(crate) since: Option<TimeBound>,
    /// Filter by the time at which the role gave up: before this time, or more than this long ago; same
    /// formats as `--since`.
    #[arg(long, value_name = "WHEN", value_parser = parse_time_bound)]
    pub(crate) until: Option<TimeBound>,
    /// Filter by case-insensitive text in the redacted reason, subject, headers or payload.
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// Filter by status: open, replaying, handled, discarded or replayed.
    #[arg(long, value_parser = parse_variant::<DeadLetterStatus>)]
    pub(crate) status: Option<DeadLetterStatus>,
}

impl DeadLetterFilterArgs {
    /// Builds the query for the store: these ids, or all dead letters that match the filters. Ages are
    /// resolved against `now`.
    pub(crate) fn build_search(&self, ids: &[DeadLetterId], limit: u32, now: Timestamp) -> DeadLetterSearch {
        let filter = DeadLetterFilter {
            ids: ids.to_vec(),
            code: self.code,
            consumer: self.role.map(|role| role.as_str().to_owned()),
            workflow: self.workflow.clone(),
            since: self.since.map(|moment| moment.resolve_at(now)),
            until: self.until.map(|moment| moment.resolve_at(now)),
            status: self.status,
            after: None,
            limit,
        };
        DeadLetterSearch { filter, text: self.text.clone() }
    }
}

/// Bound of a time filter, absolute or relative to the current time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeBound {
    /// At this time.
    At(Timestamp),
    /// This long before the current time.
    Ago(SignedDuration),
}

impl TimeBound {
    pub(crate) fn resolve_at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(moment) => moment,
            Self::Ago(long) => now.checked_sub(long).unwrap_or(Timestamp::MIN),
        }
    }
}

pub(super) fn parse_time_bound(text: &str) -> Result<TimeBound, String> {
    if let Ok(moment) = text.parse() {
        return Ok(TimeBound::At(moment));
    }
    let span: Option<Span> = text.parse().ok();
    let ago = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    ago.map(TimeBound::Ago)
        .ok_or_else(|| "expected a time such as 2026-11-20T10:00:00Z, or an age such as 2h".to_owned())
}

fn parse_code(text: &str) -> Result<DeadLetterCode, String> {
    let known = || DeadLetterCode::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(", ");
    DeadLetterCode::ALL
        .iter()
        .copied()
        .find(|one| one.as_str() == text)
        .ok_or_else(|| format!("expected one of: {}", known()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_or_an_age() {
        let now: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        let at = |text: &str| parse_time_bound(text).map(|moment| moment.resolve_at(now).to_string());
        assert_eq!(at("2026-11-19T10:00:00Z").as_deref(), Ok("2026-11-19T10:00:00Z"));
        assert_eq!(at("90m").as_deref(), Ok("2026-11-20T08:30:00Z"));
        assert_eq!(at("3d").as_deref(), Ok("2026-11-17T10:00:00Z"));
        assert!(at("yesterday").is_err() && at("").is_err());
    }
}
