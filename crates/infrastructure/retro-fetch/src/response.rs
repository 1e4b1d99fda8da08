//! Defines the usable responses of a host.

use bytes::Bytes;

/// Usable response of a host.
pub(crate) enum HostResponse {
    /// The complete body of a successful response.
    Body(Bytes),
    /// A redirect, with the value of its `Location` header.
    Redirect(String),
}
