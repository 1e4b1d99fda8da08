//! Waits for an endpoint that is busy or away, within bounds, and leaves it alone while it does not answer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_consumer::{CallPermission, CircuitBreaker};
use retro_core::model_use::TokenUsage;
use retro_model::{FailureKind, LanguageModel, ModelError, ModelRequest, ModelResponse};
use retro_telemetry::metrics::{GEN_AI_DURATION, GEN_AI_TOKENS, MODEL_CIRCUIT_OPEN};
use retro_telemetry::trace::{Kind, Span, SpanParent};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{info, warn};

/// Operation, as the GenAI conventions of OpenTelemetry name it.
const OPERATION: &str = "chat";
/// Pause before the second try, unless the endpoint asks for another one. It doubles with each try.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Maximum pause between two tries that the endpoint did not ask for.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Calls that have to fail before the circuit opens. One is enough: it has waited for the whole of `wait_max`.
const FAILURES_MAX: u32 = 1;

/// Bounds of the calls of one process.
#[derive(Debug, Clone, Copy)]
pub struct WaitBounds {
    /// Maximum time that a call waits between its tries, in total. A call is tried once more only if the pause before
    /// fits into it.
    pub wait_max: Duration,
    /// Maximum number of calls at once.
    pub concurrency: usize,
}

/// A model that is tried again while it is busy or away. Requests that the endpoint refuses, and answers that cannot be
/// read, are not repeated here.
pub struct PatientModel {
    model: Arc<dyn LanguageModel>,
    provider: &'static str,
    bounds: WaitBounds,
    places: Semaphore,
    breaker: CircuitBreaker,
}

impl PatientModel {
    /// Wraps a model. `provider` is its name in metrics and spans.
    pub fn new(model: Arc<dyn LanguageModel>, provider: &'static str, bounds: WaitBounds) -> Self {
        let places = Semaphore::new(bounds.concurrency);
        Self { model, provider, bounds, places, breaker: CircuitBreaker::opening_after(FAILURES_MAX) }
    }

    /// Tries until there is an answer, or until the next pause would exceed the bound. The usage of all tries is in the
    /// result.
    async fn try_within_bounds(
        &self,
        request: &ModelRequest,
        permission: CallPermission,
    ) -> Result<ModelResponse, ModelError> {
        let (mut pause, mut waited, mut spent) = (FIRST_PAUSE, Duration::ZERO, TokenUsage::default());
        loop {
            let mut error = match self.model.complete(request).await {
                Ok(response) => return Ok(ModelResponse { usage: response.usage.add(spent), ..response }),
                Err(error) => error,
            };
            spent = spent.add(error.usage);
            error.usage = spent;
            // A probe is not repeated: it only checks that the endpoint answers again.
            if error.kind != FailureKind::Unavailable || permission == CallPermission::Probe {
                return Err(error);
            }
            let next = error.retry_after.unwrap_or(pause);
            if waited + next > self.bounds.wait_max {
                error.problem.push_str(&describe_wait(waited, error.retry_after));
                return Err(error);
            }
            tokio::time::sleep(next).await;
            waited += next;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Reports the result of a call to the circuit breaker, and logs if that opens or closes the circuit.
    fn record_outcome(&self, permission: CallPermission, error: Option<&ModelError>) {
        let name = self.model.name();
        // An endpoint that refuses a request is there.
        let Some(error) = error.filter(|error| error.kind == FailureKind::Unavailable) else {
            if self.breaker.record_success() {
                info!("the language model {name} is available again");
            }
            MODEL_CIRCUIT_OPEN.set([], 0.0);
            return;
        };
        let now = Instant::now();
        let opened = self.breaker.record_failure(permission, now);
        let asked = error.retry_after.unwrap_or_default();
        self.breaker.keep_open(now, asked);
        let Some(wait) = opened.map(|wait| wait.max(asked)) else { return };
        MODEL_CIRCUIT_OPEN.set([], wait.as_secs_f64());
        warn!(
            "the language model {name} is not asked for {} s, longer while it does not answer; runs are investigated by \
             the heuristics alone: {error}",
            wait.as_secs()
        );
    }

    fn record_metrics(&self, began: Instant, answered: &Result<ModelResponse, ModelError>, span: &Span) {
        let (usage, error) = match answered {
            Ok(response) => (response.usage, ""),
            Err(error) => (error.usage, error.kind.as_str()),
        };
        GEN_AI_DURATION.record(began.elapsed().as_secs_f64(), [OPERATION, self.provider, error]);
        for (kind, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
            if tokens > 0 {
                GEN_AI_TOKENS.record(tokens as f64, [OPERATION, self.provider, kind]);
            }
        }
        let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        span.set_attribute("gen_ai.usage.input_tokens", tokens(usage.input_tokens));
        span.set_attribute("gen_ai.usage.output_tokens", tokens(usage.output_tokens));
        if let Err(error) = answered {
            span.set_error(error.kind.as_str());
        }
    }
}

fn describe_wait(waited: Duration, retry_after: Option<Duration>) -> String {
    let asked =
        retry_after.map(|asked| format!(", and wants to be asked again after {} s", asked.as_secs_f64()));
    let waited = match waited.is_zero() {
        true => String::new(),
        false => format!(" after {:.1} s of waiting", waited.as_secs_f64()),
    };
    format!("{waited}{}", asked.unwrap_or_default())
}

#[async_trait]
impl LanguageModel for PatientModel {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn complete(&self, request: &ModelRequest) -> Result<ModelResponse, ModelError> {
        let _place = self.places.acquire().await.expect("the semaphore is never closed");
        let permission = self.breaker.request_permission(Instant::now());
        if let CallPermission::Denied(remaining) = permission {
            let problem =
                format!("it did not answer, and is not asked for another {} s", remaining.as_secs().max(1));
            return Err(ModelError::new(FailureKind::Unavailable, problem));
        }
        // Content is never captured: the span has names and numbers only.
        let span = Span::start(format!("{OPERATION} {}", self.name()), Kind::Client, SpanParent::Current);
        span.set_attribute("gen_ai.operation.name", OPERATION);
        span.set_attribute("gen_ai.provider.name", self.provider);
        span.set_attribute("gen_ai.request.model", self.name().to_owned());
        span.set_attribute("gen_ai.request.max_tokens", i64::from(request.output_tokens_max));
        let began = Instant::now();
        let answered = span.instrument(self.try_within_bounds(request, permission)).await;
        self.record_metrics(began, &answered, &span);
        self.record_outcome(permission, answered.as_ref().err());
        answered
    }
}

#[cfg(test)]
mod tests {
    use retro_model::ScriptedModel;

    use super::*;

    fn request() -> ModelRequest {
        ModelRequest {
            tools: Vec::new(),
            forced_tool: None,
            system: String::new(),
            messages: Vec::new(),
            output_tokens_max: 1,
        }
    }

    fn failure(kind: FailureKind, retry_after: Option<u64>) -> ModelError {
        let usage = TokenUsage { input_tokens: 3, ..TokenUsage::default() };
        let retry_after = retry_after.map(Duration::from_secs);
        ModelError { retry_after, usage, ..ModelError::new(kind, "it answers 503") }
    }

    /// Returns a model that fails this many times and then answers, with its script.
    fn failing(times: usize, error: ModelError, wait_s: u64) -> (PatientModel, Arc<ScriptedModel>) {
        let usage = TokenUsage { input_tokens: 10, ..TokenUsage::default() };
        let script = Arc::new(ScriptedModel::new(move |nth, _| match nth < times {
            true => Err(error.clone()),
            false => Ok(ModelResponse { usage, ..ModelResponse::default() }),
        }));
        let bounds = WaitBounds { wait_max: Duration::from_secs(wait_s), concurrency: 2 };
        (PatientModel::new(script.clone(), "openai", bounds), script)
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_endpoint_is_asked_again_when_it_wants_and_every_try_is_paid() {
        let (model, script) = failing(2, failure(FailureKind::Unavailable, Some(7)), 20);
        let began = Instant::now();
        let answered = model.complete(&request()).await.unwrap();
        assert_eq!((answered.usage.input_tokens, script.asked().len()), (16, 3));
        assert_eq!(began.elapsed(), Duration::from_secs(14), "retry-after is honoured");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_at_the_bound_and_the_endpoint_is_then_left_alone() {
        let (model, script) = failing(usize::MAX, failure(FailureKind::Unavailable, None), 10);
        let began = Instant::now();
        let error = model.complete(&request()).await.unwrap_err();
        assert_eq!(began.elapsed(), Duration::from_millis(7500), "0.5, 1, 2 and 4 s");
        assert!(error.problem.contains("after 7.5 s of waiting"), "{error}");
        assert_eq!((script.asked().len(), error.usage.input_tokens), (5, 15));
        let error = model.complete(&request()).await.unwrap_err();
        assert!(error.problem.contains("is not asked for another"), "{error}");
        assert_eq!(script.asked().len(), 5);
        tokio::time::advance(Duration::from_secs(6)).await;
        model.complete(&request()).await.unwrap_err();
        assert_eq!(script.asked().len(), 6, "one probe");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_beyond_the_bound_is_not_begun() {
        let (model, script) = failing(1, failure(FailureKind::Unavailable, Some(3600)), 60);
        let began = Instant::now();
        let error = model.complete(&request()).await.unwrap_err();
        assert_eq!((began.elapsed(), script.asked().len()), (Duration::ZERO, 1));
        assert!(error.problem.contains("asked again after 3600 s"), "{error}");
        tokio::time::advance(Duration::from_secs(3000)).await;
        let error = model.complete(&request()).await.unwrap_err();
        assert!(error.problem.contains("is not asked for another 600 s"), "{error}");
        assert_eq!(script.asked().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_request_and_an_unreadable_answer_are_not_repeated_and_open_no_circuit() {
        for kind in [FailureKind::Rejected, FailureKind::Misconfigured, FailureKind::Unreadable] {
            let (model, script) = failing(3, failure(kind, None), 60);
            for asked in 1..=3 {
                assert_eq!(model.complete(&request()).await.unwrap_err().kind, kind);
                assert_eq!(script.asked().len(), asked, "{kind:?}");
            }
            model.complete(&request()).await.unwrap();
        }
    }
}
