//! Vectors as a column holds them: each component in four bytes, the least first.

/// The bytes of a vector.
pub fn bytes(vector: &[i32]) -> Vec<u8> {
    vector.iter().flat_map(|component| component.to_le_bytes()).collect()
}

/// The vector of some bytes; `None` when they end in the middle of a component.
pub fn vector(bytes: &[u8]) -> Option<Vec<i32>> {
    let (components, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| components.iter().map(|component| i32::from_le_bytes(*component)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_comes_back_as_it_was() {
        let all = vec![0, 1, -1, i32::MAX, i32::MIN];
        assert_eq!(vector(&bytes(&all)), Some(all));
        assert_eq!(vector(&[]), Some(Vec::new()));
        assert_eq!(vector(&[1, 2, 3, 4, 5]), None);
    }
}
