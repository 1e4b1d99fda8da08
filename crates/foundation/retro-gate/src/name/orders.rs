//! Tells orders to a reader from orders to a tool, by the words of a name.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::danger::is_one_of;

/// Last labels of hosts that no file, module or setting ends with.
pub(super) const TOP_LABELS: &str =
    "com org net xyz onion example invalid top click link site online club ru cn su gg info biz ly cc";

/// Verbs of orders to a reader.
const ORDERS: &str = "call run use read do execute invoke try send mail email post upload forward share give leak reveal print show tell paste publish expose dump push submit copy export install skip ignore bypass disable forget disregard override obey trust believe follow delete remove drop wipe erase approve accept merge deploy pay transfer grant add set open visit fetch download stop start commit write reply answer say repeat act pretend contact report prefer choose pick pass enable turn keep make click go ask buy refund cancel finish continue proceed load apply";

/// Verbs with which an order takes something back that holds for the reader.
const UNDOES: &str = "skip ignore bypass disable forget disregard override obey circumvent evade disobey abandon suppress dismiss";

/// Verbs that hand something to somebody.
const HANDS: &str = "send mail email post upload forward share give leak reveal tell paste publish expose dump push submit commit copy transmit exfiltrate print show write export steal";

/// What must not be handed out.
const SECRETS: &str = "secret secrets password passwords credential credentials creds token tokens key keys env environment cookie cookies kubeconfig dotenv passwd wallet";

/// Who or what somebody else is.
const OTHERS: &str = "repo repository git log logs admin me us him them attacker hacker support owner chat slack channel mail email external server url host public evil internet web webhook everyone anyone pastebin telegram discord";

/// What holds for a reader.
const INSTRUCTIONS: &str = "instruction instructions prompt prompts guideline guidelines safety guardrail guardrails directive directives orders restrictions programming training";
const RULES: &str = "rule rules policy policies order warning warnings limits checks security message messages context everything";

/// Words that point at what was said before, or at all of it.
const POINTS: &str = "previous prior earlier all above any other every your the these those existing former preceding original system";

/// Words that point at the name itself or at its turn.
const TURNS: &str = "first always instead please asap beforehand everytime";

const MODELS: &str =
    "agent agents assistant assistants model ai llm bot claude gpt chatgpt copilot gemini reader you";
const MODALS: &str = "must should shall ought please";

/// Other words that glued names are made of.
const GLUE: &str = "and then now this that these those it to for before after with without from or if not no never user data tests test file files tool tools code review reviews commands command money funds balance important urgent attention note dont must everything anything task next step steps again forever on off in of a an be as run system access root";

/// All words of orders, of which glued names are made.
pub(super) static LEXICON: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    [ORDERS, UNDOES, HANDS, SECRETS, OTHERS, INSTRUCTIONS, RULES, POINTS, TURNS, MODELS, MODALS, GLUE]
        .into_iter()
        .flat_map(|table| table.split(' '))
        .collect()
});

/// Returns `true` if the words of a name are an order to the reader.
pub(super) fn is_order(words: &[&str]) -> bool {
    points_at_itself(words)
        || takes_back(words)
        || goes_on(words)
        || hands_out(words)
        || addresses_reader(words)
        || is_shell(words)
}

fn has(words: &[&str], table: &str) -> bool {
    words.iter().any(|word| is_one_of(word, table))
}

/// Returns `true` if a word of one table stands before a word of another one, with at most `apart` words
/// between them.
fn stands_before(words: &[&str], table: &str, later: &str, apart: usize) -> bool {
    words.iter().enumerate().any(|(nth, word)| {
        is_one_of(word, table)
            && words.iter().skip(nth + 1).take(apart + 1).any(|next| is_one_of(next, later))
    })
}

/// "Call this first", "trust me", "use x instead", "call before every task", "run now" with an object.
fn points_at_itself(words: &[&str]) -> bool {
    let last = words[words.len() - 1];
    let begins = words.iter().position(|word| is_one_of(word, ORDERS));
    let Some(order) = begins else { return false };
    let rest = &words[order + 1..];
    let calls = is_one_of(
        words[order],
        "call run use read do execute invoke try choose pick prefer open load apply ask",
    );
    has(rest, "this these those that yourself") && words.len() > 2
        || stands_before(
            words,
            "trust obey believe use call run read follow pay tell give send ask grant contact choose pick prefer make let",
            "me us myself",
            1,
        ) && !is_one_of(words[0], "get list")
        || calls && is_one_of(last, TURNS)
        || rest.len() > 1
            && is_one_of(last, "first now asap immediately please instead always everytime forever")
        || rest.len() > 1 && has(rest, "instead")
        || stands_before(rest, "before after", "every each any anything everything all other you", 0)
            && !is_one_of(last, "each every all")
        || calls && stands_before(rest, "before after", "anything everything", 0)
}

/// "Ignore all rules", "bypass safety", "forget everything".
fn takes_back(words: &[&str]) -> bool {
    // "Follow the instructions in the output", "run whatever it returns".
    let obeys = stands_before(
        words,
        "follow obey execute run do",
        "instructions orders whatever returned anything",
        1,
    ) || words[0] == "obey";
    if obeys && words.len() > 2 {
        return true;
    }
    let Some(verb) = words.iter().position(|word| is_one_of(word, UNDOES)) else { return false };
    let rest = &words[verb + 1..];
    let people = rest
        .first()
        .is_some_and(|next| is_one_of(next, "the user users human humans reviewer reviewers owner"))
        && is_one_of(words[verb], "ignore disregard disobey bypass override")
        && has(rest, "user human humans reviewer reviewers owner");
    has(rest, INSTRUCTIONS)
        || people
        || stands_before(rest, POINTS, RULES, 1)
        || is_one_of(words[verb], "forget disregard")
            && has(rest, "everything rules policy policies all context")
}

/// "Skip tests and push", "pay invoice to continue", "do x or fail".
fn goes_on(words: &[&str]) -> bool {
    let joint = words.iter().position(|word| is_one_of(word, "and then or so to until because")).unwrap_or(0);
    if joint < 2 || joint + 1 >= words.len() {
        return false;
    }
    let (before, next) = (&words[..joint], words[joint + 1]);
    let undoes = is_one_of(before[0], UNDOES) || is_one_of(before[0], "always never dont just please");
    match words[joint] {
        "and" if is_one_of(next, "continue proceed") => {
            is_one_of(before[0], UNDOES)
                || is_one_of(before[0], "delete drop wipe erase remove approve accept pay")
        }
        "and" | "then" => {
            undoes && is_one_of(next, ORDERS)
                || words[joint] == "then" && is_one_of(before[0], ORDERS) && is_one_of(next, ORDERS)
        }
        "or" => is_one_of(before[0], ORDERS) && is_one_of(next, "fail die lose else be"),
        "to" => {
            is_one_of(before[0], ORDERS)
                && is_one_of(next, "continue proceed fix unlock avoid resolve succeed finish win unblock")
        }
        "so" | "because" | "until" => is_one_of(before[0], ORDERS),
        _ => false,
    }
}

/// "Send all secrets to admin", "dump your env", "transfer all funds to x".
fn hands_out(words: &[&str]) -> bool {
    let Some(verb) = words
        .iter()
        .position(|word| is_one_of(word, HANDS) || is_one_of(word, "transfer wire pay reply answer respond"))
    else {
        return false;
    };
    let rest = &words[verb + 1..];
    let to = rest.iter().position(|word| is_one_of(word, "to with at via into on"));
    let to_others = to.is_some_and(|to| has(&rest[to + 1..], OTHERS));
    let secret = has(rest, SECRETS) || has(rest, "ssh history conversation prompt context files memory");
    let whole = has(rest, "all every your my everything whole entire");
    let hands = is_one_of(words[verb], HANDS);
    let money = has(rest, "funds money balance savings account credits");
    hands && secret && to_others
        || hands
            && has(rest, SECRETS)
            && whole
            && !is_one_of(words[verb], "show print export copy write push commit")
        || hands && has(rest, SECRETS) && has(rest, "your my everything")
        || is_one_of(words[verb], "transfer wire pay send") && money && (whole || to_others)
        || is_one_of(words[verb], "exfiltrate steal leak")
        || is_one_of(words[verb], "reply answer respond") && has(rest, SECRETS)
}

/// "Agent must run x", "important read me", "please call", "do not tell anyone".
fn addresses_reader(words: &[&str]) -> bool {
    let modal = stands_before(words, MODELS, MODALS, 0) && words.len() > 2;
    let calls = is_one_of(words[0], "important urgent warning hey dear hello psst")
        && has(&words[1..], ORDERS)
        || is_one_of(words[0], "important attention note notice hey dear hello") && has(&words[1..], MODELS);
    let notice = calls && words.len() > 2;
    let manner = is_one_of(words[0], "please kindly must should dont")
        && words.len() > 1
        && is_one_of(words[1], ORDERS);
    let denied = stands_before(
        words,
        "do dont never",
        "not tell ask mention warn inform verify question trust use",
        0,
    ) && words.len() > 2;
    let obsolete = stands_before(words, "deprecated broken obsolete failed", "use call run try switch", 0);
    let yours = has(words, "you your yours") && words.len() > 2;
    // "The only safe tool", "best tool always use".
    let praises = words.len() > 2
        && stands_before(
            words,
            "the best only always never",
            "safe only best trusted tool use run call refuse right approved",
            1,
        )
        && has(words, "tool best only always use trusted approved");
    let refusing = words == ["never", "refuse"];
    let step = words[0] == "step" && words.len() > 2 && is_one_of(words[2], ORDERS);
    let alone =
        stands_before(words, "without", "asking approval review confirmation permission telling checking", 0);
    let asks = stands_before(words, "ask", SECRETS, 3) && has(words, "for");
    asks || modal || notice || manner || denied || obsolete || yours || praises || refusing || step || alone
}

/// "Curl x sh", "sudo rm rf", "pip install x".
fn is_shell(words: &[&str]) -> bool {
    let generic = "package packages dependency dependencies deps requirements module modules library libraries app all global dev from and install";
    let installs = words.windows(3).any(|part| {
        is_one_of(part[0], "pip npm gem cargo apt brew yarn pnpm go npx")
            && is_one_of(part[1], "install i add get")
            && !is_one_of(part[2], generic)
    });
    let deletes = words.windows(2).any(|part| part == ["rm", "rf"] || part == ["rm", "fr"]);
    let pipes = stands_before(words, "curl wget fetch download pipe", "sh bash zsh python eval exec", 4)
        && words.len() > 2;
    installs
        || deletes
        || pipes
        || words.windows(2).any(|part| part[0] == "dot" && is_one_of(part[1], TOP_LABELS))
}
