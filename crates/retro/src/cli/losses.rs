//! `retro losses`.

use clap::Subcommand;
use retro_store::broker::LossKey;

use super::who::ActArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum Losses {
    /// List what was lost with the broker, has not come again since and was closed by nobody; of every tenant.
    List {
        /// With those that were closed, and who closed each and why.
        #[arg(long)]
        all: bool,
    },
    /// Close losses that were told wrongly, or that nobody misses: `retro doctor` does not count them any more. They are kept.
    Close {
        /// Their ids, as `retro losses list` prints them.
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<LossKey>,
        /// Every open loss is meant.
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        #[command(flatten)]
        act: ActArgs,
    },
}
