//! Tests of both protocols against a local endpoint.

#![expect(clippy::unwrap_used, reason = "clippy does not recognise shared test helpers as test code")]

use std::time::Duration;

use retro_config::{ModelProtocol, Secret};
use retro_core::model_use::TokenUsage;
use retro_llm::EndpointModel;
use retro_model::{
    ChatMessage, FailureKind, LanguageModel as _, ModelError, ModelRequest, StopReason, ToolSpec,
};
use retro_outgoing_http::OutgoingHttp;
use retro_testkit::{ModelEndpoint, ModelReply};
use serde_json::json;

const KEY: &str = "sk-never-shown";
const BOTH: [ModelProtocol; 2] = [ModelProtocol::Openai, ModelProtocol::Anthropic];

fn request() -> ModelRequest {
    let parameters = json!({"type": "object", "properties": {"turn": {"type": "integer"}}});
    ModelRequest {
        tools: vec![ToolSpec { name: "read".into(), description: "reads".into(), parameters }],
        forced_tool: None,
        system: "Investigate.".into(),
        messages: vec![ChatMessage::User { text: "The run.".into() }],
        output_tokens_max: 100,
    }
}

fn model(endpoint: &ModelEndpoint, protocol: ModelProtocol, timeout: Duration) -> EndpointModel {
    let key = Some(Secret::new(KEY));
    EndpointModel::new(
        endpoint.url(),
        protocol,
        "small".into(),
        key.as_ref(),
        timeout,
        &OutgoingHttp::default(),
    )
    .unwrap()
}

async fn fail_with(reply: ModelReply, protocol: ModelProtocol) -> ModelError {
    let endpoint = ModelEndpoint::start(move |_, _| reply.clone()).await;
    // Only a reply that never comes needs the short time, and the others come at once.
    let error = model(&endpoint, protocol, Duration::from_secs(1)).complete(&request()).await.unwrap_err();
    assert!(!error.problem.contains(KEY) && !error.problem.contains("The run"), "{error}");
    error
}

#[tokio::test]
async fn both_protocols_carry_tools_key_and_usage() {
    for protocol in BOTH {
        let reply = ModelReply::tool("read", json!({"turn": 1}));
        let endpoint = ModelEndpoint::start(move |_, _| reply.clone()).await;
        let response =
            model(&endpoint, protocol, Duration::from_secs(60)).complete(&request()).await.unwrap();
        assert_eq!(response.calls[0].arguments, "{\"turn\":1}");
        assert_eq!(
            response.usage,
            TokenUsage { input_tokens: 1000, cached_tokens: 600, output_tokens: 50 },
            "{protocol:?}"
        );
        let received = endpoint.received();
        assert_eq!(received[0].key.as_deref(), Some(KEY));
        assert_eq!(received[0].body["model"], "small");
        assert!(received[0].body["tools"].to_string().contains("\"turn\""), "{:?}", received[0].body);
    }
}

#[tokio::test]
async fn every_fault_has_its_kind() {
    for protocol in BOTH {
        for (reply, kind) in [
            (ModelReply::Status(401, None), FailureKind::Misconfigured),
            (ModelReply::Status(404, None), FailureKind::Misconfigured),
            (ModelReply::Status(302, None), FailureKind::Misconfigured),
            (ModelReply::Status(400, None), FailureKind::Rejected),
            (ModelReply::Status(429, None), FailureKind::Unavailable),
            (ModelReply::Status(500, None), FailureKind::Unavailable),
            (ModelReply::Status(529, None), FailureKind::Unavailable),
            (ModelReply::CutOff, FailureKind::Unavailable),
            (ModelReply::Silence, FailureKind::Unavailable),
            (ModelReply::Raw("{\"choices\": [{\"mes".into()), FailureKind::Unreadable),
            (ModelReply::Raw("<html>".into()), FailureKind::Unreadable),
        ] {
            let error = fail_with(reply.clone(), protocol).await;
            assert_eq!(error.kind, kind, "{reply:?}: {error}");
        }
        let busy = fail_with(ModelReply::Status(429, Some("7".into())), protocol).await;
        assert_eq!(busy.retry_after, Some(Duration::from_secs(7)));
    }
}

#[tokio::test]
async fn a_refusal_is_an_answer() {
    for protocol in BOTH {
        let endpoint = ModelEndpoint::start(|_, _| ModelReply::Refusal).await;
        let response =
            model(&endpoint, protocol, Duration::from_secs(60)).complete(&request()).await.unwrap();
        assert_eq!(response.stop, StopReason::Refused, "{protocol:?}");
    }
}
