#![doc = include_str!("../README.md")]

mod answer_headers;
mod api;
mod authentication;
mod body_budget;
mod cross_site;
mod extract;
mod guard;
mod health;
mod idempotency;
mod in_flight;
mod problem;
mod route_access;
mod serve;
mod sized_json;
mod tenant_header;
mod tenant_limiter;
mod tls;
mod tls_probe;

pub use api::{Api, OPENAPI_PATH};
pub use authentication::{
    Authenticator, Caller, Principal, PrincipalToken, REVOKED_WITHIN_S, Refusal, TokenRegistry,
    UNREACHABLE_S_MAX, decide_with, deciding_token,
};
pub use body_budget::{
    BodyBudget, BodyLimits, BodyPermit, BudgetBounds, BudgetExceeded, BufferedBody, OWNER_RESERVE_BYTES,
    ReadBodyError,
};
pub use extract::{
    BODY_BYTES_MAX, BODY_READ_S_MAX, JsonBody, PathId, QueryParams, is_json, media_type,
    negotiate_media_type, parse_json,
};
pub use health::{Probes, Readiness, ReadyCheck, Scrape, describe_health_routes, health_routes};
pub use idempotency::{
    ANSWER_TTL_S, IN_PROGRESS_S_MAX, Idempotency, IdempotencyKey, IdempotentRequest, KEY_BYTES_MAX,
    KEY_HEADER,
};
pub use problem::Problem;
pub use route_access::RouteAccess;
pub use serve::{
    HttpServer, SHUTDOWN_S_MAX, ServeError, finish_router, finish_router_for, listen, listen_anywhere,
    serve_health, serve_signed, url_scheme,
};
pub use sized_json::SizedJson;
pub use tenant_header::TENANT_HEADER;
pub use tenant_limiter::{TenantLimiter, TenantPermit};
pub use tls::{ServerCertificate, TlsError};
pub use tls_probe::TlsProbe;
