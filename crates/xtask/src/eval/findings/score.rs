//! How answers are scored.

use std::collections::HashMap;
use std::hash::Hash;

/// Precision and recall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Accuracy {
    pub(super) precision: f64,
    pub(super) recall: f64,
}

impl Accuracy {
    /// The harmonic mean; 0 when both are.
    pub(super) fn f1(self) -> f64 {
        ratio(2.0 * self.precision * self.recall, self.precision + self.recall)
    }
}

/// B³ of a grouping (Bagga and Baldwin, 1998): of each item, how pure its group is and how much of its class it holds, meant
/// over the items. Each item comes as its group and its class.
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

/// Accuracy in saying yes. Each answer comes as what was said and what is true.
pub(super) fn saying_yes(answers: impl IntoIterator<Item = (bool, bool)>) -> Accuracy {
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

/// A part of a whole; 0 of nothing.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

/// The share of those that are so; 0 of nothing.
pub(super) fn share(all: impl IntoIterator<Item = bool>) -> f64 {
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
    fn saying_yes_is_scored_by_what_was_said_and_what_is_true() {
        let scored = saying_yes([(true, true), (true, false), (false, true), (false, false), (true, true)]);
        assert_eq!((scored.precision, scored.recall), (2.0 / 3.0, 2.0 / 3.0));
        assert_eq!(saying_yes([]).f1(), 0.0);
        assert_eq!((share([true, false]), share([])), (0.5, 0.0));
    }
}
