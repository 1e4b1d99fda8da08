//! Maps the bodies of runs to columns and back.

use retro_core::run::BodyRef;
use retro_store::{IncomingBody, StoredBody, decompress_document};

/// Returns the body reference to store with an incoming run.
pub(crate) fn body_ref(body: &IncomingBody) -> BodyRef {
    match body {
        IncomingBody::None => BodyRef::None,
        IncomingBody::Inline(_) => BodyRef::Stored,
        IncomingBody::Object(object) => BodyRef::Object(object.clone()),
        IncomingBody::Https(body) => BodyRef::Https(body.clone()),
        IncomingBody::GithubLog(log) => BodyRef::GithubLog(log.clone()),
    }
}

/// Builds the body of a run from `run_facts.body` and `run_bodies.trajectory`. Maps an unreadable body to
/// [`StoredBody::Gone`], for which the investigator samples a replacement run.
pub(crate) fn stored_body(body: &str, stored: Option<&[u8]>) -> StoredBody {
    match (serde_json::from_str(body), stored) {
        (Ok(BodyRef::None), _) => StoredBody::None,
        (Ok(BodyRef::Object(object)), _) => StoredBody::Object(object),
        (Ok(BodyRef::Https(body)), _) => StoredBody::Https(body),
        (Ok(BodyRef::GithubLog(log)), _) => StoredBody::GithubLog(log),
        (Ok(BodyRef::Dropped), _) => StoredBody::Gone("it was dropped on purpose".to_owned()),
        (Ok(BodyRef::Stored), Some(bytes)) => match decompress_document(bytes) {
            Ok(trajectory) => StoredBody::Inline(trajectory),
            Err(problem) => StoredBody::Gone(problem),
        },
        (Ok(BodyRef::Stored), None) => StoredBody::Gone("its row in run_bodies is missing".to_owned()),
        (Err(error), _) => StoredBody::Gone(format!("run_facts.body cannot be read: {error}")),
    }
}
