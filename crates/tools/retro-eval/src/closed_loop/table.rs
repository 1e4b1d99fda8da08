//! Renders the results as text for a terminal.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::closed_loop::score::{
    CauseScore, CurvePoint, Episodes, KNOWN_AFTER, Summary, WorldResult, compute_summary, ratio, score_causes,
};
use crate::closed_loop::simulation::{WINDOW, WindowResult};
use crate::closed_loop::truth::MemoryTruth;

/// 1-based numbers of the retrospectives that get a row in the curve, besides the last one.
const CURVE_ROWS: &[usize] = &[1, 2, 3, 5, 8, 10, 12, 15, 18, 20, 22, 25, 28, 30, 40, 50, 75, 100];
/// Formats a share as a percentage, or as a dash for `None`.
pub(crate) fn format_percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0))
}

/// Formats a difference with its sign and three decimal places.
pub(crate) fn format_signed(number: f64) -> String {
    format!("{number:+.3}")
}

/// Renders the results as a table with one line per world.
pub(crate) fn render_worlds(results: &[WorldResult<'_>]) -> String {
    let mut text = format!(
        "{:<16} {:>9} {:>9} {:>7} {:>6} {:>6} {:>6} {:>7} {:>7} {:>16} {:>8} {:>7} {:>8} {:>6} {:>5} {:>7}\n",
        "world",
        "workflows",
        "precision",
        "strict",
        "recall",
        "kept",
        "causes",
        "without",
        "with",
        "gain ±",
        "harmful",
        "≤ 3",
        "fading",
        "active",
        "suppr",
        "tokens"
    );
    for one in results {
        text.push_str(&render_row(&one.world.name, &compute_summary(std::slice::from_ref(one))));
    }
    if results.len() > 1 {
        text.push_str(&render_row("all", &compute_summary(results)));
    }
    text.push('\n');
    text
}

fn render_row(name: &str, one: &Summary) -> String {
    let gain = one.gain.map_or_else(
        || format_signed(one.success - one.success_without),
        |gain| format!("{} ± {:.3}", format_signed(gain.mean), gain.half),
    );
    let looks = (one.runs as f64 / f64::from(WINDOW) / one.stories.max(1) as f64) as usize;
    let after_ten = one.stories * looks.saturating_sub(KNOWN_AFTER - 1);
    format!(
        "{name:<16} {:>9} {:>9} {:>7} {:>6} {:>6} {:>6} {:>7} {:>7} {gain:>16} {:>8} {:>7} {:>8} {:>6.1} {:>5.1} {:>7.1}\n",
        one.stories,
        format_percent(one.precision),
        format_percent(one.precision_strict),
        format_percent(one.recall),
        format_percent(one.recall_kept),
        one.causes,
        format_percent(Some(one.success_without)),
        format_percent(Some(one.success)),
        format_mean(&one.harmful),
        format_percent(one.harmful.share_within_three()),
        format_mean(&one.fading),
        one.active.total() / after_ten.max(1) as f64,
        one.suppressed,
        one.tokens_per_run,
    )
}

fn format_mean(episodes: &Episodes) -> String {
    if episodes.count == 0 { "-".to_owned() } else { format!("{:.1}", episodes.mean) }
}

/// Renders the curve with one row per retrospective in [`CURVE_ROWS`].
pub(crate) fn render_curve(points: &[CurvePoint]) -> String {
    let mut text = format!(
        "{:>13} {:>9} {:>7} {:>6} {:>8} {:>7} {:>7} {:>7} {:>9} {:>6} {:>7}\n",
        "retrospective",
        "precision",
        "strict",
        "recall",
        "without",
        "with",
        "harmed",
        "active",
        "tentative",
        "suppr",
        "tokens"
    );
    let is_row = |point: &&CurvePoint| {
        CURVE_ROWS.contains(&point.retrospective) || point.retrospective == points.len()
    };
    for point in points.iter().filter(is_row) {
        text.push_str(&format!(
            "{:>13} {:>9} {:>7} {:>6} {:>8} {:>7} {:>7} {:>7.2} {:>9.2} {:>6.2} {:>7.1}\n",
            point.retrospective,
            format_percent(point.precision),
            format_percent(point.precision_strict),
            format_percent(point.recall),
            format_percent(Some(point.success_without)),
            format_percent(Some(point.success)),
            format_percent(Some(point.harmed)),
            point.active,
            point.tentative,
            point.suppressed,
            point.tokens_per_run,
        ));
    }
    text.push('\n');
    text
}

/// Renders the figure for each goal and whether the goal is met.
pub(crate) fn render_goals(one: &Summary) -> String {
    let met = |met: bool| if met { "met" } else { "MISSED" };
    let least = |share: Option<f64>, least: f64| met(share.is_some_and(|share| share >= least));
    let clear = one.gain.is_some_and(|gain| gain.is_above_zero());
    let gain = one.gain.map_or_else(
        || "no interval with one seed".to_owned(),
        |gain| format!("{} ± {:.3}", format_signed(gain.mean), gain.half),
    );
    let kinds = one.active;
    let share = |count: f64| format_percent(ratio(count, kinds.total()));
    let mut text = format!(
        "precision of active memories, from the tenth retrospective on: {} (goal 95%: {}); strict, counting stale ones as false: {}; recall of due causes over the same retrospectives: {}\n",
        format_percent(one.precision),
        least(one.precision, 0.95),
        format_percent(one.precision_strict),
        format_percent(one.recall_kept),
    );
    text.push_str(&format!(
        "  of them true {}, vague (error without its remedy) {}, stale {}, outdated {}, trap {}, noise {}\n",
        share(kinds.whole),
        share(kinds.vague),
        share(kinds.stale),
        share(kinds.outdated),
        share(kinds.trap),
        share(kinds.noise)
    ));
    text.push_str(&format!(
        "causes met by at least a fifth of the runs that are known after ten retrospectives: {} of {} (goal 90%: {}); not counted: {} that fewer runs meet, {} that did not last so long\n",
        format_percent(one.recall),
        one.causes,
        least(one.recall, 0.9),
        one.causes_rare,
        one.causes_brief
    ));
    text.push_str(&format!(
        "harmful memories below 0.1 within three retrospectives: {} of {}, mean {:.2}, longest {}, never {} (goal all: {})\n",
        format_percent(one.harmful.share_within_three()),
        one.harmful.count,
        one.harmful.mean,
        one.harmful.longest,
        one.harmful.unended,
        met(one.harmful.within_three == one.harmful.count),
    ));
    text.push_str(&format!(
        "retrospectives until a stale memory is below 0.1: mean {:.2}, longest {}, never {} of {}\n",
        one.fading.mean, one.fading.longest, one.fading.unended, one.fading.count
    ));
    text.push_str(&format!(
        "success without memory {}, with memory {}: {gain} (goal: interval above 0: {})\n",
        format_percent(Some(one.success_without)),
        format_percent(Some(one.success)),
        met(clear)
    ));
    text.push_str(&format!(
        "runs harmed {}, comebacks per workflow {:.2}, suppressed lessons per workflow {:.2}, held memories per workflow {:.2}, tokens per run {:.1}\n\n",
        format_percent(Some(one.harmed)),
        one.comebacks,
        one.suppressed,
        one.held,
        one.tokens_per_run
    ));
    text
}

/// Renders the memories that are active after the last window but false or useless, most frequent first.
pub(crate) fn render_wrong_memories(results: &[WorldResult<'_>]) -> String {
    let mut lines: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (results, story) in
        results.iter().flat_map(|results| results.workflow_results.iter().map(move |story| (results, story)))
    {
        let last = story.windows.last().map_or(&[][..], |look| &look.memories);
        for memory in last.iter().filter(|memory| memory.active && memory.truth != MemoryTruth::True) {
            let workflow = &results.world.workflows[story.workflow].name;
            let kind = format!("{:?}", memory.truth).to_lowercase();
            let line = memory.lesson.line.clone();
            *lines.entry((format!("{}/{workflow} {kind}", results.world.name), line)).or_default() += 1;
        }
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let mut text = String::from("active at the end, but not a remedy that is needed (most frequent first)\n");
    for ((place, line), times) in &lines {
        text.push_str(&format!("  {times:>4} {place:<34} {line}\n"));
    }
    text.push('\n');
    text
}

/// A cause over all seeds.
#[derive(Default)]
struct UnknownCause {
    unknown: usize,
    due: usize,
    /// Status and line of the memories about its tool, in one case in which it was unknown.
    near: Vec<(String, String)>,
}

/// Renders the causes that were not known after ten retrospectives, most frequent first, each with the number
/// of cases and the nearest memories of one of them, and then the causes that no recall counts.
pub(crate) fn render_unknown_causes(results: &[WorldResult<'_>]) -> String {
    let mut causes: BTreeMap<String, UnknownCause> = BTreeMap::new();
    let mut uncounted: BTreeMap<(CauseScore, String), usize> = BTreeMap::new();
    for scored in score_causes(results) {
        if matches!(scored.score, CauseScore::Rare | CauseScore::Brief) {
            *uncounted.entry((scored.score, scored.cause)).or_default() += 1;
            continue;
        }
        let unknown = scored.score == CauseScore::Unknown;
        let counts = causes.entry(scored.cause).or_default();
        counts.unknown += usize::from(unknown);
        counts.due += 1;
        if unknown && counts.near.is_empty() {
            counts.near = scored.near;
        }
    }
    let mut causes: Vec<_> = causes.into_iter().filter(|(_, one)| one.unknown > 0).collect();
    causes.sort_by_key(|(_, one)| std::cmp::Reverse(one.unknown));
    let mut text = String::from(
        "causes not known after ten retrospectives (most frequent first), with the memories about their tools\n",
    );
    for (cause, UnknownCause { unknown, due, near }) in causes {
        let mut near = near.iter().map(|(status, line)| format!("{status}: {line}"));
        let first = near.next().unwrap_or_else(|| "no memory about its tool".to_owned());
        text.push_str(&format!("  {unknown:>4} of {due:<4} {cause:<26} {first}\n"));
        near.for_each(|line| text.push_str(&format!("{:>42}{line}\n", "")));
    }
    text.push_str("\ncauses that no recall counts\n");
    for ((score, cause), times) in uncounted {
        let why = if score == CauseScore::Rare { "met by less than a fifth of the runs" } else { "brief" };
        text.push_str(&format!("  {times:>4} {cause:<26} {why}\n"));
    }
    text.push('\n');
    text
}

/// Renders how many memories the runs were handed, how many of them were of another repository, and for how many of the
/// causes that a run encounters after ten retrospectives it was handed a true memory.
pub(crate) fn render_handed(results: &[WorldResult<'_>]) -> String {
    let windows = || results.iter().flat_map(|one| &one.workflow_results).flat_map(|story| &story.windows);
    let sum = |of: fn(&WindowResult) -> u32| windows().map(|window| u64::from(of(window))).sum::<u64>();
    let later = windows().filter(|window| window.runs_completed > KNOWN_AFTER as u32 * WINDOW);
    let (met, handed) = later.fold((0, 0), |(met, handed), window| {
        (met + window.causes_handed.0, handed + window.causes_handed.1)
    });
    format!(
        "handed: {} memories, {} of another repository; after ten retrospectives, {handed} of {met} causes that a run meets ({})\n\n",
        sum(|window| window.handed),
        sum(|window| window.handed_elsewhere),
        format_percent(ratio(f64::from(handed), f64::from(met))),
    )
}

/// Renders the time spent on each kind of operation.
pub(crate) fn render_time_spent(took: Duration, [context, events, waiting, lists]: [f64; 4]) -> String {
    format!(
        "{:.0} s; summed over concurrent workflows: {waiting:.0} s waiting for retrospectives, {context:.0} s for context, \
         {events:.0} s for events, {lists:.0} s for lists and reports\n",
        took.as_secs_f64()
    )
}
