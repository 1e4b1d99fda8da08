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
    BodyBudget, BodyLimits, BudgetBounds, BudgetExceeded, BufferedBody, OWNER_FLOOR_BYTES, Permit,
    ReadBodyError,
};
pub use extract::{
    BODY_BYTES_MAX, BODY_READ_S_MAX, Caller, Id, JsonBody, Params, TENANT_HEADER, accepts, is_json,
    media_type,
};
pub use health::{Probes, Readiness, ReadyCheck, Scrape, health, health_description};
pub use idempotency::{
    Asked, Idempotency, IdempotencyKey, KEPT_S, KEY_BYTES_MAX, KEY_HEADER, UNDER_WAY_S_MAX,
};
pub use problem::Problem;
pub use serve::{
    STOP_S_MAX, ServeError, finished, listen, listen_anywhere, serve, serve_health, serve_signed,
    serve_waiting,
};
pub use tenant_limiter::{TenantLimiter, Turn};
