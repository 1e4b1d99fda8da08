//! Defines the arguments of `retro losses`.

use clap::{Args, Subcommand};
use retro_store::broker::LossKey;

use super::audit::AuditArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum Losses {
    /// List messages of all tenants that were lost with the broker's data and neither received again nor
    /// closed.
    List(ListLosses),
    /// Show one loss, open or closed.
    Show {
        /// Id of the loss, as printed by `retro losses list`.
        id: LossKey,
    },
    /// Close losses that were reported wrongly or are accepted. They stay stored, but no longer fail
    /// `retro doctor`.
    Close {
        /// Ids of the losses, as printed by `retro losses list`.
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<LossKey>,
        /// Close all open losses.
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        #[command(flatten)]
        act: AuditArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListLosses {
    /// Include closed losses, with the reason and the name of the operator.
    #[arg(long)]
    pub(crate) all: bool,
}
