//! Vectors in a form that is fast to compare, cached while a batch is applied. The dot product of a vector
//! with itself is computed once, and a vector of mostly zeros stores only its non-zero components. The
//! built-in embedder fills about sixty of its 4,096 components, so most comparisons are sparse.

use super::vector::{cosine_from_products, dot_product};

/// A vector prepared for repeated comparison.
#[derive(Debug)]
pub(crate) struct MeasuredVector {
    parts: VectorParts,
    /// Dot product of the vector with itself.
    square: i64,
}

#[derive(Debug)]
enum VectorParts {
    Dense(Vec<i32>),
    /// Non-zero components with their positions.
    Sparse(Vec<(u16, i32)>),
}

/// A vector is stored sparsely if fewer than one in this many of its components are non-zero. A component
/// with its position takes twice the memory of a component alone, and more time to iterate.
const SPARSE_BELOW_ONE_IN: usize = 4;

impl MeasuredVector {
    /// Returns the approximate size on the heap, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.parts {
            VectorParts::Dense(components) => size_of_val(components.as_slice()),
            VectorParts::Sparse(places) => size_of_val(places.as_slice()),
        }
    }

    pub(crate) fn from_vector(vector: Vec<i32>) -> Self {
        let square = dot_product(&vector, &vector);
        let filled = vector.iter().filter(|component| **component != 0).count();
        if filled >= vector.len().div_ceil(SPARSE_BELOW_ONE_IN) {
            return Self { parts: VectorParts::Dense(vector), square };
        }
        let places = vector.iter().enumerate().filter(|(_, component)| **component != 0);
        let placed = places.map(|(at, component)| {
            (u16::try_from(at).expect("a vector has at most 4,096 components"), *component)
        });
        Self { parts: VectorParts::Sparse(placed.collect()), square }
    }

    /// Returns the same result as [`super::cosine_similarity`] on the original vectors.
    pub(crate) fn cosine_similarity(&self, other: &Self) -> u16 {
        let product = match (&self.parts, &other.parts) {
            (VectorParts::Dense(a), VectorParts::Dense(b)) => dot_product(a, b),
            (VectorParts::Dense(dense), VectorParts::Sparse(sparse))
            | (VectorParts::Sparse(sparse), VectorParts::Dense(dense)) => dot_mixed(dense, sparse),
            (VectorParts::Sparse(a), VectorParts::Sparse(b)) => dot_sparse(a, b),
        };
        cosine_from_products(product, self.square, other.square)
    }
}

fn dot_mixed(dense: &[i32], sparse: &[(u16, i32)]) -> i64 {
    let products =
        sparse.iter().filter_map(|(at, b)| Some(i64::from(*dense.get(usize::from(*at))?) * i64::from(*b)));
    products.sum()
}

fn dot_sparse(a: &[(u16, i32)], b: &[(u16, i32)]) -> i64 {
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

    use super::super::{COMPONENT_MAX, COMPONENTS_MAX, Embedder as _, NgramEmbedder, cosine_similarity};
    use super::*;

    /// Generates vectors in which one component in `one_in` is not zero.
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
                let kept = MeasuredVector::from_vector(x.clone()).cosine_similarity(&MeasuredVector::from_vector(y.clone()));
                prop_assert_eq!(kept, cosine_similarity(x, y));
            }
        }
    }

    #[test]
    fn the_largest_vectors_fit() {
        let largest = || MeasuredVector::from_vector(vec![COMPONENT_MAX; COMPONENTS_MAX]);
        assert_eq!(largest().cosine_similarity(&largest()), 1000);
    }

    #[test]
    fn vectors_of_the_built_in_embedder_are_sparse() {
        let made = NgramEmbedder.embed("List the tables before the first query").unwrap();
        let measured = MeasuredVector::from_vector(made);
        assert!(matches!(&measured.parts, VectorParts::Sparse(placed) if placed.len() < 100), "{measured:?}");
    }
}
