//! Reads worlds with the binary, as the author of a world does.

use std::path::Path;
use std::process::{Command, Output};

fn check_world(folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retro-loop"))
        .args(["--check", "--world"])
        .arg(folder)
        .output()
        .expect("the binary of this crate can be started")
}

#[test]
fn the_check_accepts_a_world_and_says_where_a_key_is_unknown() {
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/small");
    let checked = check_world(&small);
    assert!(checked.status.success() && String::from_utf8_lossy(&checked.stdout).starts_with("small: "));

    let folder = tempfile::tempdir().unwrap();
    let world = folder.path().join("wrong");
    std::fs::create_dir(&world).unwrap();
    for file in std::fs::read_dir(&small).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), world.join(file.file_name())).unwrap();
    }
    let text = std::fs::read_to_string(small.join("release.toml")).unwrap();
    let line = text.lines().position(|line| line.starts_with("chance")).unwrap() + 1;
    std::fs::write(world.join("release.toml"), text.replacen("chance", "chnce", 1)).unwrap();
    let checked = check_world(&world);
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(!checked.status.success());
    assert!(said.contains(&format!("release.toml:{line}: unknown field `chnce`")), "{said}");
}
