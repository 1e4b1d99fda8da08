//! What was seen, for a terminal.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::score::{Episodes, KNOWN_AFTER, Point, Summary, Told, due, summary};
use crate::truth::Standing;

/// Rows of the curve that are printed: all would fill a page.
const CURVE_ROWS: &[usize] = &[1, 2, 3, 5, 8, 10, 12, 15, 18, 20, 22, 25, 28, 30, 40, 50, 75, 100];
/// How many false memories are shown, and how much of each line.
const WRONG_MAX: usize = 20;
/// How many causes that are not known.
const UNKNOWN_MAX: usize = 40;
const LINE_CHARS_MAX: usize = 130;

/// A share as a percentage; a dash for none.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0))
}

/// A difference with its sign.
pub(crate) fn signed(number: f64) -> String {
    format!("{number:+.3}")
}

/// A line for each world.
pub(crate) fn worlds(told: &[Told<'_>]) -> String {
    let mut text = format!(
        "{:<16} {:>9} {:>9} {:>7} {:>6} {:>6} {:>7} {:>7} {:>16} {:>8} {:>7} {:>8} {:>6} {:>5} {:>7}\n",
        "world",
        "workflows",
        "precision",
        "strict",
        "recall",
        "causes",
        "without",
        "with",
        "gain ±",
        "harmful",
        "≤ 3",
        "fading",
        "active",
        "kept",
        "tokens"
    );
    for one in told {
        text.push_str(&row(&one.world.name, &summary(std::slice::from_ref(one))));
    }
    if told.len() > 1 {
        text.push_str(&row("all", &summary(told)));
    }
    text.push('\n');
    text
}

fn row(name: &str, one: &Summary) -> String {
    let gain = one.gain.map_or_else(
        || signed(one.success - one.success_without),
        |gain| format!("{} ± {:.3}", signed(gain.mean), gain.half),
    );
    let looks = (one.runs as f64 / f64::from(crate::play::WINDOW) / one.stories.max(1) as f64) as usize;
    let after_ten = one.stories * looks.saturating_sub(KNOWN_AFTER - 1);
    format!(
        "{name:<16} {:>9} {:>9} {:>7} {:>6} {:>6} {:>7} {:>7} {gain:>16} {:>8} {:>7} {:>8} {:>6.1} {:>5.1} {:>7.1}\n",
        one.stories,
        percent(one.precision),
        percent(one.precision_strict),
        percent(one.recall),
        one.causes,
        percent(Some(one.success_without)),
        percent(Some(one.success)),
        lasted(&one.harmful),
        percent(one.harmful.share_within_three()),
        lasted(&one.fading),
        one.active.all() / after_ten.max(1) as f64,
        one.suppressed,
        one.tokens_a_run,
    )
}

fn lasted(episodes: &Episodes) -> String {
    if episodes.count == 0 { "-".to_owned() } else { format!("{:.1}", episodes.mean) }
}

/// The curve over retrospectives.
pub(crate) fn curve(points: &[Point]) -> String {
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
        "kept",
        "tokens"
    );
    for point in points.iter().filter(|point| CURVE_ROWS.contains(&point.retrospective)) {
        text.push_str(&format!(
            "{:>13} {:>9} {:>7} {:>6} {:>8} {:>7} {:>7} {:>7.2} {:>9.2} {:>6.2} {:>7.1}\n",
            point.retrospective,
            percent(point.precision),
            percent(point.precision_strict),
            percent(point.recall),
            percent(Some(point.success_without)),
            percent(Some(point.success)),
            percent(Some(point.harmed)),
            point.active,
            point.tentative,
            point.suppressed,
            point.tokens_a_run,
        ));
    }
    text.push('\n');
    text
}

/// The goals, met or not.
pub(crate) fn goals(one: &Summary) -> String {
    let met = |met: bool| if met { "met" } else { "MISSED" };
    let least = |share: Option<f64>, least: f64| met(share.is_some_and(|share| share >= least));
    let clear = one.gain.is_some_and(|gain| gain.above_zero());
    let gain = one.gain.map_or_else(
        || "one seed has no interval".to_owned(),
        |gain| format!("{} ± {:.3}", signed(gain.mean), gain.half),
    );
    let kinds = one.active;
    let share = |count: f64| percent(crate::score::share(count, kinds.all()));
    let mut text = format!(
        "precision of active memories, from the tenth retrospective on: {} (goal 95%: {}); strict, stale ones against it: {}\n",
        percent(one.precision),
        least(one.precision, 0.95),
        percent(one.precision_strict),
    );
    text.push_str(&format!(
        "  of them whole {}, error without its remedy {}, stale {}, outdated {}, trap {}, noise {}\n",
        share(kinds.whole),
        share(kinds.vague),
        share(kinds.stale),
        share(kinds.outdated),
        share(kinds.trap),
        share(kinds.noise)
    ));
    text.push_str(&format!(
        "causes in at least a fifth of the runs known after ten retrospectives: {} of {} (goal 90%: {})\n",
        percent(one.recall),
        one.causes,
        least(one.recall, 0.9)
    ));
    text.push_str(&format!(
        "a memory that harms is below 0.1 within three retrospectives: {} of {}, mean {:.2}, longest {}, never {} (goal all: {})\n",
        percent(one.harmful.share_within_three()),
        one.harmful.count,
        one.harmful.mean,
        one.harmful.longest,
        one.harmful.unended,
        met(one.harmful.within_three == one.harmful.count),
    ));
    text.push_str(&format!(
        "a memory whose cause is fixed and that harms nobody is below 0.1 after: mean {:.2}, longest {}, never {} of {}\n",
        one.fading.mean, one.fading.longest, one.fading.unended, one.fading.count
    ));
    text.push_str(&format!(
        "success without memory {}, with {}: {gain} (goal clearly above: {})\n",
        percent(Some(one.success_without)),
        percent(Some(one.success)),
        met(clear)
    ));
    text.push_str(&format!(
        "runs harmed {}, comebacks a workflow {:.2}, kept away a workflow {:.2}, tokens a run {:.1}\n\n",
        percent(Some(one.harmed)),
        one.comebacks,
        one.suppressed,
        one.tokens_a_run
    ));
    text
}

/// The active memories at the end that are false or of no use, the most frequent first.
pub(crate) fn wrong(told: &[Told<'_>]) -> String {
    let mut lines: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (told, story) in told.iter().flat_map(|told| told.stories.iter().map(move |story| (told, story))) {
        let last = story.looks.last().map_or(&[][..], |look| &look.memories);
        for memory in last.iter().filter(|memory| memory.active && memory.standing != Standing::True) {
            let workflow = &told.world.workflows[story.workflow].name;
            let kind = format!("{:?}", memory.standing).to_lowercase();
            let line = shown(&memory.line);
            *lines.entry((format!("{}/{workflow} {kind}", told.world.name), line)).or_default() += 1;
        }
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let mut text = String::from("active at the end, and not a remedy that is needed (the most frequent)\n");
    for ((place, line), times) in lines.iter().take(WRONG_MAX) {
        text.push_str(&format!("  {times:>4} {place:<34} {line}\n"));
    }
    text.push('\n');
    text
}

/// The causes that were not known after ten retrospectives, the most frequent first, each of how many, and the memory that
/// comes nearest.
pub(crate) fn unknown(told: &[Told<'_>]) -> String {
    let mut causes: BTreeMap<String, (usize, usize, Option<String>)> = BTreeMap::new();
    for due in due(told) {
        let counts = causes.entry(due.cause).or_default();
        counts.0 += usize::from(!due.known);
        counts.1 += 1;
        if !due.known && counts.2.is_none() {
            counts.2 = due.nearest;
        }
    }
    let mut causes: Vec<_> = causes.into_iter().filter(|(_, (unknown, ..))| *unknown > 0).collect();
    causes.sort_by_key(|(_, (unknown, ..))| std::cmp::Reverse(*unknown));
    let mut text = String::from(
        "causes not known after ten retrospectives (the most frequent), and the nearest memory\n",
    );
    for (cause, (unknown, of, nearest)) in causes.iter().take(UNKNOWN_MAX) {
        let nearest = nearest.as_deref().unwrap_or("none about its tool");
        text.push_str(&format!("  {unknown:>4} of {of:<4} {cause:<26} {}\n", shown(nearest)));
    }
    text.push('\n');
    text
}

fn shown(line: &str) -> String {
    line.chars().take(LINE_CHARS_MAX).collect()
}

/// Where the time went.
pub(crate) fn spent(took: Duration, [context, events, waiting, lists]: [f64; 4]) -> String {
    format!(
        "{:.0} s; summed over what went on side by side: {waiting:.0} s waiting for retrospectives, {context:.0} s for context, \
         {events:.0} s for events, {lists:.0} s for lists and reports\n",
        took.as_secs_f64()
    )
}
