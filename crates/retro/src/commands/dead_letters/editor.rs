//! Opens a dead letter in the operator's editor. The exact bytes are in a file that only the operator can
//! read and that is deleted after editing.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use retro_core::id::DeadLetterId;
use retro_operator::EditService;

use super::super::command_context::{CommandContext, print_found};
use super::refusal::report_refusal;
use crate::cli::EditDeadLetter;
use crate::exit::Exit;

/// Lets the operator edit a version and returns its number and the new payload, or the exit of the command if
/// there is no new payload. The access to the exact bytes is recorded before the editor opens.
pub(super) async fn edit_payload(
    context: &CommandContext<'_>,
    service: &EditService,
    id: DeadLetterId,
    args: &EditDeadLetter,
) -> anyhow::Result<Result<(u32, Vec<u8>), Exit>> {
    let editor = std::env::var_os("VISUAL").or_else(|| std::env::var_os("EDITOR"));
    let editor =
        editor.context("nothing to edit with: give --set PATH=VALUE or --file FILE, or set $EDITOR")?;
    let found = service.read_raw(context.tenant, id, args.from, &args.act.by, &args.act.reason).await;
    let Some(found) = report_refusal(found)? else { return Ok(Err(Exit::ProblemFound)) };
    let Some(exact) = found else {
        return Ok(Err(print_found(context, None::<()>, "dead letter", &id, |()| String::new())?));
    };
    let path = std::env::temp_dir().join(format!("dead-letter-{}-{}.json", id, std::process::id()));
    let file = TempFile::create(&path, &exact.decode_payload())
        .with_context(|| describe_file_error(&path, "written"))?;
    // The shell splits $EDITOR, as in other programs. The file is passed as an argument, so its name is never
    // parsed.
    let status = Command::new("sh").arg("-c").arg("$0 \"$1\"").arg(&editor).arg(&file.0).status();
    ensure!(
        status.context("cannot run a shell for $EDITOR")?.success(),
        "the editor failed: no version was created"
    );
    let payload = std::fs::read(&file.0).with_context(|| describe_file_error(&file.0, "read"))?;
    Ok(Ok((exact.version, payload)))
}

fn describe_file_error(file: &Path, what: &str) -> String {
    format!("{} cannot be {what}", file.display())
}

/// Path of a temporary file, which is deleted on drop.
struct TempFile(PathBuf);

impl TempFile {
    /// Creates the file, which only the operator can read. Fails if something with this name exists already,
    /// and leaves that alone.
    fn create(path: &Path, content: &[u8]) -> io::Result<Self> {
        // `create_new` fails on a file or link that someone else has planted in the temporary folder.
        let mut created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        // The guard exists only from here on, or it would delete the file of someone else after a failure.
        let file = Self(path.to_owned());
        created.write_all(content)?;
        Ok(file)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_is_deleted_but_never_the_file_of_someone_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dead-letter.json");
        let file = TempFile::create(&path, b"secret").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"secret", "positive control");
        drop(file);
        assert!(!path.exists());
        std::fs::write(&path, "of someone else").unwrap();
        assert!(TempFile::create(&path, b"secret").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"of someone else");
    }
}
