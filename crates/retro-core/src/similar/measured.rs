//! A vector as it is kept while a batch is applied: its square is taken once, and where most components are nothing, only the
//! others are kept. The built-in embedder fills some sixty of its 4,096, so this is what most comparisons cost.

use super::{cosine_of, dot};

/// A vector that is compared again and again.
#[derive(Debug)]
pub(super) struct Measured {
    parts: Parts,
    /// The product with itself.
    square: i64,
}

#[derive(Debug)]
enum Parts {
    Dense(Vec<i32>),
    /// Components that are not 0, by place.
    Sparse(Vec<(u16, i32)>),
}

/// A place and a component take twice the room of a component, and longer to walk over.
const SPARSE_BELOW_ONE_IN: usize = 4;

impl Measured {
    pub(super) fn of(vector: Vec<i32>) -> Self {
        let square = dot(&vector, &vector);
        let filled = vector.iter().filter(|component| **component != 0).count();
        if filled >= vector.len().div_ceil(SPARSE_BELOW_ONE_IN) {
            return Self { parts: Parts::Dense(vector), square };
        }
        let places = vector.iter().enumerate().filter(|(_, component)| **component != 0);
        let placed = places.map(|(at, component)| {
            (u16::try_from(at).expect("a vector has at most 4,096 components"), *component)
        });
        Self { parts: Parts::Sparse(placed.collect()), square }
    }

    /// As [`super::cosine`] of the two vectors, to the last thousandth.
    pub(super) fn cosine(&self, other: &Self) -> u16 {
        let product = match (&self.parts, &other.parts) {
            (Parts::Dense(a), Parts::Dense(b)) => dot(a, b),
            (Parts::Dense(dense), Parts::Sparse(sparse)) | (Parts::Sparse(sparse), Parts::Dense(dense)) => {
                mixed(dense, sparse)
            }
            (Parts::Sparse(a), Parts::Sparse(b)) => both_sparse(a, b),
        };
        cosine_of(product, self.square, other.square)
    }
}

fn mixed(dense: &[i32], sparse: &[(u16, i32)]) -> i64 {
    let products =
        sparse.iter().filter_map(|(at, b)| Some(i64::from(*dense.get(usize::from(*at))?) * i64::from(*b)));
    products.sum()
}

fn both_sparse(a: &[(u16, i32)], b: &[(u16, i32)]) -> i64 {
    let (mut left, mut right, mut sum) = (0, 0, 0);
    while let (Some((at_a, x)), Some((at_b, y))) = (a.get(left), b.get(right)) {
        if at_a == at_b {
            sum += i64::from(*x) * i64::from(*y);
        }
        left += usize::from(at_a <= at_b);
        right += usize::from(at_b <= at_a);
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{COMPONENT_MAX, COMPONENTS_MAX, Embedder as _, NgramEmbedder, cosine};
    use super::*;

    /// Vectors of which one component in `one_in` is something.
    fn vectors(one_in: u32) -> impl Strategy<Value = Vec<i32>> {
        let component = (0..one_in, -COMPONENT_MAX..=COMPONENT_MAX);
        let filled = component.prop_map(|(draw, value)| if draw == 0 { value } else { 0 });
        prop::collection::vec(filled, 64)
    }

    proptest! {
        #[test]
        fn however_it_is_kept_its_cosine_is_that_of_the_whole_vector(
            a in vectors(1), b in vectors(2), c in vectors(16), d in vectors(8), shorter in 0usize..64,
        ) {
            let all = [a.clone(), b, c.clone(), d, a[..shorter].to_vec(), c[..shorter].to_vec(), vec![0; 64], vec![]];
            for (x, y) in all.iter().flat_map(|x| all.iter().map(move |y| (x, y))) {
                let kept = Measured::of(x.clone()).cosine(&Measured::of(y.clone()));
                prop_assert_eq!(kept, cosine(x, y));
            }
        }
    }

    #[test]
    fn the_largest_vectors_fit() {
        let largest = || Measured::of(vec![COMPONENT_MAX; COMPONENTS_MAX]);
        assert_eq!(largest().cosine(&largest()), 1000);
    }

    #[test]
    fn what_the_built_in_embedder_makes_is_kept_by_its_places() {
        let made = NgramEmbedder.embed("List the tables before the first query").unwrap();
        let measured = Measured::of(made);
        assert!(matches!(&measured.parts, Parts::Sparse(placed) if placed.len() < 100), "{measured:?}");
    }
}
