//! Finds pauses: a call that fails now may succeed a minute later. Runs tell so only if their log has times.

use retro_core::trajectory::Trajectory;

use super::call::Call;

/// Minimum length of a pause, in seconds. Shorter ones are the time that a model takes to answer.
const PAUSE_SECONDS_MIN: i64 = 15;
/// Minimum length of a pause, as a multiple of the usual time between two entries of the run.
const USUAL_TIMES_MIN: i64 = 3;
/// Lengths that a lesson states, in seconds: nobody waits to the second.
const ROUND_SECONDS: [i64; 14] = [15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1200, 1800, 3600];

/// Returns how long a run waited between two calls, in seconds. Returns `None` if it did not, or if the log does not
/// tell.
pub(super) fn pause_between(trajectory: &Trajectory, first: &Call<'_>, later: &Call<'_>) -> Option<i64> {
    let at = |call: &Call<'_>| trajectory.turns.get(call.turn as usize)?.at;
    let seconds = at(later)?.as_second() - at(first)?.as_second();
    let usual = usual_seconds(trajectory)?;
    (seconds >= PAUSE_SECONDS_MIN && seconds >= usual * USUAL_TIMES_MIN).then_some(seconds)
}

/// Describes a pause as parts of a remedy are described, the most specific form first.
pub(super) fn describe_pause(seconds: i64) -> Vec<String> {
    let round = ROUND_SECONDS.iter().min_by_key(|round| (*round - seconds).abs()).unwrap_or(&seconds);
    vec![format!("after about `{round}` seconds"), "after a pause".to_owned()]
}

/// Returns the median time between two entries, in seconds.
fn usual_seconds(trajectory: &Trajectory) -> Option<i64> {
    let times: Vec<i64> =
        trajectory.turns.iter().filter_map(|turn| turn.at).map(|at| at.as_second()).collect();
    let mut between: Vec<i64> = times.windows(2).map(|two| two[1] - two[0]).collect();
    between.sort_unstable();
    between.get(between.len() / 2).copied()
}
