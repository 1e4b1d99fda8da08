//! `retro dead-letters`.

use clap::{Args, Subcommand};
use retro_core::id::{BatchId, DeadLetterId};
use retro_core::replay::RATE_MILLI_MAX;

use super::letter_filter::LetterFilterArgs;
use super::letters::{EditLetter, ExportLetters, ListLetters, ShowLetter};
use super::who::ActArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetters {
    /// List dead letters, the newest first; redacted.
    List(ListLetters),
    /// Dead letters by mistake: how many, since when, until when, and one of each; redacted.
    Stats {
        #[command(flatten)]
        filter: LetterFilterArgs,
    },
    /// Show one dead letter: why, where, each attempt, the message itself, redacted, and the page of its code.
    Show(ShowLetter),
    /// Print dead letters as JSON lines, the newest first; redacted, or exactly as they are for whoever says why.
    Export(ExportLetters),
    /// Make a version of a dead letter that can be handled; the letter itself stays as it came. Shows what is another and
    /// what would become of it. A replay says which version it sends.
    Edit(EditLetter),
    /// Send dead letters again: one at once, several as a batch that can stop. What was handled before stays as it is.
    ///
    /// Waits until something came of a batch; interrupted, the batch goes on.
    Replay(Replay),
    /// Put dead letters aside: they are kept, and can be replayed all the same.
    Discard(Discard),
    /// List batches of replays, or show one with what came of its letters.
    Batches {
        /// The id of one.
        id: Option<BatchId>,
        /// At most so many, batches or letters of one.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Call a batch off: it takes up no more letters, and those under way go on.
    Cancel {
        /// Its id.
        id: BatchId,
        #[command(flatten)]
        act: ActArgs,
    },
}

/// Which letters an act is about.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ChosenArgs {
    /// Their ids.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<DeadLetterId>,
    #[command(flatten)]
    pub(crate) filter: LetterFilterArgs,
    /// Every open letter is meant; without ids, filter or this nothing is done.
    #[arg(long)]
    pub(crate) all: bool,
    /// Only say what would happen, and why.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    pub(crate) chosen: ChosenArgs,
    /// Which bytes of one letter: 0 as they came, and so on [default: the newest].
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    /// So many go first, and the others only when each of them succeeded.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) canary: u32,
    /// Letters a second; also less than one, such as 0.2.
    #[arg(long, value_name = "N", default_value = "5", value_parser = rate_milli)]
    pub(crate) rate: u32,
    /// More failures than this share stop the batch.
    #[arg(long, value_name = "PERCENT", default_value = "20%", value_parser = permille)]
    pub(crate) max_failed: u32,
    /// Print the batch's id and do not wait.
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) why: WhyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    pub(crate) chosen: ChosenArgs,
    #[command(flatten)]
    pub(crate) why: WhyArgs,
}

/// Who does something to letters, and why; a dry run needs no reason.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// Why: it is kept for ever.
    #[arg(long, required_unless_present = "dry_run", default_value = "")]
    pub(crate) reason: String,
    /// Who.
    #[arg(long, env = "USER", hide_env_values = true, default_value = "somebody at a terminal")]
    pub(crate) by: String,
}

fn rate_milli(text: &str) -> Result<u32, String> {
    let wrong = || "letters a second, 0.001 to 1000, such as 5 or 0.2".to_owned();
    let rate: f64 = text.parse().map_err(|_| wrong())?;
    let milli = (rate * 1000.0).round();
    if !(1.0..=f64::from(RATE_MILLI_MAX)).contains(&milli) {
        return Err(wrong());
    }
    format!("{milli}").parse().map_err(|_| wrong())
}

fn permille(text: &str) -> Result<u32, String> {
    let wrong = || "a share such as 20% or 2.5%".to_owned();
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
    fn a_rate_and_a_share_are_read_as_people_write_them() {
        assert_eq!(
            (rate_milli("5"), rate_milli("0.2"), rate_milli("1000")),
            (Ok(5000), Ok(200), Ok(1_000_000))
        );
        assert!(
            [rate_milli("0"), rate_milli("-1"), rate_milli("NaN"), rate_milli("1001")]
                .iter()
                .all(Result::is_err)
        );
        assert_eq!((permille("20%"), permille("2.5%"), permille("0")), (Ok(200), Ok(25), Ok(0)));
        assert!([permille("101%"), permille("x"), permille("-1")].iter().all(Result::is_err));
    }
}
