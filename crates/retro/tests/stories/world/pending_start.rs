//! Starts a `retro up` that cannot begin its work yet.

use super::process::BrokerProcess;
use super::{UpProcess, World, free_port};

impl World {
    /// Starts `retro up` without waiting for it and returns the address at which it already responds.
    pub(crate) fn up_without_waiting(&mut self) -> String {
        let http = format!("127.0.0.1:{}", free_port());
        let mut up =
            self.command(&["up", "--nats-port", &self.nats_port.to_string(), "--http-listen", &http]);
        let process = self.spawn_up(&mut up, &[]);
        let (nats_url, http_url) = (String::new(), format!("http://{http}"));
        self.up = Some(UpProcess { process, nats: None, nats_url, http_url: http_url.clone() });
        http_url
    }

    /// Waits until the program started by [`Self::up_without_waiting`] is up.
    pub(crate) async fn wait_until_up(&mut self, http_url: String) {
        let mut process = self.up.take().expect("the program was started").process;
        let instance = self.wait_for_instance(&mut process).await;
        assert_eq!(instance["http_url"], http_url);
        let nats_url = instance["nats_url"].as_str().expect("an address").to_owned();
        self.up = Some(UpProcess { process, nats: None, nats_url, http_url });
        let pid = self.pid();
        let nats = self.wait_for("the broker is running", async || BrokerProcess::find_child(pid)).await;
        self.up.as_mut().expect("a running process").nats = Some(nats);
    }

    /// Returns the status and body of a GET from that program, or `None` if it does not respond.
    pub(crate) async fn get_from(&self, http_url: &str, path: &str) -> Option<(u16, String)> {
        let response = self.http.get(format!("{http_url}{path}")).send().await.ok()?;
        Some((response.status().as_u16(), response.text().await.ok()?))
    }

    /// Posts JSON to that program and returns the status and body of the response.
    pub(crate) async fn post_to(&self, http_url: &str, path: &str, json: &str) -> (u16, String) {
        let request = self.http.post(format!("{http_url}{path}")).header("content-type", "application/json");
        let response = request.body(json.to_owned()).send().await.expect("the program answers");
        (response.status().as_u16(), response.text().await.expect("the answer is text"))
    }
}
