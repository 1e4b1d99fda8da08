//! Tests commits that name the run that made them, in real repositories, from git's message to the bridge's
//! event.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{BRIDGE_ENV, RETRO, Webhook, World, json_items, load_payload};

const HOOK_PATH: &str = ".git/hooks/prepare-commit-msg";
/// Environment variables that an agent's harness sets for a run.
const RUN_ENV: [(&str, &str); 3] =
    [("RETRO_RUN_ID", "run-17"), ("RETRO_WORKFLOW", "ship"), ("RETRO_PROMPT_VERSION", "4")];
const TRAILERS: &str = "Retro-Run: ship/run-17\nRetro-Prompt-Version: 4";

/// A repository with one commit and without any user's git configuration.
struct Repository {
    folder: TempDir,
}

impl Repository {
    fn new() -> Self {
        let repository = Self { folder: TempDir::new().expect("a temporary folder can be made") };
        repository.run_git(&["init", "-q", "-b", "main"]);
        repository.run_git(&["commit", "-q", "--allow-empty", "-m", "First"]);
        repository
    }

    fn with_hook() -> Self {
        let repository = Self::new();
        assert_eq!(repository.run_install_hook(&[])["status"], "installed");
        repository
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").expect("PATH finds git"));
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
        git.envs(environment.iter().copied()).output().expect("git is installed")
    }

    #[track_caller]
    fn git_with_env(&self, environment: &[(&str, &str)], arguments: &[&str]) -> String {
        let done = self.try_git(environment, arguments);
        assert!(done.status.success(), "git {arguments:?}: {done:?}");
        String::from_utf8(done.stdout).expect("UTF-8").trim_end().to_owned()
    }

    #[track_caller]
    fn run_git(&self, arguments: &[&str]) -> String {
        self.git_with_env(&[], arguments)
    }

    /// Commits a change to this file and returns the commit message.
    #[track_caller]
    fn commit_file(&self, environment: &[(&str, &str)], file: &str, message: &str) -> String {
        fs::write(self.path(file), message).expect("a writable file");
        self.run_git(&["add", "--", file]);
        self.git_with_env(environment, &["commit", "-q", "--allow-empty", "-m", message]);
        self.last_message()
    }

    fn last_message(&self) -> String {
        self.run_git(&["log", "-1", "--format=%B"])
    }

    fn try_install_hook(&self, arguments: &[&str]) -> Output {
        let whole = [&["git", "install-hook", "-o", "json"], arguments].concat();
        self.command(RETRO, &whole).output().expect("the program is built")
    }

    /// Runs `retro git install-hook` with these arguments and returns its JSON output.
    #[track_caller]
    fn run_install_hook(&self, arguments: &[&str]) -> Value {
        let done = self.try_install_hook(arguments);
        assert!(done.status.success(), "{done:?}");
        serde_json::from_slice(&done.stdout).expect("JSON")
    }

    /// Writes another tool's hook.
    fn write_foreign_hook(&self, at: &str, script: &str) {
        write_hook(&self.path(at), script);
    }

    fn read_file(&self, at: &str) -> String {
        fs::read_to_string(self.path(at)).unwrap_or_else(|error| panic!("{at}: {error}"))
    }
}

fn write_hook(path: &Path, script: &str) {
    fs::write(path, script).expect("a writable file");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("our own file");
}

#[test]
fn the_hook_names_the_run_once_whatever_is_done_to_the_commit() {
    let repository = Repository::with_hook();
    assert_eq!(
        repository.commit_file(&[], "a", "By a person"),
        "By a person",
        "without a run the hook does nothing"
    );
    // The subject looks like a trailer, and the body like the end of a patch.
    assert_eq!(
        repository.commit_file(&RUN_ENV, "a", "fix: one line"),
        format!("fix: one line\n\n{TRAILERS}")
    );
    let body = "Mend it\n\nOnce\n---\nand again.\n\nSigned-off-by: A <a@example.org>";
    assert_eq!(repository.commit_file(&RUN_ENV, "a", body), format!("{body}\n{TRAILERS}"));

    repository.git_with_env(&RUN_ENV, &["commit", "-q", "--amend", "--no-edit"]);
    assert_eq!(
        repository.last_message(),
        format!("{body}\n{TRAILERS}"),
        "an amended commit already names the run"
    );
    let other = [("RETRO_RUN_ID", "run-18")];
    repository.git_with_env(&other, &["commit", "-q", "--amend", "--no-edit", "--no-verify"]);
    assert_eq!(
        repository.last_message(),
        format!("{body}\n{TRAILERS}\nRetro-Run: run-18"),
        "a second run adds its trailer"
    );
    let squashed = format!("All of it (#7)\n\n* One\n\n{TRAILERS}\n\n* Two");
    assert_eq!(
        repository.commit_file(&RUN_ENV, "a", &squashed),
        squashed,
        "a run named in any line is not repeated"
    );
}

#[test]
fn merges_and_cherry_picks_name_the_run_that_made_them_and_rebases_do_not() {
    let repository = Repository::with_hook();
    repository.run_git(&["checkout", "-q", "-b", "side"]);
    repository.commit_file(&[("RETRO_RUN_ID", "run-1")], "side", "Side");
    repository.run_git(&["checkout", "-q", "main"]);
    repository.commit_file(&[], "main", "Main");
    repository.git_with_env(&RUN_ENV, &["merge", "-q", "--no-edit", "side"]);
    assert_eq!(repository.last_message(), format!("Merge branch 'side'\n\n{TRAILERS}"));

    repository.run_git(&["checkout", "-q", "-b", "rebased", "side"]);
    repository.commit_file(&[("RETRO_RUN_ID", "run-2")], "second", "Second");
    repository.commit_file(&[("RETRO_RUN_ID", "run-3")], "second", "fixup! Second");
    repository.git_with_env(
        &RUN_ENV,
        &["-c", "rebase.backend=merge", "rebase", "-q", "-i", "--autosquash", "main"],
    );
    assert_eq!(repository.last_message(), "Second\n\nRetro-Run: run-2", "a rebased commit keeps its run");
    repository.run_git(&["checkout", "-q", "-b", "picked", "main"]);
    repository.git_with_env(&RUN_ENV, &["cherry-pick", "rebased"]);
    assert_eq!(repository.last_message(), format!("Second\n\nRetro-Run: run-2\n{TRAILERS}"));
    repository.git_with_env(&RUN_ENV, &["revert", "--no-edit", "HEAD"]);
    assert!(repository.last_message().ends_with(&format!("\n\n{TRAILERS}")), "{}", repository.last_message());
}

#[test]
fn invalid_names_are_left_out() {
    let repository = Repository::with_hook();
    let long = "x".repeat(257);
    for bad in
        ["", " ", " run", "run ", "run\nRetro-Run: other", "run\n", "run\r", "a\u{7}b", "a\u{85}b", &long]
    {
        let run = [("RETRO_RUN_ID", bad), ("RETRO_WORKFLOW", "ship"), ("RETRO_PROMPT_VERSION", "4")];
        assert_eq!(
            repository.commit_file(&run, "a", &format!("Run {}", bad.len())),
            format!("Run {}", bad.len()),
            "{bad:?}"
        );
    }
    let beside =
        [("RETRO_RUN_ID", "run-1"), ("RETRO_WORKFLOW", "a\nb"), ("RETRO_PROMPT_VERSION", "4\n\nEvil: 1")];
    assert_eq!(repository.commit_file(&beside, "a", "Beside"), "Beside\n\nRetro-Run: run-1");
    let together = [("RETRO_RUN_ID", "run-1"), ("RETRO_WORKFLOW", &long[..252])];
    assert_eq!(repository.commit_file(&together, "a", "Too long"), "Too long\n\nRetro-Run: run-1");
    // No character of a name is interpreted by the shell, sed or git.
    let odd = r#"grün/$(touch owned) `x` "q" 'q' \n \1 a=b .*[ --"#;
    assert_eq!(
        repository.commit_file(&[("RETRO_RUN_ID", odd)], "a", "Odd"),
        format!("Odd\n\nRetro-Run: {odd}")
    );
    repository.git_with_env(&[("RETRO_RUN_ID", odd)], &["commit", "-q", "--amend", "--no-edit"]);
    assert_eq!(repository.last_message(), format!("Odd\n\nRetro-Run: {odd}"));
    assert!(!repository.path("owned").exists());
}

#[test]
fn an_aborted_commit_stays_aborted_and_no_commit_is_blocked() {
    let repository = Repository::with_hook();
    fs::write(repository.path("a"), "a").expect("a writable file");
    repository.run_git(&["add", "a"]);
    fs::write(repository.path("template"), "Subject\n\nRetro-Why:\n").expect("a writable file");
    for given_up in [&["commit"][..], &["commit", "-v"], &["commit", "-m", ""], &["commit", "-t", "template"]]
    {
        let done = repository.try_git(&RUN_ENV, given_up);
        assert!(!done.status.success(), "{given_up:?} is aborted without the hook, too: {done:?}");
        assert_eq!(repository.last_message(), "First");
    }
    repository.git_with_env(&RUN_ENV, &["commit", "-q", "-v", "-e", "-m", "With its difference"]);
    assert_eq!(repository.last_message(), format!("With its difference\n\n{TRAILERS}"));
    // A broken git, only inside the hook.
    let tools = repository.path("tools");
    fs::create_dir(&tools).expect("a folder");
    write_hook(&tools.join("git"), "#!/bin/sh\necho broken >&2\nexit 129\n");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").expect("UTF-8"));
    let script = repository.read_file(HOOK_PATH).replacen(
        "name_run \"$1\"",
        &format!("PATH={path}\nname_run \"$1\""),
        1,
    );
    repository.write_foreign_hook(HOOK_PATH, &script);
    assert_eq!(repository.commit_file(&RUN_ENV, "a", "All the same"), "All the same");
}

#[test]
fn an_existing_hook_is_kept_and_runs_first() {
    let repository = Repository::new();
    let foreign = "#!/bin/sh\n[ -z \"$REFUSE\" ] || exit 1\necho 'Seen: by ours' >>\"$1\"\n";
    repository.write_foreign_hook(HOOK_PATH, foreign);
    let refused = repository.try_install_hook(&[]);
    assert_eq!(refused.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        stderr.contains("was not installed by retro and was left unchanged; --chain keeps it"),
        "{stderr}"
    );
    assert_eq!(repository.read_file(HOOK_PATH), foreign);
    assert_eq!(repository.run_install_hook(&["--uninstall"])["status"], "not_installed");
    assert_eq!(repository.read_file(HOOK_PATH), foreign);

    let chained = repository.run_install_hook(&["--chain"]);
    assert_eq!(chained["status"], "installed");
    assert!(chained["chained"].as_str().expect("a path").ends_with("prepare-commit-msg.before-retro"));
    assert_eq!(repository.run_install_hook(&["--chain"])["status"], "already_installed");
    assert_eq!(repository.commit_file(&RUN_ENV, "a", "Both"), format!("Both\nSeen: by ours\n\n{TRAILERS}"));
    let stopped = repository.try_git(&[("REFUSE", "1")], &["commit", "--allow-empty", "-m", "Refused"]);
    assert!(!stopped.status.success(), "the existing hook can still refuse");
    assert_eq!(repository.run_install_hook(&["--uninstall"])["status"], "removed");
    assert_eq!(repository.read_file(HOOK_PATH), foreign);

    // If a line was added to our hook, it counts as the user's.
    fs::remove_file(repository.path(HOOK_PATH)).expect("the hook exists");
    repository.run_install_hook(&[]);
    let changed = repository.read_file(HOOK_PATH) + "make lint\n";
    repository.write_foreign_hook(HOOK_PATH, &changed);
    assert_eq!(repository.try_install_hook(&[]).status.code(), Some(1));
    assert_eq!(repository.run_install_hook(&["--uninstall"])["status"], "not_installed");
    assert_eq!(repository.read_file(HOOK_PATH), changed);
}

#[test]
fn the_hook_is_installed_where_git_looks_for_it() {
    let repository = Repository::new();
    repository.run_git(&["worktree", "add", "-q", "tree"]);
    let tree = repository.path("tree");
    let done = repository.run_install_hook(&["--repository", tree.to_str().expect("UTF-8")]);
    assert_eq!(done["status"], "installed");
    assert_eq!(
        repository.run_install_hook(&[])["status"],
        "already_installed",
        "working trees share their hooks"
    );
    repository.git_with_env(&RUN_ENV, &["-C", "tree", "commit", "-q", "--allow-empty", "-m", "There"]);
    assert_eq!(
        repository.run_git(&["-C", "tree", "log", "-1", "--format=%B"]),
        format!("There\n\n{TRAILERS}")
    );
    assert_eq!(repository.run_install_hook(&["--uninstall"])["status"], "removed");
    assert!(!repository.path(HOOK_PATH).exists());

    repository.run_git(&["config", "core.hooksPath", ".hooks"]);
    assert_eq!(repository.run_install_hook(&[])["status"], "installed");
    assert!(repository.path(".hooks/prepare-commit-msg").exists());
    assert_eq!(repository.commit_file(&RUN_ENV, "a", "Here"), format!("Here\n\n{TRAILERS}"));

    repository.run_git(&["config", "core.hooksPath", "/dev/null"]);
    let nowhere = repository.try_install_hook(&[]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("core.hooksPath"), "{nowhere:?}");
    let outside = TempDir::new().expect("a temporary folder can be made");
    let outside = repository.try_install_hook(&["--repository", outside.path().to_str().expect("UTF-8")]);
    assert_eq!(outside.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&outside.stderr).contains("not a git repository"), "{outside:?}");
}

#[tokio::test]
async fn the_bridge_reads_what_the_hook_writes() {
    let repository = Repository::with_hook();
    repository.commit_file(&RUN_ENV, "a", "Mend it\n\nSigned-off-by: A <a@example.org>");
    repository.git_with_env(&[("RETRO_RUN_ID", "grün 2")], &["commit", "-q", "--amend", "--no-edit"]);
    let mut world = World::empty();
    world.up_with_env(&BRIDGE_ENV).await;
    let mut push = load_payload("push", "push");
    push["commits"][0]["id"] = json!(repository.run_git(&["rev-parse", "HEAD"]));
    push["commits"][0]["message"] = json!(repository.last_message());
    assert_eq!(world.post_webhook(&Webhook::new("push", "push", &push)).await.0, 202);
    let events = world.list_github_events().await;
    let commit = &events[0]["data"]["commits"][0];
    assert_eq!(
        (&commit["runs"], &commit["prompt_version"]),
        (&json!(["ship/run-17", "grün 2"]), &json!("4"))
    );
    let run = |id: &str, extra: Value| {
        let mut data = json!({"workflow": "ship", "run_id": id, "outcome": "success"});
        data.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        json!({"specversion": "1.0", "id": id, "source": "https://engine.test",
               "type": "dev.retrospect.run.completed.v1", "data": data})
    };
    let runs =
        [run("run-17", json!({})), run("run-18", json!({"prompt_version": "5", "outcome": "failure"}))];
    world.emit_and_wait("acme", "runs.jsonl", &runs).await;
    let versions = world
        .wait_for("the commit is known to belong to the run", async || {
            let table =
                world.run_json(&["--tenant", "acme", "workflows", "prompts", "ship"]).await["versions"]
                    .take();
            json_items(&table).iter().all(|row| row["version"].is_string()).then_some(table)
        })
        .await;
    let ends_of = |version: &str| {
        let row = json_items(&versions).iter().find(|row| row["version"] == version).expect("the version");
        (row["succeeded"].as_u64(), row["failed"].as_u64())
    };
    assert_eq!((ends_of("4"), ends_of("5")), ((Some(1), Some(0)), (Some(0), Some(1))), "{versions}");
    let only = world.run_json(&["--tenant", "acme", "runs", "list", "--prompt-version", "5"]).await;
    assert_eq!(json_items(&only).len(), 1, "{only}");
    let shown = world.run_retro(&["--tenant", "acme", "runs", "show", "run-17"]).await.out;
    assert!(shown.contains("prompt version (commits)"), "{shown}");
    world.stop().await;
}
