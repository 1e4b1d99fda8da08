//! Declares what an access token has to allow for a group of routes.

use axum::extract::Request;
use axum::http::Method;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use retro_core::access::AccessScope;

use crate::api::Api;
use crate::authentication::{Allowed, Principal, Refusal};
use crate::cross_site::ForeignNavigation;

/// What a token has to allow for a group of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteAccess {
    /// For engines that send runs: `emit`.
    Emit,
    /// For agents: `context`.
    Context,
    /// For agents and people: `context` or `read`.
    ContextOrRead,
    /// For agents and people: `context` or `operate`.
    ContextOrOperate,
    /// For people: `read`, and `operate` for whatever is not a GET. A link on another site may open a GET.
    People,
    /// For whoever has a token.
    AnyToken,
}

impl RouteAccess {
    /// Returns the scopes of which a token needs one; empty if each token will do.
    fn scopes(self, method: &Method) -> &'static [AccessScope] {
        match self {
            Self::Emit => &[AccessScope::Emit],
            Self::Context => &[AccessScope::Context],
            Self::ContextOrRead => &[AccessScope::Context, AccessScope::Read],
            Self::ContextOrOperate => &[AccessScope::Context, AccessScope::Operate],
            Self::People if matches!(*method, Method::GET | Method::HEAD) => &[AccessScope::Read],
            Self::People => &[AccessScope::Operate],
            Self::AnyToken => &[],
        }
    }
}

impl<S: Clone + Send + Sync + 'static> Api<S> {
    /// Lets tokens use the routes added so far if they allow what `access` says. Refuses others with 401 or 403.
    #[must_use]
    pub fn allow(self, access: RouteAccess) -> Self {
        let check = move |request: Request, next: Next| check_access(access, request, next);
        self.describe_scopes(|method| access.scopes(method)).route_layer(from_fn(check))
    }
}

async fn check_access(access: RouteAccess, mut request: Request, next: Next) -> Response {
    let scopes = access.scopes(request.method());
    match request.extensions().get::<Principal>() {
        None => return Refusal::MissingToken.into_response(),
        Some(Principal { token: Some(token), .. })
            if !scopes.is_empty() && !scopes.iter().any(|scope| token.scopes.allows(*scope)) =>
        {
            return Refusal::InsufficientScope(scopes).into_response();
        }
        Some(_) => {}
    }
    if access != RouteAccess::People
        && let Some(navigation) = request.extensions().get::<ForeignNavigation>()
    {
        return navigation.into_response();
    }
    request.extensions_mut().insert(Allowed);
    next.run(request).await
}
