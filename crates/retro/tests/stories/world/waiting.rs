//! A `retro up` that was started and cannot begin its work yet.

use super::process::Nats;
use super::{Up, World, free_port};

impl World {
    /// Starts the program where it cannot begin its work yet; returns the address at which it answers meanwhile.
    pub(crate) fn up_waiting(&mut self) -> String {
        let http = format!("127.0.0.1:{}", free_port());
        let mut up =
            self.command(&["up", "--nats-port", &self.nats_port.to_string(), "--http-listen", &http]);
        let process = self.spawn(&mut up, &[]);
        let (nats_url, http_url) = (String::new(), format!("http://{http}"));
        self.up = Some(Up { process, nats: None, nats_url, http_url: http_url.clone() });
        http_url
    }

    /// Waits until that program works.
    pub(crate) async fn up_waited(&mut self, http_url: String) {
        let mut process = self.up.take().expect("it was started").process;
        let instance = self.instance_of(&mut process).await;
        assert_eq!(instance["http_url"], http_url);
        let nats_url = instance["nats_url"].as_str().expect("an address").to_owned();
        self.up = Some(Up { process, nats: None, nats_url, http_url });
        let pid = self.pid();
        let nats = self.until("its broker is there", async || Nats::of(pid)).await;
        self.up.as_mut().expect("it runs").nats = Some(nats);
    }

    /// Status and body of a route of that program; `None` while it does not answer.
    pub(crate) async fn get_at(&self, http_url: &str, path: &str) -> Option<(u16, String)> {
        let response = self.http.get(format!("{http_url}{path}")).send().await.ok()?;
        Some((response.status().as_u16(), response.text().await.ok()?))
    }

    /// The same with JSON to send.
    pub(crate) async fn post_at(&self, http_url: &str, path: &str, json: &str) -> (u16, String) {
        let request = self.http.post(format!("{http_url}{path}")).header("content-type", "application/json");
        let response = request.body(json.to_owned()).send().await.expect("it answers");
        (response.status().as_u16(), response.text().await.expect("it answers with text"))
    }
}
