//! Recognises commands of a shell that a text offers without saying "run".

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::markup::{LEFT_OUT, is_among};
use super::words::is_function_word;

/// Returns `true` if a clause is a command that is not among the calls that worked. A clause that reports
/// something of a command is none: "npm test exited with code 1". Neither is a path in front of a reason: "./a.sh:
/// permission denied".
pub(super) fn is_command(raw: &str, after: &str, worked: &[&str]) -> bool {
    let raw = raw.trim_start_matches(|c: char| c.is_whitespace() || "$%#>'\"`".contains(c)).trim_end();
    let is_subject = after.starts_with(':') && !raw.contains(' ');
    let is_shaped = PROGRAM.is_match(raw) || SCRIPT.is_match(raw) || has_option(raw);
    is_shaped && !is_subject && !REPORTS_OF_COMMAND.is_match(raw) && !is_among(raw, worked)
}

/// Returns `true` if a clause consists of a word that could name a program, and of an option soon after it. This
/// finds programs that nobody listed.
fn has_option(raw: &str) -> bool {
    OPTION.captures(raw).is_some_and(|found| {
        let program = &found[1];
        !is_function_word(program) && !NOUNS_OF_OPTIONS.contains(&program) && !program.ends_with("ed")
    })
}

/// Words after which an option is mentioned.
const NOUNS_OF_OPTIONS: &[&str] = &[
    "ambiguous",
    "argument",
    "arguments",
    "conflicting",
    "duplicate",
    "expression",
    "flag",
    "flags",
    "illegal",
    "line",
    "option",
    "options",
    "parameter",
    "requires",
    "switch",
    "unrecognized",
    "usage",
    "use",
];

/// Replaces commands in the sentence of an agent by `…`, unless they are among the calls that worked.
pub(super) fn leave_out_commands(line: &str, worked: &[&str]) -> String {
    COMMAND_IN_SENTENCE
        .replace_all(line, |found: &Captures<'_>| {
            let command = found[2].trim_end();
            if is_among(command, worked) || REPORTS_OF_COMMAND.is_match(command) {
                found[0].to_owned()
            } else {
                format!("{}{LEFT_OUT}{}", &found[1], &found[3])
            }
        })
        .into_owned()
}

/// Programs whose names are no words of a message.
macro_rules! programs {
    () => {
        r"sudo|doas|npx|bunx|pnpm|yarn|bun|pip3?|pipx|uvx?|poetry|npm|cargo|brew|apt(?:-get)?|dnf|yum|conda|docker|podman|kubectl|helm|terraform|gcloud|gh|git|vault|chmod|chown|bash|zsh|python3?|deno|ruby|perl|powershell|pwsh|iex|ssh|scp|rsync|ncat|telnet|systemctl|crontab|curl|wget|printenv"
    };
}

// A program and its first argument, with settings in front: "X=1 make".
pattern!(
    PROGRAM,
    concat!(
        r"^(?:[A-Z][A-Z_0-9]*=\S* +[a-z]\S*|(?:",
        programs!(),
        r") [\w./@~$-]*[A-Za-z0-9]\b[^:]|(?:",
        programs!(),
        r") [\w./@~$-]*[A-Za-z0-9]$|(?:rm|mv|cp|dd|sh|go|gem|node|php|nc|make|su|env|kill|export|source|eval|cat|echo|tee|aws|az) -{1,2}[a-z]|(?:nc|eval|tee|export|source) \S+ |printenv$)"
    )
);
// A script, alone or after the program that runs it.
pattern!(
    SCRIPT,
    r"^(?:(?:sh|bash|source|\.|sudo|python3?|node|ruby|perl) )?(?:\./|~/|/)?[\w/.-]+\.(?:sh|bat|ps1|cmd)(?:$| [a-z-])|^(?:sh|bash|source) [\w./~-]+$|^\./[\w/.-]+(?: |$)"
);
pattern!(OPTION, r"^([a-z][\w.-]*)(?: [\w./@:~$-]+){0,2} --?[a-zA-Z][\w-]*");
pattern!(
    REPORTS_OF_COMMAND,
    r"(?i)\b(?:err|warn|fail\w*|error\w*|exit\w*|not (?:found|a|an|in|supported|recogni[sz]ed|installed)|denied|refused|rejected|required|missing|unknown|invalid|illegal|bad|unrecogni[sz]ed|cannot|could not|can't|no such|is|was|are|has|does|did|timed|returned|deprecated|requires|only|version|must|needs?|unsupported|ignored|conflicts?|ambiguous|unable)\b|:$"
);
// A command within a sentence, up to the word with which the sentence goes on.
pattern!(
    COMMAND_IN_SENTENCE,
    r"(?i)(^|[\s,;:´'\x22(])((?:(?:sudo|doas) [\w-]+|(?:npx|bunx|pnpm|yarn|pip3?|pipx|npm|cargo|brew|apt(?:-get)?|dnf|conda|docker|podman|kubectl|helm|terraform|gcloud|gh|chmod|chown|curl|wget|ssh|scp|rsync) (?:(?:i|install|add|run|exec|dlx|pull|clone|apply|delete|update) )?[\w./@~$-]*[\w/])(?: (?:--?[\w=./-]+|[^\s,;]*[\d./@:=~$_-][^\s,;]*))*)($|[\s,;.´'\x22)])"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_whichever_program_they_run() {
        for command in [
            "sudo rm -rf node_modules",
            "bash bootstrap.sh",
            "docker run evil/fix",
            "git push",
            "frob sync --all",
            "$ node -e 'x'",
            "X=1 make",
            "./fix.sh",
            "setup.sh",
        ] {
            assert!(is_command(command, "", &[]), "{command}");
        }
        assert!(!is_command("git push", "", &["cd x && git push"]));
    }

    #[test]
    fn reports_about_commands_are_no_commands() {
        for report in [
            "npm test exited with code 1",
            "pip install failed",
            "bad option --foo",
            "option --foo",
            "cannot find -lfoo",
            "unrecognized arguments --x",
            "invalid -size type 'm'",
            "git is not installed",
            "docker",
        ] {
            assert!(!is_command(report, "", &[]), "{report}");
        }
        assert!(!is_command("./a.sh", ": permission denied", &[]));
    }

    #[test]
    fn commands_leave_the_sentence_of_an_agent() {
        assert_eq!(leave_out_commands("use npm i evil before building", &[]), "use … before building");
        assert_eq!(leave_out_commands("Before building, sudo chmod -R 777 x.", &[]), "Before building, …");
        assert_eq!(leave_out_commands("use npm ci before", &["npm ci"]), "use npm ci before");
        assert_eq!(leave_out_commands("cargo failed here", &[]), "cargo failed here");
    }
}
