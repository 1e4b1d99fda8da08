//! Defines the arguments for the audit log and for idempotent requests.

use clap::Args;

/// Name of the operator if neither `--by` nor `USER` gives one.
pub(super) const UNKNOWN_OPERATOR: &str = "unknown";

/// Arguments for the operator's name and reason, both stored permanently in the audit log.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// Reason for the operation, stored permanently in the audit log.
    #[arg(long)]
    pub(crate) reason: String,
    /// Name of the operator, stored permanently in the audit log.
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true, default_value = UNKNOWN_OPERATOR)]
    pub(crate) by: String,
}

/// Arguments for the name of the requester and the id of the request.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// Name of the requester, stored with the request.
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true, default_value = UNKNOWN_OPERATOR)]
    pub(crate) by: String,
    /// Idempotency key: a repeated request with the same key has no further effect [default: derived from the
    /// arguments].
    #[arg(long)]
    pub(crate) request: Option<String>,
}
