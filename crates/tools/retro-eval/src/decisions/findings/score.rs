//! Computes scores: precision, recall, F1 and B³.

use std::collections::HashMap;
use std::hash::Hash;

/// Precision and recall, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Accuracy {
    pub(super) precision: f64,
    pub(super) recall: f64,
}

impl Accuracy {
    /// Returns the harmonic mean of precision and recall; 0 if both are 0.
    pub(super) fn f1(self) -> f64 {
        ratio(2.0 * self.precision * self.recall, self.precision + self.recall)
    }
}

/// Computes B³ of a grouping (Bagga and Baldwin, 1998): the purity of each item's group and the completeness
/// of its class, averaged over all items. An item is a pair of group and class.
pub(super) fn b_cubed<Group: Hash + Eq, Class: Hash + Eq>(items: &[(Group, Class)]) -> Accuracy {
    let (mut groups, mut classes, mut both) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (group, class) in items {
        *groups.entry(group).or_insert(0u32) += 1;
        *classes.entry(class).or_insert(0u32) += 1;
        *both.entry((group, class)).or_insert(0u32) += 1;
    }
    let mean = |share: &dyn Fn(&(Group, Class)) -> f64| {
        ratio(items.iter().map(share).sum::<f64>(), items.len() as f64)
    };
    let shared = |item: &(Group, Class)| f64::from(both[&(&item.0, &item.1)]);
    Accuracy {
        precision: mean(&|item| shared(item) / f64::from(groups[&item.0])),
        recall: mean(&|item| shared(item) / f64::from(classes[&item.1])),
    }
}

/// Computes precision and recall of yes-or-no answers. Each item is a pair of answer and truth.
pub(super) fn binary_accuracy(answers: impl IntoIterator<Item = (bool, bool)>) -> Accuracy {
    let (mut right, mut said, mut truly) = (0u32, 0u32, 0u32);
    for (answer, truth) in answers {
        right += u32::from(answer && truth);
        said += u32::from(answer);
        truly += u32::from(truth);
    }
    Accuracy {
        precision: ratio(f64::from(right), f64::from(said)),
        recall: ratio(f64::from(right), f64::from(truly)),
    }
}

/// Returns `part` divided by `whole`; 0 if `whole` is 0.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

/// Returns the share of `true` values, from 0 to 1; 0 if there are no values.
pub(super) fn share_of_true(all: impl IntoIterator<Item = bool>) -> f64 {
    let (mut so, mut whole) = (0u32, 0u32);
    for one in all {
        so += u32::from(one);
        whole += 1;
    }
    ratio(f64::from(so), f64::from(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grouping_is_scored_item_by_item() {
        let exact = b_cubed(&[("a", 1), ("a", 1), ("b", 2)]);
        assert_eq!((exact.precision, exact.recall, exact.f1()), (1.0, 1.0, 1.0));
        let lumped = b_cubed(&[("a", 1), ("a", 1), ("a", 2), ("a", 2)]);
        assert_eq!((lumped.precision, lumped.recall), (0.5, 1.0));
        let split = b_cubed(&[("a", 1), ("b", 1)]);
        assert_eq!((split.precision, split.recall), (1.0, 0.5));
    }

    #[test]
    fn binary_answers_are_scored_against_the_truth() {
        let scored =
            binary_accuracy([(true, true), (true, false), (false, true), (false, false), (true, true)]);
        assert_eq!((scored.precision, scored.recall), (2.0 / 3.0, 2.0 / 3.0));
        assert_eq!(binary_accuracy([]).f1(), 0.0);
        assert_eq!((share_of_true([true, false]), share_of_true([])), (0.5, 0.0));
    }
}
