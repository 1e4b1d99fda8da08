//! The access token of the request that is being answered, for whoever stores a decision.
//!
//! It travels with the task, like the context of a trace, and not through the arguments of each command: a command that
//! forgot to pass it on would store a decision of nobody. A task that answers a request on behalf of another one is
//! started with [`decide_with`].

use retro_core::attribution::DecisionToken;

use super::principal::Principal;

tokio::task_local! {
    static TOKEN: Option<DecisionToken>;
}

/// Returns the access token of the request that this task answers. `None` for a request without a token, and outside of
/// a request.
pub fn deciding_token() -> Option<DecisionToken> {
    TOKEN.try_with(Clone::clone).ok().flatten()
}

/// Runs `work` for a request with this token.
pub fn decide_with<W: Future>(token: Option<DecisionToken>, work: W) -> impl Future<Output = W::Output> {
    TOKEN.scope(token, work)
}

impl Principal {
    /// Returns the token of the request as it is stored with a decision.
    pub(super) fn decision_token(&self) -> Option<DecisionToken> {
        let token = self.token.as_ref()?;
        Some(DecisionToken { id: token.id.as_str().to_owned(), name: token.name.as_str().to_owned() })
    }
}
