#![doc = include_str!("../README.md")]

#[cfg(feature = "armed")]
mod armed;
mod label;

pub use label::{Guard, Label, Poison, Side};

/// Marks a point that the process crosses, where a test can make it die or stop.
#[inline]
pub fn cross_point(label: Label, side: Side) {
    #[cfg(feature = "armed")]
    armed::cross_point(label, side);
    #[cfg(not(feature = "armed"))]
    let _ = (label, side);
}

/// Runs a durable step, and crosses the points before and after it. The point after a failed step is not
/// crossed, because it is unknown whether the step took effect.
pub async fn run_step<T, E>(label: Label, step: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    cross_point(label, Side::Before);
    let done = step.await?;
    cross_point(label, Side::After);
    Ok(done)
}

/// Applies the poison if a test poisoned this message for the handler. Called before the message is handled.
/// `handler` is the name of a consumer, or `engine`.
#[inline]
pub fn apply_poison(handler: &str, payload: &[u8]) {
    #[cfg(feature = "armed")]
    armed::apply_poison(handler, payload);
    #[cfg(not(feature = "armed"))]
    let _ = (handler, payload);
}

/// Returns the number of seconds by which a test shifted this process's clock; always 0 without the feature
/// `armed`.
#[inline]
pub fn clock_offset_s() -> i64 {
    #[cfg(feature = "armed")]
    return armed::clock_offset_s();
    #[cfg(not(feature = "armed"))]
    0
}

/// Returns `true` if a test disabled this guard; always `false` without the feature `armed`.
#[inline]
pub fn is_broken(guard: Guard) -> bool {
    #[cfg(feature = "armed")]
    return armed::is_broken(guard);
    #[cfg(not(feature = "armed"))]
    {
        let _ = guard;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_label_is_its_name() {
        for label in Label::ALL {
            let word: String = label.as_str().chars().filter(|one| one.is_alphanumeric()).collect();
            assert_eq!(word, format!("{label:?}").to_lowercase());
        }
    }
}
