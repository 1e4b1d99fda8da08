//! HTTP route of the versions of the pipelines.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use retro_core::pipeline::CurrentPipelines;
use retro_http::{Api, Caller, QueryParams, RouteAccess};
use retro_store::PipelineStore;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::PipelineVersions;
use crate::http::{ApiError, Limit, TEXT_COLUMNS, json_or_text};

/// What the route reads.
#[derive(Clone)]
pub(crate) struct PipelineState {
    store: Arc<dyn PipelineStore>,
    current: Arc<dyn CurrentPipelines>,
}

/// Returns the route of the versions, under `/v1`. Merge it with other routes and pass them to [`retro_http::HttpServer`].
/// `current` has the versions in force in this process.
pub fn pipeline_router(store: Arc<dyn PipelineStore>, current: Arc<dyn CurrentPipelines>) -> Api {
    routes().with_state(PipelineState { store, current })
}

/// Returns the route without its state, for the OpenAPI description.
pub(crate) fn routes() -> Api<PipelineState> {
    Api::new().routes(routes!(list_pipeline_versions)).allow(RouteAccess::People)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct VersionsQuery {
    /// Maximum number of versions of each pipeline, and of reverts [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists the versions of the pipelines under which the tenant had retrospectives or reviews, with what became of the memories
/// that each made. `current` and `current_review` are in force in the process that answers.
#[utoipa::path(get, path = "/v1/pipelines/versions", tag = "people", params(VersionsQuery), responses((status = 200, content((PipelineVersions = "application/json"), (String = "text/plain")))))]
async fn list_pipeline_versions(
    State(state): State<PipelineState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<VersionsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let limit = Limit::from_query(query.limit)?.get();
    let current = |pipeline| Some(state.current.current_version(pipeline));
    let found = PipelineVersions::load(&*state.store, &tenant, limit, current).await?;
    Ok(json_or_text(&headers, "Versions of the pipelines", &found, |found| found.render(TEXT_COLUMNS)))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use retro_core::attribution::Attribution;
    use retro_core::id::{Tenant, Workflow};
    use retro_core::pipeline::{PipelineContents, PipelineHash, PipelineName};
    use retro_core::pipeline_quality::PipelineQuality;
    use retro_store::{PipelineRevert, PipelineRevertRow, PipelineVersionRow};
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;
    use crate::world::at_hour;

    /// Store in which the tenant `acme` has three versions of the pipeline of retrospectives, and took the first one back.
    struct AcmeVersions;

    fn hash_of(number: u32) -> PipelineHash {
        PipelineContents { policy: json!(number), ..PipelineContents::default() }.hashes().pipeline
    }

    #[async_trait]
    impl PipelineStore for AcmeVersions {
        async fn load_pipeline(
            &self,
            _: &Tenant,
            _: PipelineName,
            _: &PipelineHash,
        ) -> retro_store::Result<Option<PipelineContents>> {
            unreachable!("the list loads no contents")
        }

        async fn find_pipelines(
            &self,
            _: &Tenant,
            _: &str,
        ) -> retro_store::Result<Vec<(PipelineName, PipelineHash)>> {
            unreachable!("the list looks for no digits")
        }

        async fn list_pipelines(
            &self,
            tenant: &Tenant,
            pipeline: PipelineName,
            limit: u32,
        ) -> retro_store::Result<Vec<PipelineVersionRow>> {
            let row = |number| PipelineVersionRow {
                pipeline,
                hash: hash_of(number),
                prompts: hash_of(0),
                loaded_from: "mine".to_owned(),
                retrospective: None,
                review: None,
                workflow: Workflow::new("shop").unwrap(),
                first_seen: at_hour(1),
                quality: PipelineQuality::default(),
            };
            let is_theirs = tenant.as_str() == "acme" && pipeline == PipelineName::Retrospective;
            let rows = (1..=3).rev().map(row);
            Ok(if is_theirs { rows.take(limit as usize).collect() } else { Vec::new() })
        }

        async fn record_pipeline_revert(&self, _: &Tenant, _: &PipelineRevert) -> retro_store::Result<()> {
            unreachable!("the list records nothing")
        }

        async fn list_pipeline_reverts(
            &self,
            tenant: &Tenant,
            _: u32,
        ) -> retro_store::Result<Vec<PipelineRevertRow>> {
            let act = Attribution::new("anna", "it was as good", at_hour(2)).unwrap();
            let revert = PipelineRevert { hash: hash_of(1), act, folder: "mine".to_owned() };
            let revert = PipelineRevertRow { revert, recorded_at: at_hour(3) };
            Ok(if tenant.as_str() == "acme" { vec![revert] } else { Vec::new() })
        }
    }

    impl CurrentPipelines for AcmeVersions {
        fn current_version(&self, _: PipelineName) -> PipelineHash {
            hash_of(2)
        }
    }

    async fn ask(tenant: &str, query: &str, accept: &str) -> (u16, String) {
        let app = retro_http::finish_router(pipeline_router(Arc::new(AcmeVersions), Arc::new(AcmeVersions)));
        let request = Request::get(format!("/v1/pipelines/versions{query}"));
        let request = request.header("Retro-Tenant", tenant).header("Accept", accept);
        let response = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_tenant_sees_its_own_versions_with_the_one_in_force() {
        let (status, body) = ask("acme", "?limit=2", "*/*").await;
        let listed: Value = serde_json::from_str(&body).unwrap();
        let hashes: Vec<_> =
            listed["versions"].as_array().unwrap().iter().map(|row| row["hash"].clone()).collect();
        assert_eq!((status, hashes), (200, vec![json!(hash_of(3)), json!(hash_of(2))]));
        assert_eq!((&listed["more"], &listed["current"]), (&json!(true), &json!(hash_of(2))));
        assert_eq!(listed["reverts"][0]["by"], "anna");
        let (_, text) = ask("acme", "", "text/plain").await;
        assert!(text.contains(hash_of(2).short()) && text.matches("force)").count() == 1, "{text}");
        assert!(text.contains("anna reverted to") && !text.contains("older versions"), "{text}");
        assert!(ask("acme", "", "text/html").await.1.contains("Versions of the pipelines"));
    }

    #[tokio::test]
    async fn another_tenant_sees_none_of_them_and_a_wrong_limit_is_refused() {
        let (status, body) = ask("globex", "", "*/*").await;
        let listed: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &listed["versions"], &listed["reverts"]), (200, &json!([]), &json!([])));
        assert!(!body.contains("anna") && !body.contains(hash_of(3).as_str()), "{body}");
        for limit in ["0", "1001", "x"] {
            assert_eq!(ask("acme", &format!("?limit={limit}"), "*/*").await.0, 400, "{limit}");
        }
    }
}
