//! Gives cargo the same environment whether it is called by xtask or from a shell.

use std::env::vars_os;
use std::process::Command;

/// Removes the variables by which `cargo run` describes xtask. The build script of ring depends on them, so cargo would
/// compile ring, and everything that uses it, again whenever it is called from xtask and then from a shell.
pub(super) fn remove_package_variables(command: &mut Command) {
    for (name, _) in vars_os() {
        let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if name.to_str().is_some_and(|name| of_package.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(&name);
        }
    }
}
