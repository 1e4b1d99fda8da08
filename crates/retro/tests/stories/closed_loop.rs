//! Runs a short closed loop: one small simulated world and one seed, using only the public interface.

use std::path::Path;
use std::time::Duration;

use retro_eval::closed_loop::{Simulation, load_worlds};

/// Agents that follow their memories fail less often than the same agents without them, and the memories are
/// true.
#[tokio::test(flavor = "multi_thread")]
async fn agents_that_receive_memories_fail_less_often_than_without() {
    let folder = tempfile::tempdir().unwrap();
    let loops = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/retro-eval/tests/small");
    let worlds = load_worlds(&[loops]).unwrap();
    let playing = Simulation {
        retro: env!("CARGO_BIN_EXE_retro").into(),
        folder: folder.path().to_owned(),
        seeds: 1,
        repositories: 0,
        runs: 100,
        concurrency: 2,
        investigators: 2,
        close_timeout: Duration::from_secs(120),
        poll_interval: Duration::from_millis(50),
    };
    let played = playing.run(&worlds, "").await.unwrap();
    let figures = played.key_figures(&worlds);
    assert!(figures.success > figures.success_without + 0.1, "{figures:?}\n{}", played.render_text(&worlds));
    assert_eq!(
        (figures.precision, figures.recall),
        (Some(1.0), Some(1.0)),
        "{}",
        played.render_text(&worlds)
    );
}
