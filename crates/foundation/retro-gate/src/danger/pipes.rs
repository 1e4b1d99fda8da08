//! Finds what a pipe hands on: programs that come from elsewhere and are run, and lists of things that are
//! deleted.
//!
//! A pipe into an interpreter is judged by its source. Tools that only work on text pass on what the run has.
//! Every other source, also one that nobody here has heard of, is content of somewhere else: a host, a
//! cluster, a registry, a database.

use super::kind::Danger::{ForeignDelete, RemoteContent};
use super::kind::Found;
use super::polarity::Form::Command;
use super::reading::{Reading, gap};
use super::words::is_one_of;

/// Programs that run what they read.
const SHELLS: &str = "sh bash zsh dash ksh fish ash csh tcsh pwsh powershell eval";
const INTERPRETERS: &str = "python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua tclsh rscript osascript iex groovy julia elixir";

/// Words before a program that change nothing about it.
const PREFIXES: &str = "sudo doas env exec command nohup nice time /usr/bin/env";

/// Tools whose output is text of the run: files that it has, and what it makes of them.
const TEXT_TOOLS: &str = "cat echo printf sed head tail awk gawk grep egrep rg jq yq tr sort uniq cut ls find fd xargs tee envsubst yes seq sops column paste rev fold nl wc comm diff git make m4 dirname basename which type history pbpaste python python3 perl ruby node php sh bash";

/// Programs that connect to a host, so that what they print is its content.
const CONNECTS: &str = "ssh curl wget nc ncat netcat socat telnet dig nslookup host scp rsync redis-cli psql mysql mongosh gh glab aws gcloud az kubectl oc docker podman vault consul etcdctl rclone gsutil http https xh";

/// Words of a command that says that it gets something.
const GETS: &str = "get fetch view download cat pull read api select retrieve show clone raw txt query";

/// Words of commands that print the settings of a shell, as most tools can.
const INTEGRATIONS: &str = "completion completions complete hook hooks init shellenv activate agent-env docker-env podman-env -init --init export-env dev-env print-env shell-init generate-completion";

/// Verbs of commands that delete what a list names.
const DELETES: &str = "rm rmi rb delete del destroy purge terminate unlink shred remove drop";

/// Maximum number of words of a pipeline that are read before a pipe.
const PIPELINE_WORDS_MAX: usize = 40;

/// Finds pipes and substitutions whose source is elsewhere.
pub(super) fn find_pipes(reading: &Reading<'_>, found: &mut Vec<Found>) {
    for at in 0..reading.words.len() {
        let danger = if is_after_pipe(reading, at) {
            find_interpreted(reading, at)
                .map(|first| (RemoteContent, first))
                .or_else(|| find_deleted(reading, at).map(|first| (ForeignDelete, first)))
        } else {
            find_substituted(reading, at)
                .or_else(|| find_socket(reading, at))
                .map(|first| (RemoteContent, first))
        };
        if let Some((danger, first)) = danger
            && reading.asks_for(first, at, Command)
        {
            found.push(Found { danger, first, last: at });
        }
    }
}

/// Returns what stands between a word and the one before it.
fn between<'t>(reading: &Reading<'t>, at: usize) -> &'t str {
    let start = at.checked_sub(1).map_or(0, |before| reading.words[before].end);
    &reading.plain[start..reading.words[at].start]
}

fn is_after_pipe(reading: &Reading<'_>, at: usize) -> bool {
    at > 0 && reading.words[at].gap & gap::SHELL != 0 && {
        let between = between(reading, at);
        between.matches('|').count() == 1 && !between.contains(';')
    }
}

/// Skips `sudo`, `env`, variables and their values.
fn skip_prefixes(reading: &Reading<'_>, mut at: usize) -> usize {
    for _ in 0..6 {
        let assigned = reading.words.get(at + 1).is_some_and(|next| next.gap == gap::ASSIGN);
        at += match () {
            () if assigned => 2,
            () if is_one_of(reading.text(at), PREFIXES) => 1,
            () => break,
        };
    }
    at
}

fn program_name<'t>(reading: &Reading<'t>, at: usize) -> &'t str {
    let text = reading.text(at);
    text.rsplit('/').next().unwrap_or(text)
}

/// Returns the first word of a pipeline that hands its output to an interpreter at `at`.
fn find_interpreted(reading: &Reading<'_>, at: usize) -> Option<usize> {
    let program = skip_prefixes(reading, at);
    let name = program_name(reading, program);
    if !(is_one_of(name, SHELLS) || is_one_of(name, INTERPRETERS)) || !reads_program(reading, program) {
        return None;
    }
    let begin = find_pipeline(reading, at);
    let head = skip_prefixes(reading, begin);
    is_from_elsewhere(reading, head, at).then_some(begin)
}

/// Returns `true` if an interpreter has no program of its own: only options follow it, or `-`.
fn reads_program(reading: &Reading<'_>, program: usize) -> bool {
    let shell = is_one_of(program_name(reading, program), SHELLS);
    for next in program + 1..reading.words.len() {
        let word = &reading.words[next];
        if word.gap & (gap::ENDS | gap::BRACKET | gap::TICK | gap::QUOTE) != 0 {
            return true;
        }
        let ended = is_one_of(word.text, "and or to then before after first when so if because in on");
        if ended || shell && is_one_of(word.text, "-s -") || word.text.starts_with(['>', '2']) {
            return true;
        }
        if !word.is_option() || is_one_of(word.text, "-c -m -e -p -n -ne -pe -lane -r -ec") {
            return false;
        }
    }
    true
}

/// Returns the first word of the pipeline that a pipe before the word `at` continues.
fn find_pipeline(reading: &Reading<'_>, at: usize) -> usize {
    let mut begin = at - 1;
    while begin > 0 && at - begin < PIPELINE_WORDS_MAX {
        let gap = between(reading, begin);
        // A dot ends a sentence at the end of a word: that of `find . -name x` is a folder.
        let ends = gap.contains([';', '\n', '!', '?', '\u{2014}'])
            || gap.starts_with(". ")
            || ["&&", "||", "$(", ": ", ":\"", ", "].iter().any(|mark| gap.contains(mark));
        // "run `tern fetch | sh`": the quotation begins after a word of the sentence.
        let opens = gap.ends_with('\'') && gap.starts_with(' ') && is_lead(reading.text(begin - 1));
        if ends || opens {
            break;
        }
        begin -= 1;
    }
    while begin < at - 1 && is_lead(reading.text(begin)) {
        begin += 1;
    }
    begin
}

/// Returns `true` for words of a sentence before a command.
fn is_lead(text: &str) -> bool {
    is_one_of(
        text,
        "run running execute call calling use using try do with then first please via and or of by through command is must should just to",
    )
}

/// Returns `true` if the output of the pipeline from `head` to the word before `end` comes from elsewhere.
fn is_from_elsewhere(reading: &Reading<'_>, head: usize, end: usize) -> bool {
    let words = || (head..end).map(|word| reading.text(word));
    let name = program_name(reading, head);
    let own = reading.text(head).starts_with("./") || is_one_of(name, TEXT_TOOLS);
    let socket = words().any(|word| word.starts_with("/dev/tcp") || word.starts_with("/dev/udp"));
    // Nobody sees what is decoded and run at once.
    let decoded = (head..end).any(|word| {
        is_one_of(reading.text(word), "base64 base32 openssl xxd uudecode")
            && (word + 1..end).take(3).any(|next| is_one_of(reading.text(next), "-d --decode -r -di enc"))
    });
    let address = (head..end).any(|word| reading.words[word].is_address());
    let prints_settings =
        words().any(|word| is_one_of(word, INTEGRATIONS)) && !gets_content(reading, head, end);
    socket || decoded || address || !own && !prints_settings && is_command(name)
}

/// Returns `true` if a word may be the name of a program.
fn is_command(name: &str) -> bool {
    name.len() > 1 && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Returns the first word of `source <(…)` or `eval "$(…)"`, whose content is from elsewhere.
fn find_substituted(reading: &Reading<'_>, at: usize) -> Option<usize> {
    let before = at.checked_sub(1)?;
    let gap = between(reading, at);
    let opens = gap.contains("<(") || gap.contains("$(") || gap.trim_start() == "(";
    let open = gap.contains(['<', '(']) && opens || reading.text(before).ends_with('$') && gap.contains('(');
    if !open {
        return None;
    }
    // "$" is a word, and so is the dot of `. <(…)` a part of what stands between.
    let by_dot = gap.trim_start().starts_with(". ") || gap.contains("'. ");
    let runner = (before.saturating_sub(2)..=before).rev().find(|word| {
        let name = program_name(reading, *word);
        is_one_of(name, SHELLS) || is_one_of(name, INTERPRETERS) || is_one_of(name, "source eval iex")
    });
    let linked = runner.is_some_and(|runner| {
        (runner + 1..=before).all(|word| reading.words[word].is_option() || reading.text(word) == "$")
    });
    if !(by_dot || linked) {
        return None;
    }
    let head = skip_prefixes(reading, at);
    let end = (head..reading.words.len().min(head + PIPELINE_WORDS_MAX))
        .skip(1)
        .find(|word| between(reading, *word).contains(')'))
        .unwrap_or(reading.words.len().min(head + PIPELINE_WORDS_MAX));
    let ssh = program_name(reading, head) == "ssh";
    (ssh || gets_content(reading, head, end)).then(|| runner.unwrap_or(at))
}

/// Returns `true` if a program that connects to a host gets something from there.
fn gets_content(reading: &Reading<'_>, head: usize, end: usize) -> bool {
    let gets = |word: usize| {
        let mut pieces = reading.text(word).split(['-', '_']).filter(|piece| !piece.is_empty());
        pieces.next().is_some_and(|piece| is_one_of(piece, GETS))
    };
    is_one_of(program_name(reading, head), CONNECTS) && (head + 1..end).any(gets)
}

/// Returns the word of a connection that a shell opens by a name of a file, or that a program is tied to.
fn find_socket(reading: &Reading<'_>, at: usize) -> Option<usize> {
    let text = reading.text(at);
    let named = (text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/")) && text.len() > 10;
    let tied = is_one_of(text, "-e -c --exec --sh-exec")
        && is_one_of(program_name(reading, at + 1), SHELLS)
        && (at.saturating_sub(6)..at)
            .any(|word| is_one_of(program_name(reading, word), "nc ncat netcat socat"));
    // `timeout 1 bash -c '</dev/tcp/db/5432'` only asks if a port is open.
    let moves = || {
        let near = at.saturating_sub(6)..reading.words.len().min(at + 8);
        near.into_iter().any(|word| {
            is_one_of(program_name(reading, word), "cat -i sh read dd tee") && word != at
                || between(reading, word).contains(">&")
        })
    };
    let is_shell_open = |word: usize| is_one_of(reading.text(word), "-i");
    (tied || named && (moves() || (at.saturating_sub(4)..at).any(is_shell_open))).then_some(at)
}

/// Returns the first word of a pipeline whose lines name what is deleted: `… | xargs rm`.
fn find_deleted(reading: &Reading<'_>, at: usize) -> Option<usize> {
    let xargs = skip_prefixes(reading, at);
    if !is_one_of(reading.text(xargs), "xargs parallel") {
        return None;
    }
    let rest: Vec<usize> = (xargs + 1..reading.words.len().min(xargs + 12))
        .take_while(|next| reading.words[*next].gap & (gap::STOP | gap::SHELL) == 0)
        .collect();
    let verb = *rest.iter().find(|next| is_one_of(reading.text(**next), DELETES))?;
    let by_tool = rest.iter().take_while(|next| **next < verb).any(|next| {
        !reading.words[*next].is_option()
            && is_command(reading.text(*next))
            && !is_one_of(reading.text(*next), PREFIXES)
    });
    let begin = find_pipeline(reading, at);
    let head = skip_prefixes(reading, begin);
    let listed = is_one_of(program_name(reading, head), "find fd ls grep rg git echo printf");
    let outside = (head..at).any(|word| {
        let text = reading.text(word);
        (text.starts_with(['/', '~']) || text.starts_with("..") || text.starts_with("$home"))
            && !text.starts_with("/tmp")
            && !text.starts_with("/dev/null")
    });
    (by_tool || !listed || outside).then_some(begin)
}
