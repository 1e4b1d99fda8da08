//! Plays GitHub's REST API and its log storage on free loopback ports.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, header};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Token that the API accepts.
pub const GITHUB_TOKEN: &str = "github-token-of-the-tests";

/// A request that a server received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// Path and query.
    pub path: String,
    /// Value of the header `Authorization`; `None` if there is none.
    pub authorization: Option<String>,
}

/// Answer to the requests for one path.
#[derive(Debug, Clone)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: AnswerBody,
}

#[derive(Debug, Clone)]
enum AnswerBody {
    /// A document. Its longest array is sent page by page.
    Document(Value),
    Bytes(Vec<u8>),
}

/// A fake GitHub: an API that requires [`GITHUB_TOKEN`], and a storage of logs at another address.
pub struct FakeGithub {
    api: Server,
    storage: Server,
}

impl FakeGithub {
    /// Starts both servers. Every path is answered with 404 until it is set.
    pub async fn start() -> Self {
        Self { api: Server::start(true).await, storage: Server::start(false).await }
    }

    /// Returns the address of the API.
    pub fn url(&self) -> &str {
        &self.api.url
    }

    /// Sets the document at a path of the API. An array in it, or it as an array, is sent in pages of as many
    /// items as requested.
    pub fn set_document(&self, path: &str, document: Value) {
        let body = AnswerBody::Document(document);
        self.api.set(path, Answer { status: 200, headers: Vec::new(), body });
    }

    /// Sets a status and headers with which the API answers the requests for a path.
    pub fn set_status(&self, path: &str, status: u16, headers: &[(&'static str, &str)]) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.api.set(path, Answer { status, headers, body: AnswerBody::Bytes(Vec::new()) });
    }

    /// Sets a log: the API redirects the path to the storage, as GitHub does.
    pub fn set_log(&self, path: &str, log: &str) {
        let at = format!("/stored{path}");
        let location = format!("{}{at}?signature=secret", self.storage.url);
        self.set_status(path, 302, &[("location", &location)]);
        let body = AnswerBody::Bytes(log.as_bytes().to_vec());
        self.storage.set(&at, Answer { status: 200, headers: Vec::new(), body });
    }

    /// Returns the requests that the API received, in order.
    pub fn api_requests(&self) -> Vec<ReceivedRequest> {
        self.api.requests()
    }

    /// Returns the requests that the storage received, in order.
    pub fn storage_requests(&self) -> Vec<ReceivedRequest> {
        self.storage.requests()
    }
}

#[derive(Default)]
struct Pages {
    answers: HashMap<String, Answer>,
    requests: Vec<ReceivedRequest>,
    requires_token: bool,
}

/// One server, which ends when it is dropped.
struct Server {
    url: String,
    pages: Arc<Mutex<Pages>>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(requires_token: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let pages = Arc::new(Mutex::new(Pages { requires_token, ..Pages::default() }));
        let router = Router::new().fallback(answer_request).with_state(pages.clone());
        let task = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("the server runs until it is dropped");
        });
        Self { url, pages, task }
    }

    fn set(&self, path: &str, answer: Answer) {
        self.pages.lock().expect("no test panics with the lock").answers.insert(path.to_owned(), answer);
    }

    fn requests(&self) -> Vec<ReceivedRequest> {
        self.pages.lock().expect("no test panics with the lock").requests.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer_request(State(pages): State<Arc<Mutex<Pages>>>, request: Request) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let path = request.uri().path().to_owned();
    let authorization = request.headers().get(header::AUTHORIZATION);
    let authorization = authorization.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut pages = pages.lock().expect("no test panics with the lock");
    let whole = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
    pages.requests.push(ReceivedRequest { path: whole, authorization: authorization.clone() });
    let is_allowed = !pages.requires_token || authorization == Some(format!("Bearer {GITHUB_TOKEN}"));
    let answer = pages.answers.get(&path).filter(|_| is_allowed).cloned();
    let mut response = Response::builder();
    let (status, body) = match answer {
        None => (if is_allowed { 404 } else { 401 }, Vec::new()),
        Some(Answer { status, headers, body }) => {
            for (name, value) in headers {
                response = response.header(name, value);
            }
            let body = match body {
                AnswerBody::Bytes(bytes) => bytes,
                AnswerBody::Document(document) => take_page(document, &query).to_string().into_bytes(),
            };
            (status, body)
        }
    };
    response.status(status).body(Body::from(body)).expect("a test sets valid headers")
}

/// Keeps the requested page of the document, if it is a list or contains one.
fn take_page(mut document: Value, query: &str) -> Value {
    let number = |name: &str| {
        let found = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
        found.and_then(|(_, value)| value.parse::<usize>().ok())
    };
    let Some((items, page)) = number("per_page").zip(number("page")) else { return document };
    let list = match &mut document {
        Value::Array(list) => Some(list),
        Value::Object(members) => members.values_mut().find_map(Value::as_array_mut),
        _ => None,
    };
    if let Some(list) = list {
        *list = list.iter().skip((page - 1) * items).take(items).cloned().collect();
    }
    document
}
