//! Deciding by vectors that have to be got: a decision is tried with what is at hand, what it missed is got, and it is tried again.
//! Whoever decides gets the vectors, from wherever they are; after the last round it is decided with what there is.

use std::collections::BTreeMap;

use super::{Embedder, KnownVectors, NgramEmbedder, Scale, Unready, Wanted};

/// Tries of one decision; the last takes what there is.
const ROUNDS_MAX: u32 = 3;

/// The rounds of one decision.
#[derive(Debug)]
pub struct Rounds {
    known: Option<KnownVectors>,
    left: u32,
}

/// What one round compares by.
#[derive(Debug)]
pub enum Hand<'r> {
    /// The embedder that lacks nothing.
    BuiltIn,
    /// The vectors at hand.
    Known {
        /// They, and the texts that were wanted beside them.
        wanted: Wanted<'r>,
        /// Whether it is decided by them, whatever was missed.
        is_last: bool,
    },
}

impl Rounds {
    /// By the built-in embedder; one round decides.
    pub fn built_in() -> Self {
        Self { known: None, left: 0 }
    }

    /// By the vectors of the embedder of that name, of which none is at hand yet.
    pub fn of(name: &str, scale: Scale) -> Self {
        let known = KnownVectors { name: name.to_owned(), scale, vectors: BTreeMap::new() };
        Self { known: Some(known), left: ROUNDS_MAX - 1 }
    }

    /// What the next try compares by.
    pub fn hand(&self) -> Hand<'_> {
        match &self.known {
            None => Hand::BuiltIn,
            Some(known) => Hand::Known { wanted: Wanted::beside(known), is_last: self.left == 0 },
        }
    }

    /// Ends a round: these texts were missed, and of them these vectors were to be had. The others are compared by the built-in
    /// embedder from now on.
    pub fn got(&mut self, missed: Vec<String>, mut found: BTreeMap<String, Vec<i32>>) {
        self.left = self.left.saturating_sub(1);
        let Some(known) = &mut self.known else { return };
        for text in missed {
            let vector = found.remove(&text);
            known.vectors.insert(text, vector);
        }
    }
}

impl Hand<'_> {
    /// What is compared by.
    pub fn embedder(&self) -> &dyn Embedder {
        match self {
            Self::BuiltIn => &NgramEmbedder,
            Self::Known { wanted, .. } => wanted,
        }
    }

    /// What was decided, if it may be stored.
    pub fn ready<T>(&self, decided: T) -> Result<T, Unready> {
        match self {
            Self::Known { wanted, is_last: false } if !wanted.missed().is_empty() => Err(Unready),
            _ => Ok(decided),
        }
    }

    /// The texts whose vectors it wanted.
    pub fn missed(&self) -> Vec<String> {
        match self {
            Self::BuiltIn => Vec::new(),
            Self::Known { wanted, .. } => wanted.missed().into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale { contradiction: 500, tombstone: 600, merge: 700 };

    #[test]
    fn it_is_decided_once_everything_was_looked_for_and_never_later_than_in_the_last_round() {
        assert!(Rounds::built_in().hand().ready(()).is_ok());
        let mut rounds = Rounds::of("small@2", SCALE);
        let tried = |rounds: &Rounds, text: &str| {
            let hand = rounds.hand();
            let vector = hand.embedder().embed(text);
            (hand.ready(vector), hand.missed())
        };
        let (decided, missed) = tried(&rounds, "known");
        assert_eq!((decided, &*missed), (Err(Unready), &["known".to_owned()][..]));
        rounds.got(missed, BTreeMap::from([("known".to_owned(), vec![1, 2])]));
        assert_eq!(tried(&rounds, "known").0, Ok(Some(vec![1, 2])));
        let (decided, missed) = tried(&rounds, "away");
        assert_eq!(decided, Err(Unready));
        rounds.got(missed, BTreeMap::new());
        assert_eq!(tried(&rounds, "away"), (Ok(None), vec![]), "nobody has it");
        assert_eq!(tried(&rounds, "new").0, Ok(None), "the last round takes what there is");
    }
}
