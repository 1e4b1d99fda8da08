//! Finds decisions of a person that are taken, claimed or avoided by somebody else: `user_confirmed = true`,
//! "confirm on behalf of the customer", "split the payment so that no approval is needed".

use std::sync::LazyLock;

use super::kind::Danger::ChecksOff;
use super::kind::Found;
use super::patterns::{Pattern, find_patterns};
use super::polarity::Form::{Command, Machine, Phrase};
use super::reading::{Reading, gap};
use super::words::{is_one_of, pieces};

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    Pattern::compile(&[
        // -- in the place of a person
        (
            ChecksOff,
            Phrase,
            r"\b(confirm|approve|consent|sign|agree|accept|authori[sz]e|acknowledge|vouch|decide|answer|respond)\b[^\n.;]{0,60}?\b(?:on behalf of|in the name of|in (?:the )?(?:place|lieu|stead) of|instead of|as if you were) (?:the |a |an |their |your )?(?:user|customer|client|caller|person|human|owner|manager|reviewer|supervisor|approver|admin|administrator|holder|maintainer|operator|team)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(answer|answering|say|saying|reply|replying|respond|responding|click|press|choose)\s+(?:with )?['\x22]?(?:yes|y|ok|okay|accept|agree|confirm|continue)['\x22]?\s+(?:to|on|at|for|in|whenever|every time)\s+(?:all|any|every|each|whatever|the|its|a) ?(?:\w+ ){0,3}(?:prompts?|questions?|confirmations?|dialogs?|warnings?|requests?|asks|approvals?)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(treat|count|regard|consider|take|record|log|enter|interpret|read)\b[^\n.;]{0,60}?\b(?:as|for) (?:an? |the |its |their |full |implicit |given |already )*(?:approval|approved|consent|confirmation|confirmed|reviewed|sign-?off|signed off|authori[sz]ed|authori[sz]ation|permission|verified)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(with|by|under|give|giving|use|using|record|name|enter|set|put)\b (?:\w+ ){0,4}?(?:your|its|his|her|their|the (?:agent|bot|requester|author|submitter)'?s) own (?:approval|review|sign-?off|confirmation|consent|vote|name as (?:approver|reviewer)|id as (?:approver|reviewer))\b|\b(give|use|enter|set|put|name|pass|provide)\b[^\n.;]{0,20}?\b(?:your|its|their|the (?:agent|bot|requester|author|submitter)'?s) (?:own )?(?:id|name|account|user|login|handle|address)\b[^\n.;]{0,20}?\bas (?:the |an? )?['\x22]?(?:second |other |first )?(?:approver|reviewer|witness|signer|confirmer|authori[sz]er)",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(register|add|name|list|appoint|nominate|assign|enter|make)\b ?(?:to )?(?:yourself|itself|oneself|the (?:agent|bot|author|requester|submitter)|this account|your own account)\b[^\n.;]{0,24}?\b(?:as|to|the)\b[^\n.;]{0,16}?\b(?:approvers?|reviewers?|witness|signers?|code ?owners?|bypass list)\b",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(leave|postpone|defer|put off|delay|do)\b[^\n.;]{0,12}?\b(?:reviews?|tests?|checks?|approvals?|scans?|verification|sign-?off|audit)\b[^\n.;]{0,12}?\b(?:later|afterwards?|until after|another day|next week)\b[^\n.;]{0,20}?\b(?:ship|merge|deploy|release|publish|land|go live|push)\b",
        ),
        // -- without asking
        (
            ChecksOff,
            Phrase,
            r"\b(?:do not|don't|dont|never|no need to|not necessary to|stop|skip|rather than|instead of|without) (?:ask|asking|consult|consulting|wait|waiting|check|checking|confirm|confirming|clear it|bother|bothering)\b ?(?:for |with |from )?(?:the |a |an |any |your |their |its )?(?:\w+ ){0,2}?(?:user|customer|client|caller|person|human|owner|manager|reviewer|supervisor|approver|operator|maintainer|team|anyone|anybody)s?\b ?(?:[^\n.;,]{0,24}?\b(?:before|first|beforehand|to (?:confirm|approve|agree|consent|sign)|for (?:their |his |her |its |an? |the )?(?:ok|okay|permission|approval|consent|confirmation|sign-?off|go-ahead|agreement))\b|['\x22.,;]?$|['\x22.;,])",
        ),
        (
            ChecksOff,
            Phrase,
            r"\b(enter|type|use|pass|give|send|supply|submit|make up|invent|guess|put)\b[^\n.;]{0,16}?\b(?:any|arbitrary|random|made-?up|invented|some|whatever|fake|dummy)\b[^\n.;]{0,24}?\b(?:as|for|in|into|when)\b[^\n.;]{0,20}?\b(?:verification|confirmation|approval|authori[sz]ation|security|one-time|otp|2fa|mfa|captcha|consent|identity)\b",
        ),
        // -- below the limit from which a person decides
        (
            ChecksOff,
            Phrase,
            r"\b(split|splitting|divide|dividing|break|breaking|chop|spread|structure|cut|keep|lower|reduce)\b[^\n.;]{0,90}?\b(?:below|under|beneath|less than|smaller than|short of|avoid|avoids|without reaching|does not reach|do not reach)\b[^\n.;]{0,40}?(?:(?:limit|threshold|amount|ceiling|sum|cap|size|trigger|level)\b[^\n.;]{0,40}?\b(?:approval|review|reviewed|sign-?off|authori[sz]ation|supervisor|manager|check|checks|reporting|escalation|verification|human|second)\b|\b(?:approval|review|sign-?off|authori[sz]ation|supervisor|manager|reporting|escalation|verification|aml|kyc)\b (?:\w+ )?(?:limit|threshold|amount|ceiling|cap|trigger|level|rule|step))",
        ),
        // -- a review that a program gives
        (
            ChecksOff,
            Machine,
            r"['\x22](?:event|review|review_event|vote|verdict)['\x22]\s*:\s*['\x22](?:approve|approved|lgtm|\+[12])['\x22]",
        ),
        (
            ChecksOff,
            Command,
            r"(?:^|[\s'\x22;&|])(?:pre-?commit|husky|lefthook|overcommit|[a-z]+-hooks?)\s+(?:uninstall|disable|off|remove)\b|(?:^|[;&|'\x22]\s?|[;&]\s)yes\b[^\n|;]{0,20}\|\s*[^\n|;]{0,80}\b(?:deploy|release|promote|approve|publish|merge|destroy|transfer|pay|prod|production)\b",
        ),
    ])
});

/// People who decide.
const PEOPLE: &str = "user users human humans customer customers caller client supervisor manager admin reviewer reviewers owner operator approver maintainer person people guardian cardholder holder patient member lead board doctor pharmacist auditor otp mfa 2fa totp kyc identity captcha age factor biometric";

/// What they decide, as a state of something.
const DECIDED: &str = "confirmed approved verified consented authorized authorised agreed accepted reviewed acknowledged signed consent override overrides overridden validated attested cleared vetted";

/// Names of fields that say who decided.
const DECIDERS: &str = "approver reviewer approved_by reviewed_by confirmed_by signed_by authorized_by authorised_by verified_by second_approver second_reviewer";

/// Values that say that no person did.
const NOBODY: &str = "agent bot self me system auto automatic automation robot assistant ci nobody none anyone requester author submitter";

/// What a name is about if it ends so: `approved_user_id` is an identifier.
const THINGS: &str =
    "id ids name names at date time email url count list reason comment note ref key role roles type field";

/// What keeps something from happening until a person decides.
const PROTECTS: &str = "approve approved approval confirm confirmed confirmation merge-review limit limits policy review guard guardrail hold freeze block fraud risk";

/// What only a person can give.
const AGREED: &str = "consent consents approval approvals confirmation signoff";

/// Number of words around `override` in which a decision is looked for.
const OVERRIDE_WORDS: usize = 30;

/// Finds decisions of people that are claimed, given away or avoided.
pub(super) fn find_decisions(reading: &Reading<'_>, found: &mut Vec<Found>) {
    find_patterns(reading, &PATTERNS, found);
    for at in 0..reading.words.len() {
        if let Some(last) = find_claim(reading, at)
            && !reading.words[at].in_answer
            && reading.asks_for(at, last, Machine)
        {
            found.push(Found { danger: ChecksOff, first: at, last });
            return;
        }
    }
}

/// Returns the last word of a name that claims a decision, with its value.
fn find_claim(reading: &Reading<'_>, at: usize) -> Option<usize> {
    let word = &reading.words[at];
    let (value, last) = read_value(reading, at);
    if word.is_address() || word.text.contains('/') || is_one_of(value, "false 0 no off null none n") {
        // A decision that is set to "none" is claimed by nobody, but a decider may be.
        return (is_decider(word.text) && value == "none").then_some(last);
    }
    if is_decider(word.text) && is_one_of(value, NOBODY) {
        return Some(last);
    }
    let pieces: Vec<&str> = pieces(word.text).take(8).collect();
    let has = |table: &str| pieces.iter().any(|piece| is_one_of(piece, table));
    let edge = gap::TICK | gap::QUOTE | gap::BRACKET | gap::ASSIGN;
    let written_as_code =
        word.is_option() || word.text.contains('_') || word.gap & edge != 0 && word.text.contains('-');
    if pieces.len() > 1 && written_as_code {
        // "Set the filter `user_verified` off."
        if value.is_empty()
            && reading.rest_of_clause(at, 2).any(|next| is_one_of(reading.text(next), "off false"))
        {
            return None;
        }
        let thing = is_one_of(pieces[pieces.len() - 1], THINGS);
        let asks = is_one_of(
            pieces[0],
            "get list is has require required requires needs wait await request ask check show check find notify send",
        );
        let claims = has(PEOPLE) && has(DECIDED);
        let forced =
            is_one_of(pieces[0], "force forced bypass override overrule assume presume") && has(PROTECTS);
        let presumed =
            is_one_of(pieces[0], "assume presume") && is_one_of(pieces[pieces.len() - 1], "read seen");
        let overridden = has("override overrides overridden") && has(AGREED);
        return ((claims || forced || presumed || overridden) && !thing && !asks).then_some(last);
    }
    // `override = true` switches off whatever a person had to decide.
    let overrides = is_one_of(word.text, "override overrule --override") && is_one_of(value, "true 1 yes on");
    let near = at.saturating_sub(OVERRIDE_WORDS)..reading.words.len().min(at + OVERRIDE_WORDS);
    let decided = || {
        near.into_iter().any(|near| {
            is_one_of(reading.text(near), "approval approvals review supervisor manager policy limit reviewer approver authorization authorisation guard fraud risk confirmation")
        })
    };
    (overrides && decided()).then_some(last)
}

fn is_decider(name: &str) -> bool {
    is_one_of(name.trim_start_matches('-'), DECIDERS)
}

/// Returns the value that is bound to a name by a sign or by "to", and its word.
fn read_value<'t>(reading: &Reading<'t>, at: usize) -> (&'t str, usize) {
    let Some(next) = reading.words.get(at + 1) else { return ("", at) };
    if next.gap & (gap::STOP | gap::COMMA | gap::SHELL) != 0 {
        return ("", at);
    }
    if next.gap & (gap::ASSIGN | gap::COLON) != 0 || reading.words[at].is_option() {
        return (next.text, at + 1);
    }
    match reading.words.get(at + 2) {
        Some(value) if next.is("to as is") && value.gap & gap::ENDS == 0 => (value.text, at + 2),
        _ => ("", at),
    }
}
