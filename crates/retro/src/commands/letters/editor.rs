//! A letter in a person's own editor: the exact bytes in a file that only they can read, for as long as they edit it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use retro_operator::Mending;

use super::super::Exit;
use super::super::read::{Asked, shown};
use super::refused;
use crate::cli::EditLetter;

/// The version that a person edited and what they made of its payload, or how the command ends without it. That they read it is written down first.
pub(super) async fn edited(
    asked: &Asked<'_>,
    mending: &Mending,
    args: &EditLetter,
) -> anyhow::Result<Result<(u32, Vec<u8>), Exit>> {
    let editor = std::env::var_os("VISUAL").or_else(|| std::env::var_os("EDITOR"));
    let editor = editor.context("say what is to be another: --set PATH=VALUE, --file FILE, or $EDITOR")?;
    let found = mending.exact(asked.tenant, args.id, args.from, &args.act.by, &args.act.reason).await;
    let Some(found) = refused(found)? else { return Ok(Err(Exit::NotInOrder)) };
    let Some(exact) = found else {
        return Ok(Err(shown(asked, None::<()>, "dead letter", &args.id, |()| String::new())?));
    };
    let file =
        Kept(std::env::temp_dir().join(format!("dead-letter-{}-{}.json", args.id, std::process::id())));
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file.0);
    made.and_then(|mut made| made.write_all(&exact.payload())).with_context(|| cannot(&file.0, "written"))?;
    // As every program does it: the words of $EDITOR are a shell's, the file is an argument.
    let status = Command::new("sh").arg("-c").arg("$0 \"$1\"").arg(&editor).arg(&file.0).status();
    ensure!(status.context("no shell for $EDITOR")?.success(), "the editor failed: no version was made");
    let payload = std::fs::read(&file.0).with_context(|| cannot(&file.0, "read"))?;
    Ok(Ok((exact.version, payload)))
}

fn cannot(file: &Path, what: &str) -> String {
    format!("{} cannot be {what}", file.display())
}

/// A file that goes with its value.
struct Kept(PathBuf);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
