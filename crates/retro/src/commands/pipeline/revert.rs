//! Runs `retro pipeline revert`.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use retro_config::pipeline_files::{
    REVERT_MARKER, list_prompt_folders, prompts_folder, settings_file, split_workflow_prompt,
};
use retro_config::{Config, Pipeline, PipelineFiles};
use retro_core::attribution::Attribution;
use retro_core::pipeline::{PipelineContents, PipelineName};
use retro_core::time::Clock as _;
use retro_store::PipelineRevert;
use serde_json::json;

use super::versions::{self, StoredVersion};
use crate::cli::RevertArgs;
use crate::clock::SystemClock;
use crate::commands::command_context::CommandContext;
use crate::commands::configuration::report_problems;
use crate::commands::dead_letters::redact_text;
use crate::exit::Exit;
use crate::{output, store};

/// Permissions of a file and of a folder that were not there before.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// Writes a stored version back into the configured folder, after keeping a copy of what it replaces. Nothing is written if
/// this program cannot read the version any more.
pub(super) async fn revert_pipeline(
    context: &CommandContext<'_>,
    config: &Config,
    args: &RevertArgs,
) -> anyhow::Result<Exit> {
    let Some(folder) = config.pipelines.as_deref() else {
        bail!(
            "`pipelines` is not set, so there is no folder to write; set it (or RETRO_PIPELINES) to a folder of yours"
        );
    };
    let stored = store::open_store(config).await?;
    let StoredVersion { pipeline: name, hash, contents } =
        versions::load_version(&*stored, context.tenant, &args.version).await?;
    let files = collect_files(name, &contents);
    let pipeline = match Pipeline::parse(folder, &PipelineFiles::from_texts(files.clone())) {
        Ok(pipeline) => pipeline,
        Err(problems) => return report_problems(context.output, problems.sentences()),
    };
    refuse_links(folder, name)?;
    let act =
        Attribution::new(&redact_text(&args.act.by), &redact_text(&args.act.reason), SystemClock.now())?;
    let kept = match read_marker(folder)? {
        // An interrupted revert has kept what was there before it, and what is there now is of two versions.
        Some(kept) => folder.join(kept),
        None => folder.join(format!("replaced-{}", act.at.strftime("%Y%m%dT%H%M%S%3fZ"))),
    };
    // Recorded first, so that no file changes without a name and a reason.
    let revert = PipelineRevert { hash: hash.clone(), act, folder: folder.display().to_string() };
    stored.record_pipeline_revert(context.tenant, &revert).await?;
    let replaced = replace_files(folder, &kept, name, &files)?;
    if let Err(problems) = Pipeline::read_folder(Some(folder)) {
        let problems = problems.sentences().join("; ");
        bail!(
            "the version was written, but the folder has other mistakes, so it does not take effect: {problems}"
        );
    }
    let result = &pipeline.version_of(name).hashes().pipeline;
    let data = json!({"version": hash, "result": result, "written": files.keys().collect::<Vec<_>>(),
        "replaced": replaced, "kept_in": (!replaced.is_empty()).then(|| kept.display().to_string())});
    output::print_data(context.output, &data, || {
        let mut lines: Vec<String> =
            files.keys().map(|path| format!("wrote {}", folder.join(path).display())).collect();
        let gone = replaced.iter().filter(|path| !files.contains_key(*path));
        lines.extend(gone.map(|path| format!("removed {}", folder.join(path).display())));
        if !replaced.is_empty() {
            lines.push(format!("kept what was there in {}", kept.display()));
        }
        lines.push(match result == &hash {
            true => format!("version {} is in the folder; running processes read it within seconds", hash.short()),
            false => format!(
                "the folder has version {}, not {}: this program has other defaults than the one that stored it",
                result.short(),
                hash.short()
            ),
        });
        lines.join("\n")
    })?;
    Ok(Exit::Done)
}

/// Returns the files of a version: its settings, and each prompt that its author wrote or that is not shipped any more.
fn collect_files(pipeline: PipelineName, contents: &PipelineContents) -> BTreeMap<String, String> {
    let written = |path: &str| contents.files.get(path).cloned();
    let path = settings_file(pipeline);
    let settings = written(path).unwrap_or_else(|| "# The defaults apply.\n".to_owned());
    let mut files = BTreeMap::from([(path.to_owned(), settings)]);
    for shipped in Pipeline::default().explain_prompts_of(pipeline) {
        let path = format!("{}/{}", prompts_folder(pipeline), shipped.file);
        let effective = contents.prompts.get(&shipped.file).filter(|text| **text != shipped.text).cloned();
        files.extend(written(&path).or(effective).map(|text| (path, text)));
    }
    let of_workflows = contents.files.iter().filter(|(path, _)| split_workflow_prompt(path).is_some());
    files.extend(of_workflows.map(|(path, text)| (path.clone(), text.clone())));
    files
}

/// Returns the paths of all files of a pipeline that the program reads or would read in a folder.
fn list_places(folder: &Path, pipeline: PipelineName) -> anyhow::Result<Vec<String>> {
    let (mut places, prompts) = (Vec::new(), Pipeline::default().explain_prompts_of(pipeline));
    for place in list_prompt_folders(folder, pipeline)? {
        places.extend(prompts.iter().map(|prompt| format!("{place}/{}", prompt.file)));
    }
    places.push(settings_file(pipeline).to_owned());
    Ok(places)
}

/// Fails if a file or folder that is to be replaced is a symbolic link: what it leads to belongs to somebody else, or is
/// replaced by whoever made the link.
fn refuse_links(folder: &Path, pipeline: PipelineName) -> anyhow::Result<()> {
    let mut places: Vec<PathBuf> =
        list_places(folder, pipeline)?.iter().map(|path| folder.join(path)).collect();
    places.push(folder.join(pipeline.as_str()));
    places.extend(list_prompt_folders(folder, pipeline)?.iter().map(|path| folder.join(path)));
    match places.iter().find(|place| place.is_symlink()) {
        None => Ok(()),
        Some(link) => {
            bail!("{} is a symbolic link, so nothing was written; change what it leads to", link.display())
        }
    }
}

/// Replaces the files of a pipeline in a folder and returns those that were there, which are copied into `kept`. Other files,
/// such as cases, are left alone.
///
/// All files are written beside their places first, so a full disk changes nothing. Then a marker is set, the files are renamed
/// into their places, and the marker is removed. As long as it stands, no process reads the folder: running ones keep the version
/// that they have, and none starts. After a crash in between, the same command completes the work.
fn replace_files(
    folder: &Path,
    kept: &Path,
    pipeline: PipelineName,
    files: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<String>> {
    let there: Vec<String> =
        list_places(folder, pipeline)?.into_iter().filter(|path| folder.join(path).is_file()).collect();
    let marker = folder.join(REVERT_MARKER);
    if !marker.exists() {
        for path in &there {
            let copy = kept.join(path);
            create_parent(&copy)?;
            fs::copy(folder.join(path), &copy).with_context(|| format!("cannot write {}", copy.display()))?;
        }
    }
    for (path, text) in files {
        write_beside(&folder.join(path), text)?;
    }
    let name = kept.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    put_file(&marker, &name)?;
    swap_files(folder, &there, files)
        .and_then(|()| {
            fs::remove_file(&marker).with_context(|| format!("cannot remove {}", marker.display()))
        })
        .context("the folder has files of two versions, and no process reads it; repeat the command")?;
    Ok(there)
}

/// Renames the new files into their places, and removes those that the version does not have.
fn swap_files(folder: &Path, there: &[String], files: &BTreeMap<String, String>) -> anyhow::Result<()> {
    for path in there.iter().filter(|path| !files.contains_key(*path)) {
        fs::remove_file(folder.join(path)).with_context(|| format!("cannot remove {path}"))?;
    }
    for path in files.keys() {
        let path = folder.join(path);
        fs::rename(path_beside(&path), &path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the name of the folder in which an interrupted revert has kept what was there; `None` if none was interrupted.
fn read_marker(folder: &Path) -> anyhow::Result<Option<String>> {
    let marker = folder.join(REVERT_MARKER);
    match fs::read_to_string(&marker) {
        Ok(kept) if !kept.is_empty() && !kept.contains('/') => Ok(Some(kept)),
        Ok(_) => bail!(
            "{} names no folder; delete it, and compare the files with a stored version",
            marker.display()
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", marker.display())),
    }
}

/// Writes a file beside its place, with the permissions of the one that it will replace.
fn write_beside(path: &Path, text: &str) -> anyhow::Result<()> {
    let is_new_folder = path.parent().is_some_and(|parent| !parent.exists());
    create_parent(path)?;
    if let Some(parent) = path.parent().filter(|_| is_new_folder) {
        fs::set_permissions(parent, Permissions::from_mode(FOLDER_MODE))
            .with_context(|| format!("cannot write {}", parent.display()))?;
    }
    let beside = path_beside(path);
    put_file(&beside, text)?;
    // The program writes its data for itself alone; a pipeline is read by processes of other users, too.
    let mode = fs::metadata(path).map_or(FILE_MODE, |replaced| replaced.permissions().mode());
    fs::set_permissions(&beside, Permissions::from_mode(mode))
        .with_context(|| format!("cannot write {}", beside.display()))
}

fn path_beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    PathBuf::from(beside)
}

/// Writes a file and waits until it is on the disk: a rename may otherwise survive a power failure that the text does not.
fn put_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn create_parent(path: &Path) -> anyhow::Result<()> {
    let parent = path.parent().context("a file of a pipeline is in a folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot write {}", parent.display()))
}

#[cfg(test)]
mod tests {
    use retro_config::policy_set::POLICY_FILE;

    use super::*;

    const NAME: PipelineName = PipelineName::Retrospective;

    fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
        write_beside(path, text)?;
        Ok(fs::rename(path_beside(path), path)?)
    }

    #[test]
    fn what_is_replaced_is_kept_and_what_the_version_did_not_have_is_removed() {
        let folder = tempfile::TempDir::new().unwrap();
        let place = |path: &str| folder.path().join(path);
        for (path, text) in [
            (POLICY_FILE, "new"),
            ("retrospective/prompts/run.md", "new"),
            ("retrospective/prompts/night/run.md", "new"),
            ("retrospective/cases/a.toml", "a"),
        ] {
            write_file(&place(path), text).unwrap();
        }
        let day = "retrospective/prompts/day/run.md";
        let files =
            [(POLICY_FILE, "old"), (day, "old")].map(|(path, text)| (path.to_owned(), text.to_owned()));
        let files = files.into();
        let kept = place("replaced");
        let replaced = replace_files(folder.path(), &kept, NAME, &files).unwrap();
        let own = "retrospective/prompts/night/run.md";
        assert_eq!(replaced, ["retrospective/prompts/run.md", own, POLICY_FILE]);
        assert_eq!((place(own).exists(), fs::read_to_string(place(day)).unwrap()), (false, "old".to_owned()));
        assert_eq!(fs::read_to_string(place(POLICY_FILE)).unwrap(), "old");
        assert!(
            !place("retrospective/prompts/run.md").exists() && place("retrospective/cases/a.toml").exists()
        );
        assert_eq!(fs::read_to_string(kept.join("retrospective/prompts/run.md")).unwrap(), "new");
        assert_eq!(fs::read_to_string(kept.join(POLICY_FILE)).unwrap(), "new");
    }

    #[test]
    fn a_revert_that_was_interrupted_is_read_by_nobody_and_completed_by_the_next() {
        let folder = tempfile::TempDir::new().unwrap();
        let (root, kept) = (folder.path(), folder.path().join("replaced-1"));
        let prompt = "retrospective/prompts/system.md";
        for (path, text) in [(POLICY_FILE, "[trigger]\nthreshold_runs = 3\n"), (prompt, "New.\n")] {
            write_file(&root.join(path), text).unwrap();
        }
        let old = [(POLICY_FILE, "[trigger]\nthreshold_runs = 2\n"), (prompt, "Old.\n")];
        let files: BTreeMap<_, _> = old.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        // A place of the last file that cannot be replaced stands for a crash: the first file is renamed already.
        let obstacle = root.join(prompt);
        fs::remove_file(&obstacle).unwrap();
        fs::create_dir_all(obstacle.join("x")).unwrap();
        let interrupted = format!("{:#}", replace_files(root, &kept, NAME, &files).unwrap_err());
        assert!(
            interrupted.contains("files of two versions") && interrupted.contains("repeat"),
            "{interrupted}"
        );
        assert!(fs::read_to_string(root.join(POLICY_FILE)).unwrap().contains("= 2"), "half of it is done");
        let refused = Pipeline::read_folder(Some(root)).unwrap_err().to_string();
        assert!(refused.contains(REVERT_MARKER) && refused.contains("repeat it"), "{refused}");
        fs::remove_dir_all(&obstacle).unwrap();
        assert_eq!(read_marker(root).unwrap().as_deref(), Some("replaced-1"), "what was there first is kept");
        replace_files(root, &kept, NAME, &files).unwrap();
        let read = Pipeline::read_folder(Some(root)).unwrap();
        assert_eq!(read.policies().common_policy().threshold_runs, 2);
        assert_eq!(read.explain_prompts(None)[0].text, "Old.\n");
        assert!(fs::read_to_string(kept.join(POLICY_FILE)).unwrap().contains("= 3"));
        assert_eq!(read_marker(root).unwrap(), None);
        fs::write(root.join(REVERT_MARKER), "").unwrap();
        assert!(read_marker(root).unwrap_err().to_string().contains("names no folder"));
    }

    #[test]
    fn a_version_of_the_built_in_pipeline_writes_no_prompt_that_is_still_shipped() {
        let built_in = Pipeline::default();
        let mut contents = built_in.version().contents().clone();
        assert_eq!(collect_files(NAME, &contents).keys().collect::<Vec<_>>(), [POLICY_FILE]);
        contents.prompts.insert("system.md".to_owned(), "Shipped by an earlier version.".to_owned());
        let files = collect_files(NAME, &contents);
        assert_eq!(files["retrospective/prompts/system.md"], "Shipped by an earlier version.");
        for path in ["retrospective/prompts/night/run.md", "retrospective/prompts/../../x.md"] {
            contents.files.insert(path.to_owned(), "own".to_owned());
        }
        let files = collect_files(NAME, &contents);
        assert_eq!(files["retrospective/prompts/night/run.md"], "own");
        assert!(!files.keys().any(|path| path.contains("..")), "no other place is written");
    }

    #[test]
    fn nothing_is_written_through_a_link_and_a_file_keeps_its_permissions() {
        let (folder, other) = (tempfile::TempDir::new().unwrap(), tempfile::TempDir::new().unwrap());
        let policy = folder.path().join(POLICY_FILE);
        write_file(&policy, "old").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&policy), mode(policy.parent().unwrap())), (FILE_MODE, FOLDER_MODE));
        fs::set_permissions(&policy, Permissions::from_mode(0o640)).unwrap();
        write_file(&policy, "new").unwrap();
        assert_eq!((mode(&policy), fs::read_to_string(&policy).unwrap()), (0o640, "new".to_owned()));
        assert!(refuse_links(folder.path(), NAME).is_ok());
        std::os::unix::fs::symlink(other.path(), folder.path().join(prompts_folder(NAME))).unwrap();
        let refused = refuse_links(folder.path(), NAME).unwrap_err().to_string();
        assert!(refused.contains("prompts is a symbolic link"), "{refused}");
    }
}
