//! Reads the header that names the tenant of a request without an access token.

use axum::http::HeaderMap;
use retro_core::id::Tenant;

use crate::problem::Problem;

/// Header that names the tenant of a request without an access token. It is trusted on loopback only.
pub const TENANT_HEADER: &str = "retro-tenant";

/// Returns the tenant that the `Retro-Tenant` header names; `None` without it. Fails if the header occurs more than
/// once or is not a valid tenant.
pub(crate) fn find_tenant_header(headers: &HeaderMap) -> Result<Option<Tenant>, Problem> {
    let mut named = headers.get_all(TENANT_HEADER).iter();
    let Some(value) = named.next() else { return Ok(None) };
    // A proxy might act on either of two headers, so trust neither.
    if named.next().is_some() {
        return Err(Problem::invalid_field(
            "Retro-Tenant",
            "the header occurs more than once; name one tenant",
        ));
    }
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| Problem::invalid_field("Retro-Tenant", "the tenant is not UTF-8"))?;
    Tenant::new(text).map(Some).map_err(|error| Problem::invalid_field("Retro-Tenant", error.to_string()))
}
