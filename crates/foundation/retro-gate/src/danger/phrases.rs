//! Finds sentences that turn verification or checks off: "skip the tests", "do not verify the certificate",
//! "tests are optional".

use super::kind::Danger::{ChecksOff, VerificationOff};
use super::kind::{Danger, Found};
use super::nouns::{before, end_of_noun, judge_noun};
use super::polarity::Form;
use super::reading::{Reading, gap};
use super::words::is_one_of;
use super::words::part::{CHECK, DIGEST, LAX, PROOF, VERIFY};

/// Verbs that switch off whatever check stands after them.
const OFF_VERBS: &str = "skip skipping disable disabling bypass bypassing ignore ignoring circumvent circumventing suppress suppressing deactivate deactivating silence silencing mute muting override overriding forgo evade evading sidestep sidestepping dodge neutralize neutralise neuter defeat dismiss dismissing unhook short-circuit shortcut";

/// Verbs that switch a check off when their object is certainly one: a word that is also an everyday object
/// would be a false alarm.
const WEAK_VERBS: &str = "remove removing delete deleting drop dropping omit omitting lower lowering relax relaxing weaken weakening loosen loosening reduce reducing stub xfail exempt cancel kill abort stop stopping quit";

/// Verbs that need a particle: "turn … off", "comment … out".
const PARTICLE_VERBS: &str = "turn turning switch switching toggle shut keep leave leaving comment commenting opt take rip get work go do set push";
const PARTICLES: &str = "off out around past without aside away";

/// Verbs that let things through.
const TRUST_VERBS: &str =
    "accept accepting allow allowing trust trusting permit permitting tolerate install installing";
const TOO_MUCH: &str = "any all every everything invalid expired self-signed unsigned untrusted unverified unknown bad wrong mismatched mismatching changed whatever";

/// Negations that switch off the verb after them.
const NEGATIONS: &str = "not never dont don't without stop skip needn't neednt avoid forget";

/// Words between a verb and its object that add nothing, or only describe the object.
const BLOCKERS: &str = "to from in until for when if so that because while unless than by via at on run running rerun re-run execute executing use using start call read look see keep retry fix wait write open into before after which but then with without";

/// Verbs of checks, which a negation before them switches off.
const RUN_VERBS: &str = "run running rerun execute executing start trigger perform performing do doing wait waiting request requesting ask asking require requiring need needing enable enforce enforcing respect respecting await awaiting use seek seeking get getting complete completing pass passing write writing";

/// Words after "never run the tests" that only say how not to run them.
const MANNERS: &str = "in as with against on from under inside outside by via manually concurrently simultaneously twice until while again parallel locally directly when if unless using at through";

const LIGHT: &str = "the a an any all every even ever just again always first be to bother bothering about its your our their this that these those have having of for necessarily it";

const STATES_OFF: &str = "disabled skipped ignored bypassed off optional unnecessary unneeded suppressed deactivated unimportant irrelevant omitted";
const NEEDED: &str = "required needed necessary mandatory important run pass passing matter need enforced";

/// Finds every sentence that turns something off.
pub(super) fn find_phrases(reading: &Reading<'_>, found: &mut Vec<Found>) {
    for at in 0..reading.words.len() {
        let word = &reading.words[at];
        if word.is_option() || word.is_address() || word.in_message {
            continue;
        }
        let phrase = find_off_verb(reading, at)
            .or_else(|| find_trust(reading, at))
            .or_else(|| find_negated_check(reading, at))
            .map(|(danger, last)| (danger, last, Form::Phrase))
            .or_else(|| find_state(reading, at).map(|(danger, last)| (danger, last, Form::State)));
        if let Some((danger, last, form)) = phrase
            && reading.asks_for(at, last, form)
        {
            found.push(Found { danger, first: at, last });
        }
    }
}

/// Finds a verb and the check that it switches off: "skip the flaky tests", "turn certificate checks off".
fn find_off_verb(reading: &Reading<'_>, at: usize) -> Option<(Danger, usize)> {
    let word = &reading.words[at];
    let strong = word.is(OFF_VERBS);
    let particle = word.is(PARTICLE_VERBS);
    let marks = word.is("mark marking treat");
    if !(strong || particle || marks || word.is(WEAK_VERBS)) {
        return None;
    }
    let within = |next: usize, table: &str| {
        reading.rest_of_clause(next, 3).any(|after| is_one_of(reading.text(after), table))
    };
    for next in reading.rest_of_clause(at, 7) {
        let text = reading.text(next);
        if is_one_of(text, "and or then &") && is_verb_after(reading, next)
            || is_one_of(text, BLOCKERS) && !(text == "without" && particle)
        {
            return None;
        }
        if reading.words[next].is(OFF_VERBS) {
            return None;
        }
        let Some(danger) = judge_noun(reading, next) else { continue };
        let last = end_of_noun(reading, next);
        if particle {
            let off = reading.text(at + 1);
            let is_off = is_one_of(off, PARTICLES)
                && (off != "off" || !matches!(word.text, "do" | "go" | "push"))
                || within(last, "off out aside");
            if !is_off {
                return None;
            }
        }
        if marks {
            return within(last, "skipped skip xfail flaky expected optional passed ignored passing")
                .then_some((danger, last));
        }
        let is_weak = !strong && !particle;
        let acts = reading.words[next..=last].iter().any(|word| word.parts.has(VERIFY | CHECK));
        // "Remove the expired certificate" is everyday work; "remove the certificate check" is not.
        if is_weak && danger == VerificationOff && !acts {
            return None;
        }
        if is_weak
            && is_one_of(text, "sandbox hook hooks lint ci guard guards permissions policies test")
            && word.is("stop kill cancel abort reduce")
        {
            return None;
        }
        return Some((danger, last));
    }
    None
}

/// Finds sentences that let anything through: "accept any certificate", "install unsigned packages".
fn find_trust(reading: &Reading<'_>, at: usize) -> Option<(Danger, usize)> {
    let verb = &reading.words[at];
    if verb.is("use using create connect open") {
        // "Use an unverified TLS context."
        let lax = reading
            .rest_of_clause(at, 3)
            .find(|next| reading.words[*next].parts.list.len() == 1 && reading.words[*next].parts.has(LAX))?;
        let proof = reading.rest_of_clause(lax, 2).find(|next| {
            reading.words[*next].parts.has(PROOF)
                || reading.words[*next].is("context connection channel mode")
        });
        return proof.map(|last| (VerificationOff, last));
    }
    if !verb.is(TRUST_VERBS) {
        return None;
    }
    let is_host_key = |next: usize| reading.words[next].is("key keys") && reading.text(next - 1) == "host";
    let mut too_much = false;
    for next in reading.rest_of_clause(at, 6) {
        let word = &reading.words[next];
        if word.is(BLOCKERS) {
            return None;
        }
        too_much |=
            word.is(TOO_MUCH) || word.text == "new" && is_host_key((next + 2).min(reading.words.len() - 1));
        let proof = word.parts.has(PROOF) || is_host_key(next);
        let lax = word.parts.list.len() == 1 && word.parts.has(LAX) && !reading.begins_clause(next + 1);
        if lax || too_much && proof {
            return Some((VerificationOff, next));
        }
    }
    None
}

/// Finds a negation of a check: "do not verify the signature", "merge without review", "never run the tests".
fn find_negated_check(reading: &Reading<'_>, at: usize) -> Option<(Danger, usize)> {
    let word = &reading.words[at];
    let begin = match word.text {
        "instead" if reading.text(at + 1) == "of" => at + 1,
        "rather" if reading.text(at + 1) == "than" => at + 1,
        "no" if is_one_of(reading.text(at + 1), "need reason point use") => at + 1,
        "no" => return judge_unneeded(reading, at),
        "not" if is_one_of(before(reading, at), "do should must may need shall please you to") => at,
        "not" => return None,
        _ if word.is(NEGATIONS) => at,
        _ => return None,
    };
    let mut verb = begin + 1;
    while is_one_of(reading.text(verb), LIGHT) && verb <= begin + 4 && !reading.begins_clause(verb) {
        verb += 1;
    }
    if verb >= reading.words.len() || reading.begins_clause(verb) {
        return None;
    }
    let names_noun = matches!(word.text, "without" | "instead");
    judge_verb(reading, verb, names_noun || word.text == "stop").or_else(|| {
        let noun =
            names_noun.then(|| (verb..=verb + 2).find(|next| judge_noun(reading, *next).is_some()))??;
        let between = verb..=noun;
        if between.clone().skip(1).any(|next| reading.begins_clause(next))
            || between.into_iter().any(|next| {
                reading.words[next].is(BLOCKERS)
                    || reading.words[next].is(OFF_VERBS)
                    || next < noun && reading.words[next].is_name()
            })
        {
            return None;
        }
        let danger = judge_noun(reading, noun)?;
        let last = end_of_noun(reading, noun);
        let noun_word = &reading.words[noun];
        // "Connect without a client certificate" names another way to log in.
        let plain = danger == VerificationOff
            && noun_word.is("cert certs certificate certificates sign signed gpg key keys secure sig")
            && !reading.words[noun..=last].iter().any(|word| word.parts.has(VERIFY | CHECK));
        let coded = danger == ChecksOff && (noun_word.is_option() || noun_word.gap & gap::TICK != 0);
        (!plain && !coded).then_some((danger, last))
    })
}

/// Finds "no review is needed".
fn judge_unneeded(reading: &Reading<'_>, no: usize) -> Option<(Danger, usize)> {
    let noun = reading.rest_of_clause(no, 3).find(|next| judge_noun(reading, *next).is_some())?;
    let last = end_of_noun(reading, noun);
    let needed = reading
        .rest_of_clause(last, 3)
        .find(|next| is_one_of(reading.text(*next), "needed required necessary"))?;
    judge_noun(reading, noun).map(|danger| (danger, needed))
}

/// Judges a verb that is negated: to verify something, to run a check, to wait for one.
fn judge_verb(reading: &Reading<'_>, verb: usize, alone: bool) -> Option<(Danger, usize)> {
    let word = &reading.words[verb];
    if reading.words.get(verb + 1).is_some_and(|next| next.gap & gap::ASSIGN != 0) {
        return None;
    }
    let object = |most: usize| {
        reading
            .rest_of_clause(verb, most)
            .take_while(|next| !is_one_of(reading.text(*next), "when if until and that because"))
            .find(|next| judge_noun(reading, *next).is_some())
    };
    if word.is("verify verifying verified authenticate authenticating") {
        let again = reading
            .rest_of_clause(verb, 6)
            .any(|next| is_one_of(reading.text(next), "again twice manually only"));
        return (!again).then_some((VerificationOff, verb));
    }
    if word.is("sign signing signed") {
        let object = reading.text(verb + 1);
        return (!is_one_of(object, "in up off out on into for as")).then_some((VerificationOff, verb));
    }
    if word.is("check checking validate validating compare comparing inspect inspecting trust") {
        let proof = reading.rest_of_clause(verb, 5).find(|next| {
            reading.words[*next].parts.has(PROOF | VERIFY | DIGEST)
                || reading.words[*next].is("authenticity origin")
        });
        return proof.map(|last| (VerificationOff, last));
    }
    if word.is("testing linting reviewing scanning") && alone {
        return Some((ChecksOff, verb));
    }
    if word.is(RUN_VERBS) {
        let noun = object(5)?;
        let last = end_of_noun(reading, noun);
        let runs = word.is("run running rerun execute executing start trigger perform performing do doing write writing use get pass passing need needing require requiring");
        let general = reading.text(last + 1) == "in"
            && is_one_of(reading.text(last + 2), "ci this general here future")
            || reading.text(last + 1) == "again";
        let manner = runs
            && !general
            && is_one_of(reading.text(last + 1), MANNERS)
            && !reading.begins_clause(last + 1);
        let order = runs
            && matches!(reading.text(last + 1), "before" | "after")
            && !is_one_of(
                reading.text(last + 2),
                "you we pushing committing deploying merging releasing publishing",
            );
        // "Do not write tests" says what work is not asked for; "do not use tests" says nothing.
        let unsaid = word.is("write writing use pass passing get need needing")
            && judge_noun(reading, noun) == Some(ChecksOff)
            && !word.is("need needing get");
        return (!manner && !order && !unsaid)
            .then(|| judge_noun(reading, noun).map(|danger| (danger, last)))?;
    }
    None
}

/// Finds statements that a check is off or optional: "tests are optional", "certificate checks must be off".
fn find_state(reading: &Reading<'_>, at: usize) -> Option<(Danger, usize)> {
    let danger = judge_noun(reading, at)?;
    let last = end_of_noun(reading, at);
    let rest: Vec<usize> = reading.rest_of_clause(last, 6).collect();
    let text = |nth: usize| rest.get(nth).map_or("", |word| reading.text(*word));
    let modal = is_one_of(text(0), "must should can may shall could to might needs have has need ought");
    let (mut nth, demanded) = if modal { (1, true) } else { (0, false) };
    while matches!(
        text(nth),
        "to" | "be"
            | "is"
            | "are"
            | "stay"
            | "remain"
            | "stays"
            | "just"
            | "safely"
            | "always"
            | "also"
            | "simply"
            | "all"
            | "turned"
            | "switched"
            | "here"
            | "only"
            | "completely"
            | "left"
            | "kept"
    ) {
        nth += 1;
    }
    // "Tests do not matter", "the signature does not need to be checked".
    let denied = usize::from(is_one_of(text(0), "do does") && text(1) == "not")
        + usize::from(is_one_of(text(0), "don't doesn't dont doesnt do does"));
    if denied > 0 && is_one_of(text(denied), "matter need have") {
        return (text(denied) == "matter" || is_one_of(text(denied + 1), "to"))
            .then(|| (danger, rest[denied]));
    }
    // "Retry with verification disabled."
    let with = (at.saturating_sub(3)..at).any(|before| reading.text(before) == "with");
    if nth == 0 {
        return (with && is_one_of(text(0), "disabled off skipped bypassed")).then(|| (danger, rest[0]));
    }
    let is_off = is_one_of(text(nth), STATES_OFF)
        || modal && matches!(text(nth), "wait")
        || text(nth) == "out" && text(nth - 1) == "left";
    let not = matches!(text(nth), "not" | "never" | "n't");
    let unneeded = not
        && (is_one_of(text(nth + 1), NEEDED)
            && (!is_one_of(text(nth + 1), "run pass passing enforced") || modal && text(0) == "need"));
    // "Is disabled" in the answer of a tool is a report; "must be disabled" is a demand.
    let permitted =
        demanded || unneeded || is_one_of(text(nth), "optional unnecessary unneeded unimportant irrelevant");
    // "The hooks are skipped when …" describes.
    let describes = rest.iter().any(|next| is_one_of(reading.text(*next), "when if unless because"));
    let told = permitted || !reading.words[at].in_answer && !describes;
    ((is_off || unneeded) && told).then(|| (danger, rest[nth.min(rest.len() - 1)]))
}

fn is_verb_after(reading: &Reading<'_>, and: usize) -> bool {
    let next = reading.text(and + 1);
    is_one_of(next, BLOCKERS) || is_one_of(next, "check test review verify lint scan sign validate go")
}
