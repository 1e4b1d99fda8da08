//! The server's configuration file, generated. It holds the credential: the server has no other way to get it that others
//! on the machine could not watch.

use std::path::Path;

use super::credential::{Credential, USER};

/// The server's own log is cut here and three older ones are kept: enough to see why it died.
const LOG_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The text of the configuration. Loopback only, and only for whoever has the credential; every publication is on disk before
/// it is acknowledged.
pub(super) fn text(
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
        log = quoted(log),
        password = credential.password(),
        store = quoted(store),
    )
}

fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_loopback_only_takes_one_user_and_syncs_every_write() {
        let folder = tempfile::tempdir().unwrap();
        let credential = Credential::load_or_generate(folder.path()).unwrap();
        let text = text(Path::new("/data/a \"b\"/store"), Path::new("/data/log"), 4222, 8222, &credential);
        let user =
            format!("authorization {{\n  user: retro\n  password: \"{}\"\n}}\n", credential.password());
        assert!(text.contains(&user), "{text}");
        assert!(text.contains("listen: \"127.0.0.1:4222\"\n"), "{text}");
        assert!(text.contains("http: \"127.0.0.1:8222\"\n"), "{text}");
        assert!(text.contains("sync_interval: always\n"), "{text}");
        assert!(text.contains(r#"store_dir: "/data/a \"b\"/store""#), "{text}");
    }
}
