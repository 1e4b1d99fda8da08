//! Runs `retro pipeline revert`.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use retro_config::pipeline_files::{prompts_folder, settings_file};
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
    let kept = folder.join(format!("replaced-{}", act.at.strftime("%Y%m%dT%H%M%S%3fZ")));
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
    files
}

/// Returns the paths of all files that a version of a pipeline may have.
fn list_places(pipeline: PipelineName) -> Vec<String> {
    let prompts = Pipeline::default().explain_prompts_of(pipeline).into_iter();
    let folder = prompts_folder(pipeline);
    prompts
        .map(|prompt| format!("{folder}/{}", prompt.file))
        .chain([settings_file(pipeline).to_owned()])
        .collect()
}

/// Fails if a file or folder that is to be replaced is a symbolic link: what it leads to belongs to somebody else, or is
/// replaced by whoever made the link.
fn refuse_links(folder: &Path, pipeline: PipelineName) -> anyhow::Result<()> {
    let mut places: Vec<PathBuf> = list_places(pipeline).iter().map(|path| folder.join(path)).collect();
    places.extend([folder.join(pipeline.as_str()), folder.join(prompts_folder(pipeline))]);
    match places.iter().find(|place| place.is_symlink()) {
        None => Ok(()),
        Some(link) => {
            bail!("{} is a symbolic link, so nothing was written; change what it leads to", link.display())
        }
    }
}

/// Replaces the files of a pipeline in a folder and returns those that were there, which are moved into `kept`. Other files,
/// such as cases, are left alone.
fn replace_files(
    folder: &Path,
    kept: &Path,
    pipeline: PipelineName,
    files: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<String>> {
    let there: Vec<String> =
        list_places(pipeline).into_iter().filter(|path| folder.join(path).is_file()).collect();
    for path in &there {
        let copy = kept.join(path);
        create_parent(&copy)?;
        fs::copy(folder.join(path), &copy).with_context(|| format!("cannot write {}", copy.display()))?;
    }
    for path in there.iter().filter(|path| !files.contains_key(*path)) {
        fs::remove_file(folder.join(path)).with_context(|| format!("cannot remove {path}"))?;
    }
    for (path, text) in files {
        write_file(&folder.join(path), text)?;
    }
    Ok(there)
}

/// Writes a file beside its place and renames it, so that no process reads half of it.
fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let is_new_folder = path.parent().is_some_and(|parent| !parent.exists());
    create_parent(path)?;
    if let Some(parent) = path.parent().filter(|_| is_new_folder) {
        fs::set_permissions(parent, Permissions::from_mode(FOLDER_MODE))
            .with_context(|| format!("cannot write {}", parent.display()))?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    fs::write(&beside, text).with_context(|| format!("cannot write {}", beside.display()))?;
    // The program writes its data for itself alone; a pipeline is read by processes of other users, too.
    let mode = fs::metadata(path).map_or(FILE_MODE, |replaced| replaced.permissions().mode());
    fs::set_permissions(&beside, Permissions::from_mode(mode))
        .with_context(|| format!("cannot write {}", beside.display()))?;
    fs::rename(&beside, path).with_context(|| format!("cannot write {}", path.display()))
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

    #[test]
    fn what_is_replaced_is_kept_and_what_the_version_did_not_have_is_removed() {
        let folder = tempfile::TempDir::new().unwrap();
        let place = |path: &str| folder.path().join(path);
        for (path, text) in [
            (POLICY_FILE, "new"),
            ("retrospective/prompts/run.md", "new"),
            ("retrospective/cases/a.toml", "a"),
        ] {
            write_file(&place(path), text).unwrap();
        }
        let files = [(POLICY_FILE.to_owned(), "old".to_owned())].into();
        let kept = place("replaced");
        let replaced = replace_files(folder.path(), &kept, NAME, &files).unwrap();
        assert_eq!(replaced, ["retrospective/prompts/run.md", POLICY_FILE]);
        assert_eq!(fs::read_to_string(place(POLICY_FILE)).unwrap(), "old");
        assert!(
            !place("retrospective/prompts/run.md").exists() && place("retrospective/cases/a.toml").exists()
        );
        assert_eq!(fs::read_to_string(kept.join("retrospective/prompts/run.md")).unwrap(), "new");
        assert_eq!(fs::read_to_string(kept.join(POLICY_FILE)).unwrap(), "new");
    }

    #[test]
    fn a_version_of_the_built_in_pipeline_writes_no_prompt_that_is_still_shipped() {
        let built_in = Pipeline::default();
        let mut contents = built_in.version().contents().clone();
        assert_eq!(collect_files(NAME, &contents).keys().collect::<Vec<_>>(), [POLICY_FILE]);
        contents.prompts.insert("system.md".to_owned(), "Shipped by an earlier version.".to_owned());
        let files = collect_files(NAME, &contents);
        assert_eq!(files["retrospective/prompts/system.md"], "Shipped by an earlier version.");
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
