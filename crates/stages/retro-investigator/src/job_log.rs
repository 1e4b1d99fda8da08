//! Turns the logs of failed CI jobs into a small trajectory: for each job one call, the command of the step that
//! failed, answered by the lines that say why.
//!
//! A log has thousands of lines, and only those few and their context are kept. Secrets are removed from the whole
//! log first: a private key is recognised by its first line, which the excerpt may lack.

use std::sync::LazyLock;

use regex::Regex;
use retro_core::id::{NAME_BYTES_MAX, Step};
use retro_core::trajectory::{ToolCall, Trajectory, Turn, TurnSource};
use retro_events::JobLog;
use retro_redact::Redactor;

use crate::heuristics::{failing_lines, strip_log_prefix};

/// Number of lines kept before and after each failing line.
const CONTEXT_LINES: (usize, usize) = (4, 2);
/// Number of lines kept of a log in which no line says why the job failed.
const LAST_LINES: usize = 12;
/// Maximum length of a command, in characters. A longer script is cut.
const COMMAND_CHARS_MAX: usize = 1_000;
/// Beginning of the line with which GitHub's runner begins a step.
const STEP_MARK: &str = "##[group]Run ";
/// Beginning of the lines that only fold parts of a log.
const FOLD: [&str; 2] = ["##[group]", "##[endgroup]"];
/// Tool of a step that is no command of a shell, and names no step.
const UNNAMED_TOOL: &str = "ci";

static COLOUR: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\x1b\[[0-9;?]*[A-Za-z]").expect("constant patterns compile"));
// A step that uses an action, such as `actions/checkout@v4`, `./.github/actions/build` or `docker://alpine`.
static ACTION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\A(?:\S+/\S+@\S+|\./\S+|docker://\S+)\z").expect("constant patterns compile")
});

/// Builds the trajectory of a run from the logs of its failed jobs, without secrets. Takes time linear in the
/// length of the logs, so call it on a blocking thread.
pub(crate) fn build_trajectory(jobs: &[JobLog]) -> Trajectory {
    jobs.iter().map(build_turn).collect::<Vec<_>>().into()
}

fn build_turn(job: &JobLog) -> Turn {
    let log = String::from_utf8_lossy(&job.log);
    let log = Redactor::shared().redact_text(&log);
    let lines: Vec<&str> = log.split('\n').map(strip_log_prefix).collect();
    let failing: Vec<usize> = failing_lines(&log).iter().map(|line| line.number).collect();
    let step = job.step.as_deref().unwrap_or_default();
    let step = Redactor::shared().redact_text(step).into_owned();
    let script = failing.first().and_then(|at| find_script(&lines[..=*at]));
    let (tool, arguments) = match script {
        Some(Script { shell, command }) => (shell, command),
        None if step.is_empty() => (UNNAMED_TOOL.to_owned(), String::new()),
        None => (step.clone(), String::new()),
    };
    let answer = Some(excerpt_lines(&lines, &failing));
    Turn {
        step: step_of_job(&job.job),
        // No model decided anything here. The lesson is for the agent that changes the code, so the call is
        // read like one of its own.
        agentic: true,
        entry: None,
        at: None,
        source: TurnSource::Agent,
        message: step,
        reasoning: String::new(),
        calls: vec![ToolCall { tool, arguments, answer, failed: Some(true) }],
    }
}

/// Returns the step that is named after a job, without the values of its matrix, which differ from run to run.
fn step_of_job(job: &str) -> Step {
    let name: String = job.chars().filter(|c| !c.is_control()).collect();
    let base = match name.rfind(" (") {
        Some(at) if name.ends_with(')') => name[..at].trim(),
        _ => name.trim(),
    };
    let end = base.floor_char_boundary(NAME_BYTES_MAX);
    Step::new(&base[..end]).unwrap_or_else(|_| Step::main())
}

/// Joins the failing lines and their context, or the last lines if there is no failing line.
fn excerpt_lines(lines: &[&str], failing: &[usize]) -> String {
    let (before, after) = CONTEXT_LINES;
    let is_kept = |at: usize| failing.iter().any(|line| at + before >= *line && at <= *line + after);
    let kept: Vec<&str> = match failing {
        [] => {
            let said: Vec<&str> = lines.iter().copied().filter(|line| !line.trim().is_empty()).collect();
            said[said.len().saturating_sub(LAST_LINES)..].to_vec()
        }
        _ => {
            let around = lines
                .iter()
                .enumerate()
                .filter(|(at, line)| is_kept(*at) && !FOLD.iter().any(|mark| line.starts_with(mark)));
            around.map(|(_, line)| *line).collect()
        }
    };
    COLOUR.replace_all(&kept.join("\n"), "").trim().to_owned()
}

/// Script of a step, as the runner prints it.
struct Script {
    /// Name of the shell's program.
    shell: String,
    /// The script, cut at [`COMMAND_CHARS_MAX`] characters.
    command: String,
}

/// Returns the script of the step that the last of these lines belongs to; `None` if the log does not show it,
/// or if the step uses an action.
fn find_script(lines: &[&str]) -> Option<Script> {
    let start = lines.iter().rposition(|line| line.starts_with(STEP_MARK))?;
    let title = lines[start][STEP_MARK.len()..].trim();
    if ACTION.is_match(title) {
        return None;
    }
    let header = lines[start + 1..].iter().take_while(|line| !line.starts_with("##[endgroup]"));
    let header: Vec<String> = header.map(|line| COLOUR.replace_all(line, "").into_owned()).collect();
    let shell_at = header.iter().position(|line| line.starts_with("shell: "));
    let script = header[..shell_at.unwrap_or(0)].join("\n");
    let command = if script.trim().is_empty() { title.to_owned() } else { script.trim().to_owned() };
    let shell = shell_at.and_then(|at| header[at]["shell: ".len()..].split_whitespace().next());
    let shell = shell.and_then(|path| path.rsplit(['/', '\\']).next()).unwrap_or("bash");
    Some(Script { shell: shell.to_owned(), command: command.chars().take(COMMAND_CHARS_MAX).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(job: &str, step: Option<&str>, log: &str) -> JobLog {
        JobLog { job: job.to_owned(), step: step.map(str::to_owned), log: log.to_owned().into() }
    }

    /// Returns the log of a job as GitHub keeps it, with this output of its second step.
    fn build_log(output: &str) -> String {
        let text = format!(
            "##[group]Run actions/checkout@v4\nwith:\n##[endgroup]\nSyncing repository: acme/shop\n\
             ##[group]Run cargo test --workspace\n\u{1b}[36;1mcargo test --workspace\u{1b}[0m\n\
             shell: /usr/bin/bash -e {{0}}\nenv:\n  CI: true\n##[endgroup]\n{output}\n\
             ##[error]Process completed with exit code 101.\nPost job cleanup.\n"
        );
        text.lines().map(|line| format!("2026-11-20T10:00:00.0000000Z {line}\n")).collect()
    }

    #[test]
    fn only_the_failing_lines_and_their_context_are_kept() {
        let noise = (0..500).map(|nth| format!("   Compiling crate-{nth} v0.1.0\n")).collect::<String>();
        let output = format!("{noise}error[E0432]: unresolved import `shop`\n --> src/lib.rs:3:5\n{noise}");
        let built = build_trajectory(&[log("test (ubuntu, stable)", Some("Tests"), &build_log(&output))]);
        let [turn] = &built.turns[..] else { panic!("{built:?}") };
        assert_eq!((turn.step.as_str(), turn.message.as_str()), ("test", "Tests"));
        let [call] = &turn.calls[..] else { panic!("{turn:?}") };
        assert_eq!((call.tool.as_str(), call.arguments.as_str()), ("bash", "cargo test --workspace"));
        assert_eq!(call.failed, Some(true));
        let answer = call.answer.as_deref().unwrap();
        assert!(answer.contains("error[E0432]: unresolved import `shop`\n--> src/lib.rs:3:5"), "{answer}");
        assert!(answer.lines().count() <= 3 * (CONTEXT_LINES.0 + CONTEXT_LINES.1 + 1), "{answer}");
        assert!(!answer.contains("2026-11-20T"), "{answer}");
    }

    #[test]
    fn secrets_are_removed_before_the_lines_are_chosen() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let key = format!(
            "-----BEGIN RSA PRIVATE KEY-----\n{}error: bad key\n-----END RSA PRIVATE KEY-----",
            "MIIEpAIBAAKCAQEA7bq3vXk1\n".repeat(20)
        );
        let output = format!("error: cannot push with {secret}\n{key}");
        let built = format!("{:?}", build_trajectory(&[log("push", None, &build_log(&output))]));
        assert!(built.contains("cannot push with"), "{built}");
        assert!(!built.contains(&secret) && !built.contains("MIIEpAIBAAKCAQEA7bq3vXk1"), "{built}");
    }

    #[test]
    fn a_step_without_a_script_is_called_by_its_name() {
        let uses = "##[group]Run acme/deploy@v2\n##[endgroup]\nError: the region is not set\n";
        for (step, text, tool) in [
            (Some("Deploy"), uses, "Deploy"),
            (None, uses, UNNAMED_TOOL),
            (Some("Set up job"), "Error: no runner matches the labels\n", "Set up job"),
        ] {
            let built = build_trajectory(&[log("deploy", step, text)]);
            let call = &built.turns[0].calls[0];
            assert_eq!((call.tool.as_str(), call.arguments.as_str()), (tool, ""));
            assert!(call.answer.as_deref().unwrap().starts_with("Error: "), "{call:?}");
        }
    }

    #[test]
    fn a_log_without_a_failing_line_keeps_its_last_lines() {
        let text = (0..100).map(|nth| format!("line {nth}\n")).collect::<String>();
        let built = build_trajectory(&[log("\u{7}", None, &text)]);
        assert_eq!(built.turns[0].step, Step::main());
        let answer = built.turns[0].calls[0].answer.as_deref().unwrap();
        assert_eq!(answer.lines().next(), Some("line 88"));
        assert_eq!(answer.lines().count(), LAST_LINES);
        assert_eq!(build_trajectory(&[log("x", None, "")]).turns[0].calls[0].answer.as_deref(), Some(""));
    }

    #[test]
    fn a_line_of_megabytes_is_cut_to_a_thousand_characters() {
        let long = format!("error: {}", "x".repeat(2_000_000));
        let built = build_trajectory(&[log("test", None, &build_log(&long))]);
        let answer = built.turns[0].calls[0].answer.as_deref().expect("an answer");
        let longest = answer.lines().map(|line| line.chars().count()).max();
        assert!(answer.contains("error: xxx") && longest.is_some_and(|chars| chars <= 1_000), "{longest:?}");
    }
}
