//! Applies the checks of the quotes that agents gave when they saved lessons.
//!
//! A quote that the trace contains is evidence like that of any investigation, and its run is a witness. One that the
//! trace does not contain is dropped: the memory stays as it is, and its run confirms nothing.

use super::writer::MemoryWriter;
use crate::finding::{EvidenceOrigin, Quote};
use crate::id::{MemoryId, RunId};
use crate::memory::{ChangeEffect, Evidence, MemoryStatus};
use crate::trajectory::QuotePlace;

impl MemoryWriter<'_> {
    /// Applies the check of the quote that the agent of a run gave. `place` says where its trace contains the quote.
    pub(super) fn apply_quote_check(
        &mut self,
        row: usize,
        id: MemoryId,
        run: &RunId,
        place: Option<QuotePlace>,
        origin: &EvidenceOrigin,
    ) {
        let memory = self.ledger.memories().get(&id).filter(|memory| memory.status.is_living());
        let unchecked = memory.and_then(|memory| Some((memory.status, memory.unchecked_evidence(run)?)));
        let Some((status, said)) = unchecked.map(|(status, said)| (status, said.clone())) else {
            let reason = format!("memory {id} has no unchecked quote of run {run} any more");
            self.ledger.explain_outcome(row, reason);
            return;
        };
        let cause = self.run_cause(run);
        let Some(place) = place else {
            let reason = format!(
                "quote not found: the trace of run {run} does not contain what its agent quoted; the quote is dropped, and the run confirms nothing"
            );
            self.ledger.make_change(row, id, cause, ChangeEffect::QuoteMissing { run: run.clone() }, reason);
            return;
        };
        let quote = Quote { place, text: said.quote.text.clone() };
        let evidence = Evidence { epoch: Some(self.epoch), quote, origin: origin.clone(), ..said };
        match status {
            MemoryStatus::Tentative => self.confirm_memory(row, id, evidence, None),
            MemoryStatus::Active => {
                let reason = format!("the trace of run {run} contains the quote that its agent gave");
                self.ledger.make_change(row, id, cause, ChangeEffect::Observed { evidence }, reason);
            }
            _ => {
                let reason = format!("the trace of run {run} contains the quote; the memory is {status}");
                self.ledger.explain_outcome(row, reason);
            }
        }
    }
}
