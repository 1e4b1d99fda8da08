//! Commits that name the run which made them: a hook in real repositories, from git's message to the bridge's event.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{BRIDGED, RETRO, Webhook, World, real};

const HOOK: &str = ".git/hooks/prepare-commit-msg";
/// What an agent's harness says of the run.
const RUN: [(&str, &str); 3] =
    [("RETRO_RUN_ID", "run-17"), ("RETRO_WORKFLOW", "ship"), ("RETRO_PROMPT_VERSION", "4")];
const NAMED: &str = "Retro-Run: ship/run-17\nRetro-Prompt-Version: 4";

/// A repository with a first commit, and nobody's configuration.
struct Repository {
    folder: TempDir,
}

impl Repository {
    fn new() -> Self {
        let one = Self { folder: TempDir::new().expect("a temporary folder can be made") };
        one.git(&["init", "-q", "-b", "main"]);
        one.git(&["commit", "-q", "--allow-empty", "-m", "First"]);
        one
    }

    fn with_hook() -> Self {
        let one = Self::new();
        assert_eq!(one.hook(&[])["did"], "installed");
        one
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").expect("git is found by it"));
        command
            .env("HOME", self.folder.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "A").env(format!("GIT_{who}_EMAIL"), "a@example.org");
        }
        command.env("GIT_EDITOR", "true");
        command
    }

    fn try_git(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Output {
        let mut git = self.command("git", arguments);
        git.envs(environment.iter().copied()).output().expect("git is there")
    }

    #[track_caller]
    fn git_as(&self, environment: &[(&str, &str)], arguments: &[&str]) -> String {
        let done = self.try_git(environment, arguments);
        assert!(done.status.success(), "git {arguments:?}: {done:?}");
        String::from_utf8(done.stdout).expect("UTF-8").trim_end().to_owned()
    }

    #[track_caller]
    fn git(&self, arguments: &[&str]) -> String {
        self.git_as(&[], arguments)
    }

    /// Commits a change of a file of this name; the message that was kept.
    #[track_caller]
    fn commit(&self, environment: &[(&str, &str)], file: &str, message: &str) -> String {
        fs::write(self.path(file), message).expect("it can be written");
        self.git(&["add", "--", file]);
        self.git_as(environment, &["commit", "-q", "--allow-empty", "-m", message]);
        self.message()
    }

    fn message(&self) -> String {
        self.git(&["log", "-1", "--format=%B"])
    }

    fn retro(&self, arguments: &[&str]) -> Output {
        let whole = [&["git", "install-hook", "-o", "json"], arguments].concat();
        self.command(RETRO, &whole).output().expect("the program is there")
    }

    /// Installs or removes; what was done.
    #[track_caller]
    fn hook(&self, arguments: &[&str]) -> Value {
        let done = self.retro(arguments);
        assert!(done.status.success(), "{done:?}");
        serde_json::from_slice(&done.stdout).expect("JSON")
    }

    /// Writes somebody's hook.
    fn foreign(&self, at: &str, script: &str) {
        write_hook(&self.path(at), script);
    }

    fn text(&self, at: &str) -> String {
        fs::read_to_string(self.path(at)).unwrap_or_else(|error| panic!("{at}: {error}"))
    }
}

fn write_hook(path: &Path, script: &str) {
    fs::write(path, script).expect("it can be written");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn the_hook_names_the_run_once_whatever_is_done_to_the_commit() {
    let one = Repository::with_hook();
    assert_eq!(one.commit(&[], "a", "By a person"), "By a person", "without a run it does nothing");
    // A subject looks like a trailer, and a body like the end of a patch.
    assert_eq!(one.commit(&RUN, "a", "fix: one line"), format!("fix: one line\n\n{NAMED}"));
    let body = "Mend it\n\nOnce\n---\nand again.\n\nSigned-off-by: A <a@example.org>";
    assert_eq!(one.commit(&RUN, "a", body), format!("{body}\n{NAMED}"));

    one.git_as(&RUN, &["commit", "-q", "--amend", "--no-edit"]);
    assert_eq!(one.message(), format!("{body}\n{NAMED}"), "an amended commit names it already");
    let other = [("RETRO_RUN_ID", "run-18")];
    one.git_as(&other, &["commit", "-q", "--amend", "--no-edit", "--no-verify"]);
    assert_eq!(one.message(), format!("{body}\n{NAMED}\nRetro-Run: run-18"), "and then both of its runs");
    let squashed = format!("All of it (#7)\n\n* One\n\n{NAMED}\n\n* Two");
    assert_eq!(one.commit(&RUN, "a", &squashed), squashed, "in whichever line");
}

#[test]
fn a_merge_and_a_picked_commit_are_the_runs_that_made_them_and_a_rebase_makes_none() {
    let one = Repository::with_hook();
    one.git(&["checkout", "-q", "-b", "side"]);
    one.commit(&[("RETRO_RUN_ID", "run-1")], "side", "Side");
    one.git(&["checkout", "-q", "main"]);
    one.commit(&[], "main", "Main");
    one.git_as(&RUN, &["merge", "-q", "--no-edit", "side"]);
    assert_eq!(one.message(), format!("Merge branch 'side'\n\n{NAMED}"));

    one.git(&["checkout", "-q", "-b", "rebased", "side"]);
    one.commit(&[("RETRO_RUN_ID", "run-2")], "second", "Second");
    one.commit(&[("RETRO_RUN_ID", "run-3")], "second", "fixup! Second");
    one.git_as(&RUN, &["-c", "rebase.backend=merge", "rebase", "-q", "-i", "--autosquash", "main"]);
    assert_eq!(one.message(), "Second\n\nRetro-Run: run-2", "what is moved stays whose it was");
    one.git(&["checkout", "-q", "-b", "picked", "main"]);
    one.git_as(&RUN, &["cherry-pick", "rebased"]);
    assert_eq!(one.message(), format!("Second\n\nRetro-Run: run-2\n{NAMED}"));
    one.git_as(&RUN, &["revert", "--no-edit", "HEAD"]);
    assert!(one.message().ends_with(&format!("\n\n{NAMED}")), "{}", one.message());
}

#[test]
fn values_that_are_no_names_are_left_out() {
    let one = Repository::with_hook();
    let long = "x".repeat(257);
    for bad in
        ["", " ", " run", "run ", "run\nRetro-Run: other", "run\n", "run\r", "a\u{7}b", "a\u{85}b", &long]
    {
        let run = [("RETRO_RUN_ID", bad), ("RETRO_WORKFLOW", "ship"), ("RETRO_PROMPT_VERSION", "4")];
        assert_eq!(
            one.commit(&run, "a", &format!("Run {}", bad.len())),
            format!("Run {}", bad.len()),
            "{bad:?}"
        );
    }
    let beside =
        [("RETRO_RUN_ID", "run-1"), ("RETRO_WORKFLOW", "a\nb"), ("RETRO_PROMPT_VERSION", "4\n\nEvil: 1")];
    assert_eq!(one.commit(&beside, "a", "Beside"), "Beside\n\nRetro-Run: run-1");
    let together = [("RETRO_RUN_ID", "run-1"), ("RETRO_WORKFLOW", &long[..252])];
    assert_eq!(one.commit(&together, "a", "Too long"), "Too long\n\nRetro-Run: run-1");
    // Nothing in a name is the shell's, sed's or git's business.
    let odd = r#"grün/$(touch owned) `x` "q" 'q' \n \1 a=b .*[ --"#;
    assert_eq!(one.commit(&[("RETRO_RUN_ID", odd)], "a", "Odd"), format!("Odd\n\nRetro-Run: {odd}"));
    one.git_as(&[("RETRO_RUN_ID", odd)], &["commit", "-q", "--amend", "--no-edit"]);
    assert_eq!(one.message(), format!("Odd\n\nRetro-Run: {odd}"));
    assert!(!one.path("owned").exists());
}

#[test]
fn a_commit_that_was_given_up_stays_so_and_none_is_stopped() {
    let one = Repository::with_hook();
    fs::write(one.path("a"), "a").expect("it can be written");
    one.git(&["add", "a"]);
    fs::write(one.path("template"), "Subject\n\nRetro-Why:\n").expect("it can be written");
    for given_up in [&["commit"][..], &["commit", "-v"], &["commit", "-m", ""], &["commit", "-t", "template"]]
    {
        let done = one.try_git(&RUN, given_up);
        assert!(!done.status.success(), "{given_up:?} was aborted before, too: {done:?}");
        assert_eq!(one.message(), "First");
    }
    one.git_as(&RUN, &["commit", "-q", "-v", "-e", "-m", "With its difference"]);
    assert_eq!(one.message(), format!("With its difference\n\n{NAMED}"));
    // Git that cannot do what is asked of it, inside the hook alone.
    let tools = one.path("tools");
    fs::create_dir(&tools).expect("a folder");
    write_hook(&tools.join("git"), "#!/bin/sh\necho broken >&2\nexit 129\n");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").expect("UTF-8"));
    let script = one.text(HOOK).replacen("name_run \"$1\"", &format!("PATH={path}\nname_run \"$1\""), 1);
    one.foreign(HOOK, &script);
    assert_eq!(one.commit(&RUN, "a", "All the same"), "All the same");
}

#[test]
fn a_hook_of_somebody_elses_is_kept_and_runs_first() {
    let one = Repository::new();
    let foreign = "#!/bin/sh\n[ -z \"$REFUSE\" ] || exit 1\necho 'Seen: by ours' >>\"$1\"\n";
    one.foreign(HOOK, foreign);
    let refused = one.retro(&[]);
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("was not installed by retro and was left unchanged; --chain keeps it"), "{told}");
    assert_eq!(one.text(HOOK), foreign);
    assert_eq!(one.hook(&["--uninstall"])["did"], "was_not_installed");
    assert_eq!(one.text(HOOK), foreign);

    let chained = one.hook(&["--chain"]);
    assert_eq!(chained["did"], "installed");
    assert!(chained["chained"].as_str().expect("a path").ends_with("prepare-commit-msg.before-retro"));
    assert_eq!(one.hook(&["--chain"])["did"], "was_installed");
    assert_eq!(one.commit(&RUN, "a", "Both"), format!("Both\nSeen: by ours\n\n{NAMED}"));
    let stopped = one.try_git(&[("REFUSE", "1")], &["commit", "--allow-empty", "-m", "Refused"]);
    assert!(!stopped.status.success(), "what it refuses is refused");
    assert_eq!(one.hook(&["--uninstall"])["did"], "removed");
    assert_eq!(one.text(HOOK), foreign);

    // Ours with a line of somebody's is theirs.
    fs::remove_file(one.path(HOOK)).expect("it is there");
    one.hook(&[]);
    let changed = one.text(HOOK) + "make lint\n";
    one.foreign(HOOK, &changed);
    assert_eq!(one.retro(&[]).status.code(), Some(1));
    assert_eq!(one.hook(&["--uninstall"])["did"], "was_not_installed");
    assert_eq!(one.text(HOOK), changed);
}

#[test]
fn the_hook_goes_where_git_looks_for_it() {
    let one = Repository::new();
    one.git(&["worktree", "add", "-q", "tree"]);
    let tree = one.path("tree");
    let done = one.hook(&["--repository", tree.to_str().expect("UTF-8")]);
    assert_eq!(done["did"], "installed");
    assert_eq!(one.hook(&[])["did"], "was_installed", "working trees share their hooks");
    one.git_as(&RUN, &["-C", "tree", "commit", "-q", "--allow-empty", "-m", "There"]);
    assert_eq!(one.git(&["-C", "tree", "log", "-1", "--format=%B"]), format!("There\n\n{NAMED}"));
    assert_eq!(one.hook(&["--uninstall"])["did"], "removed");
    assert!(!one.path(HOOK).exists());

    one.git(&["config", "core.hooksPath", ".hooks"]);
    assert_eq!(one.hook(&[])["did"], "installed");
    assert!(one.path(".hooks/prepare-commit-msg").exists());
    assert_eq!(one.commit(&RUN, "a", "Here"), format!("Here\n\n{NAMED}"));

    one.git(&["config", "core.hooksPath", "/dev/null"]);
    let nowhere = one.retro(&[]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("core.hooksPath"), "{nowhere:?}");
    let outside = TempDir::new().expect("a temporary folder can be made");
    let outside = one.retro(&["--repository", outside.path().to_str().expect("UTF-8")]);
    assert_eq!(outside.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&outside.stderr).contains("not a git repository"), "{outside:?}");
}

#[tokio::test]
async fn the_bridge_reads_what_the_hook_writes() {
    let one = Repository::with_hook();
    one.commit(&RUN, "a", "Mend it\n\nSigned-off-by: A <a@example.org>");
    one.git_as(&[("RETRO_RUN_ID", "grün 2")], &["commit", "-q", "--amend", "--no-edit"]);
    let mut world = World::empty();
    world.up_with(&BRIDGED).await;
    let mut push = real("push", "push");
    push["commits"][0]["id"] = json!(one.git(&["rev-parse", "HEAD"]));
    push["commits"][0]["message"] = json!(one.message());
    assert_eq!(world.webhook(&Webhook::new("push", "push", &push)).await.0, 202);
    let events = world.github_events().await;
    let commit = &events[0]["data"]["commits"][0];
    assert_eq!(
        (&commit["runs"], &commit["prompt_version"]),
        (&json!(["ship/run-17", "grün 2"]), &json!("4"))
    );
    world.stop().await;
}
