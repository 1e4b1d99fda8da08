//! Asks a model on behalf of one investigation, within its bounds. Each answer is journalled before it is used
//! ([`JournalledModel`]).

use retro_core::model_use::{Spending, TokenUsage};
use retro_model::{CallJournal, JournalledModel, LanguageModel, ModelRequest, ModelResponse, NotAnswered};
use retro_store::StoreError;

use super::settings::InvestigationBounds;

/// Asks a model on behalf of one investigation.
pub(super) struct Asker<'a> {
    model: JournalledModel<'a>,
    bounds: &'a InvestigationBounds,
}

/// Reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The model gave no answer that can be read, for this reason.
    Unusable(String),
    /// The model was not asked: `unavailable` or `over_budget`.
    NotAsked {
        /// Outcome, as it is measured.
        outcome: &'static str,
        /// What the report says.
        note: String,
    },
}

impl NoAnswer {
    /// Returns the reason in one sentence.
    pub(super) fn problem(&self) -> &str {
        match self {
            Self::Unusable(problem) => problem,
            Self::NotAsked { note, .. } => note,
        }
    }
}

impl From<NotAnswered> for NoAnswer {
    fn from(reason: NotAnswered) -> Self {
        match reason {
            NotAnswered::Unreadable(problem) => Self::Unusable(problem),
            NotAnswered::Unavailable(note) => Self::NotAsked { outcome: "unavailable", note },
            NotAnswered::OverBudget(note) => Self::NotAsked { outcome: "over_budget", note },
        }
    }
}

impl<'a> Asker<'a> {
    /// Loads the calls that earlier attempts paid for.
    pub(super) async fn open(
        model: &'a dyn LanguageModel,
        bounds: &'a InvestigationBounds,
        journal: &'a dyn CallJournal,
    ) -> Result<Self, StoreError> {
        let InvestigationBounds { price, budget, .. } = bounds;
        Ok(Self { model: JournalledModel::open(model, journal, *price, budget).await?, bounds })
    }

    /// Returns the name of the model.
    pub(super) fn model_name(&self) -> &str {
        self.model.name()
    }

    /// Returns the bounds of what may be asked.
    pub(super) const fn bounds(&self) -> &'a InvestigationBounds {
        self.bounds
    }

    /// Returns what a request may use at most.
    pub(super) fn estimate_spending(&self, request: &ModelRequest) -> Spending {
        self.model.estimate_spending(request)
    }

    /// Returns tokens with their cost, which is 0 if the price is not known.
    pub(super) fn to_spending(&self, usage: TokenUsage) -> Spending {
        self.model.to_spending(usage)
    }

    /// Returns the answer to a request: the journalled one, or a new one, which is journalled before it is returned. Fails if
    /// a call could not be stored.
    pub(super) async fn ask(
        &mut self,
        request: &ModelRequest,
    ) -> Result<Result<ModelResponse, NoAnswer>, StoreError> {
        Ok(self.model.ask(request).await?.map_err(NoAnswer::from))
    }
}
