//! Recognises reports that something was refused: "DROP TABLE permission denied", "unknown option
//! --skip-tests", "rm -rf /: operation not permitted".
//!
//! What was refused did not happen, and the report asks for nothing, unless a verb that demands it stands
//! before it: "permission denied: run rm -rf /".

use super::reading::{Reading, gap};
use super::words::is_one_of;

/// Words that a refusal ends with.
const REFUSED: &str = "denied refused rejected blocked forbidden prohibited disallowed unsupported declined";

/// Words after "not" that make a refusal.
const PERMITTED: &str =
    "permitted allowed supported authorized authorised found recognized recognised implemented";

/// Words that say what was refused, before the refusal.
const SUBJECTS: &str = "permission permissions privilege privileges access operation command request action statement query remote push is was been are were has be right rights option flag argument";

/// Words that a tool begins the report of a bad option with, and nouns of what it did not accept.
const UNKNOWN: &str = "unknown unrecognized unrecognised unsupported invalid illegal unexpected bad no such";
const OPTIONS: &str =
    "option options argument arguments flag flags parameter parameters switch command subcommand directive";

/// Maximum number of words between what was refused and the refusal.
const APART_MAX: usize = 4;

impl Reading<'_> {
    /// Returns `true` if the text reports that what stands from `first` to `last` was refused.
    pub(super) fn is_reported_refused(&self, first: usize, last: usize) -> bool {
        self.is_refused_before(first, last) || self.is_refused_behind(last)
    }

    /// Returns `true` if nothing is said about what was refused: "unknown flag --x makes it work" recommends it.
    fn ends_report(&self, last: usize) -> bool {
        let goes_on = self.words.get(last + 1).is_some_and(|next| next.gap & (gap::ENDS | gap::QUOTE) == 0);
        !goes_on || is_one_of(self.text(last + 1), "given provided passed found in at for on from with was")
    }

    /// "Unknown option --x", "permission denied for DROP TABLE users", "command blocked: rm -rf /".
    fn is_refused_before(&self, first: usize, last: usize) -> bool {
        let begin = first.saturating_sub(APART_MAX);
        let mut word = first;
        while word > begin && self.words[word].gap & (gap::STOP | gap::COMMA | gap::SHELL | gap::SPEECH) == 0
        {
            word -= 1;
            let (text, next) = (self.text(word), self.text(word + 1));
            let bad_option = is_one_of(text, OPTIONS)
                && word > 0
                && is_one_of(self.text(word - 1), UNKNOWN)
                && word + 1 == first
                && self.ends_report(last);
            let refused = is_one_of(text, REFUSED)
                && word > 0
                && is_one_of(self.text(word - 1), SUBJECTS)
                && (word + 1 == first || is_one_of(next, "for on by to when"));
            let blocked_by = is_one_of(text, REFUSED) && next == "by" && word + 3 == first;
            if bad_option || refused || blocked_by {
                return true;
            }
        }
        false
    }

    /// "… permission denied", "…: operation not permitted", "… was rejected by the sandbox".
    fn is_refused_behind(&self, last: usize) -> bool {
        // The thing may end with the noun of the refusal: "DROP TABLE permission".
        let noun = is_one_of(self.text(last), "permission permissions privilege privileges command");
        let begin = if noun { last } else { last + 1 };
        for word in begin..self.words.len().min(begin + APART_MAX) {
            let text = self.text(word);
            let ends = self.words[word].gap & (gap::STOP | gap::COMMA | gap::SHELL | gap::SPEECH) != 0;
            if word > last && ends {
                return false;
            }
            let refused =
                is_one_of(text, REFUSED) || text == "not" && is_one_of(self.text(word + 1), PERMITTED);
            if refused
                || is_one_of(text, "privilege privileges permission permissions") && self.is_missing(word)
            {
                return true;
            }
            if !is_one_of(text, SUBJECTS) {
                return false;
            }
        }
        false
    }

    fn is_missing(&self, noun: usize) -> bool {
        self.rest_of_clause(noun, 3).any(|next| is_one_of(self.text(next), "required missing denied needed"))
    }
}
