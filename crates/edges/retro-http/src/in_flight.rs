//! Limits the concurrent requests of a group of routes, to leave connections and cores to the listener's
//! other routes.

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};

use crate::api::Api;
use crate::authentication::Principal;
use crate::problem::Problem;
use crate::serve::GuardedBody;
use crate::tenant_limiter::TenantLimiter;

/// `Retry-After` in seconds; a burst is over by then.
const RETRY_SOON_S: u32 = 1;

impl Api {
    /// Limits the concurrent requests of these routes. A request keeps its permit until its response is
    /// written. Without a free permit, the response is 503 with the code `busy`.
    #[must_use]
    pub fn limit_in_flight(self, limiter: TenantLimiter) -> Self {
        self.route_layer(from_fn_with_state(limiter, limit_requests))
    }
}

async fn limit_requests(
    State(limiter): State<TenantLimiter>,
    principal: Option<Extension<Principal>>,
    request: Request,
    next: Next,
) -> Response {
    // Without a principal, the route refuses the request.
    let Some(Extension(Principal { tenant, .. })) = principal else { return next.run(request).await };
    match limiter.try_acquire(&tenant) {
        // The body carries the permit, which is released once the response is written.
        Some(permit) => next.run(request).await.map(|body| Body::new(GuardedBody { body, guard: permit })),
        None => busy_problem().into_response(),
    }
}

fn busy_problem() -> Problem {
    let detail = "too many requests of this kind are in progress; try again";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too much at once", detail);
    problem.with_code("busy").with_retry_after(RETRY_SOON_S)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::http::Request;
    use axum::routing::get;
    use tokio::sync::Semaphore;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn a_tenant_at_its_limit_blocks_no_other() {
        let (gate, entered) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let slow = {
            let (gate, entered) = (gate.clone(), entered.clone());
            move || async move {
                entered.add_permits(1);
                gate.acquire().await.unwrap().forget();
                "shown"
            }
        };
        let slow = Api::from(Router::new().route("/slow", get(slow)));
        let other = Api::from(Router::new().route("/other", get(|| async { "other" })));
        let app = crate::finish_router(slow.limit_in_flight(TenantLimiter::new(2, 1)).merge(other));
        let ask = |tenant: &str, path: &str| {
            let request = Request::get(path).header("Retro-Tenant", tenant).body(Body::empty()).unwrap();
            tokio::spawn(app.clone().oneshot(request))
        };
        let first = ask("greedy", "/slow");
        entered.acquire().await.unwrap().forget();
        let refused = ask("greedy", "/slow").await.unwrap().unwrap();
        assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"] == "1"), (503, true));
        assert_eq!(ask("greedy", "/other").await.unwrap().unwrap().status(), 200, "another kind");
        let another = ask("another", "/slow");
        entered.acquire().await.unwrap().forget();
        gate.add_permits(2);
        let answer = first.await.unwrap().unwrap();
        another.await.unwrap().unwrap();
        assert_eq!(
            ask("greedy", "/slow").await.unwrap().unwrap().status(),
            503,
            "its answer is not read yet"
        );
        drop(answer);
        gate.add_permits(1);
        assert_eq!(ask("greedy", "/slow").await.unwrap().unwrap().status(), 200);
    }
}
