//! Decides how reviews, and the verdicts of retrospectives, change the rules of a repository.
//!
//! A rule is a memory like any other: its changes are appended, each with an effect key, and the memory is
//! computed by folding them. Only the evidence differs: other memories are confirmed by a *separate run*, a
//! rule by a separate pull request. The standing of the person who asks for the rule decides first:
//!
//! | standing | a new rule | an earlier rule, asked for again |
//! |---|---|---|
//! | insider | is active | tentative or archived: becomes active |
//! | contributor | is tentative | tentative: becomes active, on another pull request; archived: becomes tentative |
//! | outsider, or hostile text | is quarantined | no change, and none of the text is added to the existing rule |
//! | bot | is not created | active: gets evidence |
//!
//! **Contradiction.** Two rules contradict each other if they give opposite advice about one subject in one
//! scope. (Rules for different paths both stay.) The rule with the higher rank stays. Rank is determined
//! first by authority, which is the highest standing of all who asked for the rule (promotion by an operator
//! counts as a request of an insider), and then by whether the rule is active. On a tie, the newer rule stays
//! and *supersedes* the older one. A newer rule of lower rank stays tentative, and cannot become active while
//! the older one is tentative or active.
//!
//! **Rules of people.** An operator adds a rule in words of their own, or makes a remark a rule. It counts like one that
//! an insider asked for, whoever wrote the remark, and stays when the remark is edited or deleted. The remark is its
//! first evidence, so the same request on another pull request is the second one.
//!
//! **Text of strangers** never becomes part of a trusted rule, because requests of other people do not
//! confirm a quarantined rule. A trusted person who asks for the same thing in their own words creates
//! another rule, which supersedes the quarantined one.
//!
//! **Expiry.** A rule that many runs have ignored since it was last asked for, promoted or used is archived.
//! Only investigated runs count, and of those only the ones in which the rule's situation came up and the
//! agent did not follow the rule. Runs that were not sampled, runs for which the investigator could not tell,
//! and runs without that situation do not count against a rule. A rule whose weight falls below the injection
//! minimum is archived as well, because it could never be presented again.

mod add;
mod apply;
mod changes;
mod close;
mod observe;
mod promote;
mod uses;
mod voices;
mod weigh;
mod writer;

pub use add::{AddedRule, PromotedRemark, RuleAddition, RuleAdditionError, RuleAdditionFacts, add_rule};
pub use apply::apply_rules;
pub use changes::RuleChanges;
pub use close::{ClosedReview, ReviewClosingFacts, close_review};
pub use promote::{PromoteError, PromoteFacts, promote_rule};
pub use uses::{RuleUseBatch, build_rule_use_batches};
pub use writer::{RuleFacts, RuleUse};
