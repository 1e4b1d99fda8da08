//! Builds routes that describe themselves: one call adds a route and its part of the OpenAPI document. The
//! server accepts only an [`Api`], which offers no other way to add a route, so every route is described.

use std::convert::Infallible;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, header};
use axum::response::IntoResponse;
use axum::routing::{Route, get};
use retro_core::access::AccessScope;
use serde_json::{Value, json};
use tower::{Layer, Service};
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::SecurityRequirement;
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::problem::Problem;
use crate::tenant_header::TENANT_HEADER;

/// Path of the served OpenAPI document.
pub const OPENAPI_PATH: &str = "/v1/openapi.json";

/// Routes and their OpenAPI description.
#[derive(Clone)]
pub struct Api<S = ()>(OpenApiRouter<S>);

impl<S: Clone + Send + Sync + 'static> Api<S> {
    /// Creates an `Api` without routes.
    #[must_use]
    pub fn new() -> Self {
        Self(OpenApiRouter::default())
    }

    /// Adds the routes of `utoipa_axum::routes!(handler)`, described by the handler's `#[utoipa::path(…)]`.
    #[must_use]
    pub fn routes(self, routes: UtoipaMethodRouter<S>) -> Self {
        Self(self.0.routes(routes))
    }

    /// Adds the routes of another `Api`.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self(self.0.merge(other.0))
    }

    /// Provides the state for the handlers.
    #[must_use]
    pub fn with_state(self, state: S) -> Api {
        Api(self.0.with_state(state))
    }

    /// Describes of all routes added so far which scopes an access token needs: one of those that `scopes` returns for
    /// the method.
    pub(crate) fn describe_scopes(mut self, scopes: impl Fn(&Method) -> &'static [AccessScope]) -> Self {
        for item in self.0.get_openapi_mut().paths.paths.values_mut() {
            let operations = [(Method::GET, &mut item.get), (Method::POST, &mut item.post)];
            for (method, operation) in operations {
                let Some(operation) = operation else { continue };
                // Without a token, on loopback.
                let mut security = vec![SecurityRequirement::default(), require("tenant", &[])];
                match scopes(&method) {
                    [] => security.push(require("token", &[])),
                    scopes => security.extend(scopes.iter().map(|scope| require("token", &[scope.as_str()]))),
                }
                operation.security = Some(security);
            }
        }
        self
    }

    /// Applies a middleware layer to all routes added so far.
    pub(crate) fn route_layer<L>(self, layer: L) -> Self
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        Self(self.0.route_layer(layer))
    }
}

fn require(scheme: &str, scopes: &[&str]) -> SecurityRequirement {
    SecurityRequirement::new(scheme, scopes.iter().copied())
}

impl<S: Clone + Send + Sync + 'static> Api<S> {
    /// Returns only the description, for an OpenAPI document that needs no state.
    #[must_use]
    pub fn into_description(self) -> Api {
        Api(OpenApiRouter::with_openapi(self.0.into_openapi()))
    }
}

impl Api {
    /// Returns the OpenAPI 3.1 document of all routes. Every operation may also return a problem and accepts
    /// the tenant header.
    pub fn document(&self) -> Value {
        complete_document(self.0.get_openapi())
    }

    /// Returns a router with all routes and the document at [`OPENAPI_PATH`].
    pub(crate) fn into_router(self) -> Router {
        let document = self.document().to_string();
        let served = move || async move { ([(header::CONTENT_TYPE, "application/json")], document) };
        self.into_bare_router().route(OPENAPI_PATH, get(served))
    }

    /// Returns a router with all routes but without the document.
    pub(crate) fn into_bare_router(self) -> Router {
        self.0.into()
    }
}

impl<S: Clone + Send + Sync + 'static> Default for Api<S> {
    fn default() -> Self {
        Self::new()
    }
}

/// Lets tests of the server use plain routes without descriptions.
#[cfg(test)]
impl From<Router> for Api {
    fn from(router: Router) -> Self {
        Self(router.into())
    }
}

fn complete_document(openapi: &OpenApi) -> Value {
    let mut document = serde_json::to_value(openapi).expect("an OpenAPI document always serializes");
    document["info"] = json!({
        "title": "Retrospect",
        "description": "Accepts finished runs of agent workflows and serves what was learned from them. Every refused request is answered with a problem (RFC 9457).",
        "version": env!("CARGO_PKG_VERSION"),
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    });
    document["components"]["securitySchemes"] = json!({
        "tenant": {
            "type": "apiKey", "in": "header", "name": TENANT_HEADER,
            "description": "Names the tenant of a request without an access token, which only a loopback address answers. Without the header, the tenant is `default`.",
        },
        "token": {
            "type": "http", "scheme": "bearer",
            "description": "Access token that `retro tokens create` made. It decides the tenant. The names beside it are the scopes of which it needs one.",
        },
    });
    let described = serde_json::to_value(Problem::schema()).expect("a schema always serializes");
    document["components"]["schemas"][Problem::name().as_ref()] = described;
    document["paths"][OPENAPI_PATH] = json!({"get": {
        "summary": "This document.",
        "responses": {"200": {"description": "OpenAPI 3.1", "content": {"application/json": {"schema": {"type": "object"}}}}},
    }});
    for operation in operations_mut(&mut document) {
        operation["responses"]["default"] = json!({
            "description": "Reason why the request is refused.",
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        });
    }
    document
}

fn operations_mut(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    paths.flat_map(|(_, item)| item.as_object_mut().into_iter().flatten().map(|(_, operation)| operation))
}

#[cfg(test)]
mod tests {
    use utoipa_axum::routes;

    use super::*;

    /// Says hello.
    #[utoipa::path(get, path = "/hello", responses((status = 200, body = String)))]
    async fn hello() -> &'static str {
        "hello"
    }

    #[test]
    fn a_route_is_described_with_the_problem_that_it_may_answer_with() {
        let document = Api::new().routes(routes!(hello)).document();
        let paths: Vec<_> = document["paths"].as_object().unwrap().keys().collect();
        assert_eq!(paths, ["/hello", OPENAPI_PATH]);
        let hello = &document["paths"]["/hello"]["get"];
        assert_eq!(hello["summary"], "Says hello.");
        assert!(
            hello["responses"]["200"].is_object() && hello["responses"]["default"].is_object(),
            "{hello}"
        );
        let required = &document["components"]["schemas"]["Problem"]["required"];
        assert_eq!(*required, json!(["status", "title", "detail"]));
    }
}
