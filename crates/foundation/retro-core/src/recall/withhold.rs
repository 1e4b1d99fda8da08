//! Decides by chance which runs are not handed an eligible memory, so that the effect of the memory can be
//! measured: runs that chance withheld it from differ in nothing else from runs that were handed it.
//!
//! The decision is a hash of the memory and the run. It needs no state and is the same however often the run
//! asks, and for different memories of a run, or different runs of a memory, the decisions are independent.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::id::{MemoryId, RunId};

/// Decision by chance whether a run is handed an eligible memory. Exists only for memories that had a place in
/// the block of the run, or would have had one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Memory that was decided about.
    pub memory: MemoryId,
    /// `true` if the run was not handed the memory.
    pub withheld: bool,
    /// Probability with which the memory was to be withheld, per mille.
    pub permille: u16,
}

/// Decides whether a memory is withheld from a run, with a probability of `permille` thousandths. A memory that
/// is withheld at some probability is also withheld at every higher one.
pub fn is_withheld(memory: MemoryId, run: &RunId, permille: u16) -> bool {
    // Asked for each eligible memory of each request, so the text `withhold\0{memory}\0{run}` is not put together.
    let mut id = [0; uuid::fmt::Hyphenated::LENGTH];
    let digest = Sha256::new()
        .chain_update("withhold\0")
        .chain_update(memory.0.hyphenated().encode_lower(&mut id).as_bytes())
        .chain_update([0])
        .chain_update(run.as_str())
        .finalize();
    let (head, _) = digest.split_first_chunk::<8>().expect("SHA-256 has 32 bytes");
    // Scales the first 64 bits to 0..1000 without the bias of a remainder.
    (u128::from(u64::from_be_bytes(*head)) * 1000) >> 64 < u128::from(permille)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::derive_uuid;

    fn run(nth: u32) -> RunId {
        RunId::new(format!("run-{nth}")).unwrap()
    }

    /// The runs were computed independently, in another language, from SHA-256 as written above.
    #[test]
    fn golden_vectors_of_the_decision() {
        let memory = MemoryId("0b8e26c4-6a5d-8f0e-9d2c-3f4a5b6c7d8e".parse().unwrap());
        let withheld =
            |permille| (0..50).filter(|nth| is_withheld(memory, &run(*nth), permille)).collect::<Vec<_>>();
        assert_eq!(withheld(20), [48]);
        assert_eq!(withheld(100), [1, 48]);
        assert_eq!((withheld(0).len(), withheld(1000).len()), (0, 50));
    }

    #[test]
    fn the_share_of_withheld_pairs_is_the_probability() {
        let memory = |nth: u32| MemoryId(derive_uuid("memory", &[&nth.to_string()]));
        let pairs = (0..100).flat_map(|one| (0..200).map(move |other| (one, other)));
        let withheld = pairs.filter(|(one, other)| is_withheld(memory(*one), &run(*other), 100)).count();
        // 2,000 of 20,000 expected, with a standard deviation of 42.
        assert!((1_850..=2_150).contains(&withheld), "{withheld} of 20,000");
    }
}
