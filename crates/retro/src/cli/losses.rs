//! Defines the arguments of `retro losses`.

use clap::Subcommand;
use retro_store::broker::LossKey;

use super::audit::AuditArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum Losses {
    /// List messages of all tenants that were lost with the broker's data and were neither received again nor closed.
    List {
        /// Include closed losses, with the person who closed them and the reason.
        #[arg(long)]
        all: bool,
    },
    /// Close losses that were reported wrongly or are accepted. They stay stored, but `retro doctor` no longer counts
    /// them.
    Close {
        /// Ids of losses, as `retro losses list` prints them.
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<LossKey>,
        /// Close all open losses.
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        #[command(flatten)]
        act: AuditArgs,
    },
}
