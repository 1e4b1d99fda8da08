//! Names of the folders in which workflows have prompts of their own.

/// Maximum length of a name, in bytes, which every file system allows.
const BYTES_MAX: usize = 200;

/// Returns `true` if a folder of prompts may have this name. Hidden folders belong to editors and version control.
pub(crate) fn is_folder_name(name: &str) -> bool {
    let plain = |character: char| !character.is_control() && !matches!(character, '/' | '\\');
    !name.is_empty() && name.len() <= BYTES_MAX && !name.starts_with('.') && name.chars().all(plain)
}
