#![doc = include_str!("../README.md")]

mod api;
mod body_budget;
mod extract;
mod health;
mod idempotency;
mod in_flight;
mod problem;
mod serve;
mod tenant_limiter;

pub use api::{Api, OPENAPI_PATH};
pub use body_budget::{
    BodyBudget, BodyLimits, BodyPermit, BudgetBounds, BudgetExceeded, BufferedBody, OWNER_RESERVE_BYTES,
    ReadBodyError,
};
pub use extract::{
    BODY_BYTES_MAX, BODY_READ_S_MAX, Caller, JsonBody, PathId, QueryParams, TENANT_HEADER, is_json,
    media_type, negotiate_media_type,
};
pub use health::{Probes, Readiness, ReadyCheck, Scrape, describe_health_routes, health_routes};
pub use idempotency::{
    ANSWER_TTL_S, IN_PROGRESS_S_MAX, Idempotency, IdempotencyKey, IdempotentRequest, KEY_BYTES_MAX,
    KEY_HEADER,
};
pub use problem::Problem;
pub use serve::{
    SHUTDOWN_S_MAX, ServeError, finish_router, listen, listen_anywhere, serve, serve_health, serve_not_ready,
    serve_signed,
};
pub use tenant_limiter::{TenantLimiter, TenantPermit};
