//! Defines the values of `nats_tls`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Use of TLS with an external broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NatsTls {
    /// The server or the address decides.
    #[default]
    Auto,
    /// A connection without TLS is refused.
    Required,
    /// TLS starts before the server's greeting.
    First,
}
