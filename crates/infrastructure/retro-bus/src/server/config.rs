//! Generates the server's configuration file. The credential is passed in this file, because other users of
//! the machine could see it in an argument.

use std::path::Path;

use super::credential::{Credential, USER};

/// Size at which the server rotates its log, in bytes. Three older files are kept, enough to see why the
/// server died.
const LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Renders the configuration file. The server listens on loopback only, accepts one user, and syncs each
/// message to disk before acknowledging it.
pub(super) fn render_config(
    store: &Path,
    log: &Path,
    port: u16,
    monitoring_port: u16,
    credential: &Credential,
) -> String {
    format!(
        "# Written at every start; changes are lost.\n\
         server_name: retrospect\n\
         listen: \"127.0.0.1:{port}\"\n\
         http: \"127.0.0.1:{monitoring_port}\"\n\
         log_file: {log}\n\
         logfile_size_limit: {LOG_BYTES_MAX}\n\
         logfile_max_num: 3\n\
         authorization {{\n  user: {USER}\n  password: \"{password}\"\n}}\n\
         jetstream {{\n  store_dir: {store}\n  sync_interval: always\n}}\n",
        log = quote_path(log),
        password = credential.password(),
        store = quote_path(store),
    )
}

fn quote_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_listens_on_loopback_accepts_one_user_and_syncs_every_write() {
        let folder = tempfile::tempdir().unwrap();
        let credential = Credential::load_or_generate(folder.path()).unwrap();
        let text =
            render_config(Path::new("/data/a \"b\"/store"), Path::new("/data/log"), 4222, 8222, &credential);
        let user =
            format!("authorization {{\n  user: retro\n  password: \"{}\"\n}}\n", credential.password());
        assert!(text.contains(&user), "{text}");
        assert!(text.contains("listen: \"127.0.0.1:4222\"\n"), "{text}");
        assert!(text.contains("http: \"127.0.0.1:8222\"\n"), "{text}");
        assert!(text.contains("sync_interval: always\n"), "{text}");
        assert!(text.contains(r#"store_dir: "/data/a \"b\"/store""#), "{text}");
    }
}
