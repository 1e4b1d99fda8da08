//! The closed loop, quickly: one small world, one seed, through the public interface alone.

use std::path::Path;
use std::time::Duration;

use retro_loop::{Playing, worlds};

/// Agents that follow what they are handed fail less than the same agents without it, and what they are handed is true.
#[tokio::test(flavor = "multi_thread")]
async fn agents_that_are_handed_memories_fail_less_than_without() {
    let folder = tempfile::tempdir().unwrap();
    let loops = Path::new(env!("CARGO_MANIFEST_DIR")).join("../retro-loop/tests/small");
    let worlds = worlds(&[loops]).unwrap();
    let playing = Playing {
        retro: env!("CARGO_BIN_EXE_retro").into(),
        folder: folder.path().to_owned(),
        seeds: 1,
        runs: 100,
        side_by_side: 2,
        investigators: 2,
        look_every: Duration::from_millis(50),
    };
    let played = playing.play(&worlds, "").await.unwrap();
    let figures = played.figures(&worlds);
    assert!(figures.success > figures.success_without + 0.1, "{figures:?}\n{}", played.text(&worlds));
    assert_eq!((figures.precision, figures.recall), (Some(1.0), Some(1.0)), "{}", played.text(&worlds));
}
