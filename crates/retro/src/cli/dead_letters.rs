//! Defines the arguments of `retro dead-letters`.

use clap::{Args, Subcommand};
use retro_core::id::ObjectRef;
use retro_core::replay::RATE_MILLI_MAX;

use super::audit::{AuditArgs, UNKNOWN_OPERATOR};
use super::dead_letter_args::{EditDeadLetter, ExportDeadLetters, ListDeadLetters, ShowDeadLetter};
use super::dead_letter_filter::DeadLetterFilterArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetters {
    /// List dead letters, newest first, with secrets redacted.
    List(ListDeadLetters),
    /// Summarise dead letters by cause: count, first and last occurrence, and one redacted example each.
    Stats {
        #[command(flatten)]
        filter: DeadLetterFilterArgs,
    },
    /// Show one dead letter: reason, origin, attempts, redacted message and the runbook for its code.
    Show(ShowDeadLetter),
    /// Print dead letters as JSON lines, newest first; redacted unless `--raw` is given.
    Export(ExportDeadLetters),
    /// Create an edited version of a dead letter; the original stays unchanged.
    ///
    /// Shows the differences and predicts how the edited version would be handled. Send it with
    /// `retro dead-letters replay`.
    Edit(EditDeadLetter),
    /// Send dead letters again: a single one immediately, several as a batch that can be cancelled.
    ///
    /// Effects that are already stored are not repeated. Waits until the batch has finished; the batch
    /// continues even if the wait is interrupted.
    Replay(Replay),
    /// Mark dead letters as discarded; they stay stored and can still be replayed.
    Discard(Discard),
    /// List replay batches, or show one with the outcome of each dead letter.
    Batches {
        /// Id of the batch to show, or at least its first 8 digits.
        id: Option<ObjectRef>,
        /// Maximum number of batches to print, or of dead letters if a batch is given.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Cancel a replay batch: no further dead letters are sent, but replays in progress continue.
    Cancel {
        /// Id of the batch, or at least its first 8 digits.
        id: ObjectRef,
        #[command(flatten)]
        act: AuditArgs,
    },
}

/// Arguments that select the dead letters to replay or discard.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SelectionArgs {
    /// Ids of the dead letters, or at least their first 8 digits.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<ObjectRef>,
    #[command(flatten)]
    pub(crate) filter: DeadLetterFilterArgs,
    /// Select all open dead letters. Required if neither ids nor filters are given.
    #[arg(long)]
    pub(crate) all: bool,
    /// Show what would happen and why, without doing it.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) chosen: SelectionArgs,
    /// Version to send if a single dead letter is selected; 0 is the original [default: the newest].
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    /// Number of dead letters to send first as a canary; the rest follow only if all of these succeed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) canary: u32,
    /// Maximum rate in dead letters per second, 0.001 to 1000, such as 0.2.
    #[arg(long, value_name = "N", default_value = "5", value_parser = parse_rate_milli)]
    pub(crate) rate: u32,
    /// Share of failed replays above which the batch stops, 0% to 100%, such as 2.5%.
    #[arg(long, value_name = "PERCENT", default_value = "20%", value_parser = parse_permille)]
    pub(crate) max_failed: u32,
    /// Print the id of the batch and exit without waiting.
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) why: BatchAuditArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    pub(crate) chosen: SelectionArgs,
    #[command(flatten)]
    pub(crate) why: BatchAuditArgs,
}

/// Arguments for the operator's name and reason in the audit log; a dry run needs no reason.
#[derive(Debug, Args)]
pub(crate) struct BatchAuditArgs {
    /// Reason for the operation, stored permanently in the audit log; required unless `--dry-run` is given.
    #[arg(long, required_unless_present = "dry_run", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    /// Name of the operator, stored permanently in the audit log.
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true, default_value = UNKNOWN_OPERATOR)]
    pub(crate) by: String,
}

fn parse_rate_milli(text: &str) -> Result<u32, String> {
    let wrong = || "expected dead letters per second, 0.001 to 1000, such as 5 or 0.2".to_owned();
    let rate: f64 = text.parse().map_err(|_| wrong())?;
    let milli = (rate * 1000.0).round();
    if !(1.0..=f64::from(RATE_MILLI_MAX)).contains(&milli) {
        return Err(wrong());
    }
    format!("{milli}").parse().map_err(|_| wrong())
}

fn parse_permille(text: &str) -> Result<u32, String> {
    let wrong = || "expected a share such as 20% or 2.5%".to_owned();
    let percent: f64 = text.strip_suffix('%').unwrap_or(text).parse().map_err(|_| wrong())?;
    let permille = (percent * 10.0).round();
    if !(0.0..=1000.0).contains(&permille) {
        return Err(wrong());
    }
    format!("{permille}").parse().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_and_a_percentage_are_parsed() {
        assert_eq!(
            (parse_rate_milli("5"), parse_rate_milli("0.2"), parse_rate_milli("1000")),
            (Ok(5000), Ok(200), Ok(1_000_000))
        );
        assert!(
            [
                parse_rate_milli("0"),
                parse_rate_milli("-1"),
                parse_rate_milli("NaN"),
                parse_rate_milli("1001")
            ]
            .iter()
            .all(Result::is_err)
        );
        assert_eq!(
            (parse_permille("20%"), parse_permille("2.5%"), parse_permille("0")),
            (Ok(200), Ok(25), Ok(0))
        );
        assert!(
            [parse_permille("101%"), parse_permille("x"), parse_permille("-1")].iter().all(Result::is_err)
        );
    }
}
