//! Knows the access tokens that are neither revoked nor expired.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use retro_core::access::{SecretToken, TokenDigest, TokenId};
use retro_store::{AccessTokenStore, StoreError, UsableToken};
use subtle::ConstantTimeEq as _;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;

use super::principal::{Principal, PrincipalToken};
use super::rate_limit::RateLimit;
use super::refusal::Refusal;

/// Time within which each server refuses a revoked token, in seconds.
pub const REVOKED_WITHIN_S: u64 = 5;
/// Time for which tokens are accepted while the database cannot be reached, in seconds.
pub const UNREACHABLE_S_MAX: u64 = 60;

/// Age from which the tokens are loaded again, beside the requests.
const FRESH: Duration = Duration::from_secs(1);
/// Shortest time between two loads. A request with an unknown token waits for it, since the token may have been created
/// a moment ago; so somebody who sends wrong tokens causes ten statements a second and no more.
const LOAD_INTERVAL: Duration = Duration::from_millis(100);
/// Age up to which a request does not wait for the tokens to be loaded again. With the time that loading may take it
/// is less than [`REVOKED_WITHIN_S`].
const STALE: Duration = Duration::from_secs(4);
/// Interval at which the use of a token is recorded.
const RECORD_USE: Duration = Duration::from_secs(60);

/// Access tokens of all tenants, in memory. They are loaded while requests come, and never while none does.
pub struct TokenRegistry {
    store: Arc<dyn AccessTokenStore>,
    requests_per_s: u32,
    load_timeout: Duration,
    known: RwLock<Arc<KnownTokens>>,
    /// Held while tokens are loaded. Time of the last load that failed, if none has succeeded since.
    loading: tokio::sync::Mutex<()>,
    failed: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct KnownTokens {
    /// Time before which they were read; `None` before the first load.
    loaded: Option<Instant>,
    tokens: HashMap<TokenId, KnownToken>,
}

struct KnownToken {
    digest: TokenDigest,
    principal: Principal,
    expires: Option<Instant>,
    usage: Arc<TokenUsage>,
}

/// What is counted of a token, from one load to the next.
#[derive(Default)]
struct TokenUsage {
    limit: RateLimit,
    is_used: AtomicBool,
    recorded: Mutex<Option<Instant>>,
}

impl KnownTokens {
    fn age(&self, now: Instant) -> Duration {
        self.loaded.map_or(Duration::MAX, |loaded| now.saturating_duration_since(loaded))
    }

    fn find(&self, token: &SecretToken, now: Instant) -> Option<&KnownToken> {
        let known = self.tokens.get(token.id())?;
        let is_same = bool::from(known.digest.ct_eq(&token.digest()));
        (is_same && known.expires.is_none_or(|expires| now < expires)).then_some(known)
    }
}

impl TokenRegistry {
    /// Creates a registry that allows each token `requests_per_s` requests per second in this process, and waits at
    /// most `load_timeout` for the database.
    pub fn new(store: Arc<dyn AccessTokenStore>, requests_per_s: u32, load_timeout: Duration) -> Arc<Self> {
        let (known, loading, failed) = (RwLock::default(), tokio::sync::Mutex::default(), Mutex::default());
        Arc::new(Self { store, requests_per_s, load_timeout, known, loading, failed })
    }

    /// Returns the principal of a token.
    pub(super) async fn verify(self: &Arc<Self>, token: &SecretToken) -> Result<Principal, Refusal> {
        let now = Instant::now();
        let known = self.known();
        let (age, found) = (known.age(now), known.find(token, now));
        if let Some(found) = found
            && age < STALE
        {
            if age >= FRESH {
                self.load_in_background();
            }
            return self.admit(found, now);
        }
        let loaded = !self.has_just_failed(now) && self.load(now).await;
        let known = self.known();
        if !loaded && known.age(now) >= Duration::from_secs(UNREACHABLE_S_MAX) {
            return Err(Refusal::Unavailable);
        }
        match known.find(token, now) {
            Some(found) => self.admit(found, now),
            None if loaded => Err(Refusal::InvalidToken),
            None => Err(Refusal::Unavailable),
        }
    }

    fn admit(&self, known: &KnownToken, now: Instant) -> Result<Principal, Refusal> {
        if !known.usage.limit.try_take(self.requests_per_s, now) {
            return Err(Refusal::TooManyRequests);
        }
        known.usage.is_used.store(true, Ordering::Relaxed);
        Ok(known.principal.clone())
    }

    fn known(&self) -> Arc<KnownTokens> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns `true` if the database has just failed to answer, so that not each request waits for it.
    fn has_just_failed(&self, now: Instant) -> bool {
        let failed = *self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|failed| now.saturating_duration_since(failed) < FRESH)
    }

    /// Loads the tokens, unless somebody is doing it.
    fn load_in_background(self: &Arc<Self>) {
        if self.loading.try_lock().is_ok() {
            let registry = self.clone();
            tokio::spawn(async move { registry.load(Instant::now()).await });
        }
    }

    /// Loads the tokens, unless that was begun after `asked`. Returns `true` if they are as they were then.
    async fn load(self: &Arc<Self>, asked: Instant) -> bool {
        let loading = async {
            let _one = self.loading.lock().await;
            if self.known().loaded.is_some_and(|loaded| loaded > asked) {
                return Ok(());
            }
            if let Some(loaded) = self.known().loaded {
                sleep_until(loaded + LOAD_INTERVAL).await;
            }
            let began = Instant::now();
            let tokens = self.store.load_usable_tokens().await?;
            self.replace_known(began, tokens);
            Ok(())
        };
        let problem = match timeout(LOAD_INTERVAL + self.load_timeout, loading).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(StoreError::to_string(&error)),
            Err(_) => {
                Some(format!("the database did not answer within {} ms", self.load_timeout.as_millis()))
            }
        };
        let failed = problem.as_ref().map(|_| Instant::now());
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        match problem {
            Some(problem) => warn!("access tokens cannot be loaded: {problem}"),
            None => self.record_use(),
        }
        failed.is_none()
    }

    fn replace_known(&self, began: Instant, tokens: Vec<UsableToken>) {
        let earlier = self.known();
        let know = |token: UsableToken| {
            let UsableToken { id, name, digest, tenant, scopes, valid_for } = token;
            let usage = earlier.tokens.get(&id).map_or_else(Arc::default, |known| known.usage.clone());
            let principal =
                Principal { tenant, token: Some(PrincipalToken { id: id.clone(), name, scopes }) };
            let expires = valid_for.map(|left| began + left);
            (id, KnownToken { digest, principal, expires, usage })
        };
        let known = KnownTokens { loaded: Some(began), tokens: tokens.into_iter().map(know).collect() };
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }

    /// Records which tokens have been used, beside the requests. A use of the last minute may be lost if the process is
    /// killed.
    fn record_use(self: &Arc<Self>) {
        let now = Instant::now();
        let known = self.known();
        let is_due = |usage: &TokenUsage| {
            let mut recorded = usage.recorded.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = recorded
                .is_none_or(|recorded| now.saturating_duration_since(recorded) >= RECORD_USE)
                && usage.is_used.swap(false, Ordering::Relaxed);
            if is_due {
                *recorded = Some(now);
            }
            is_due
        };
        let used = known.tokens.iter().filter(|(_, token)| is_due(&token.usage));
        let used: Vec<TokenId> = used.map(|(id, _)| id.clone()).collect();
        if used.is_empty() {
            return;
        }
        let store = self.store.clone();
        tokio::spawn(async move {
            if let Err(error) = store.record_token_use(&used).await {
                warn!("the use of {} access tokens is not recorded: {error}", used.len());
            }
        });
    }
}
