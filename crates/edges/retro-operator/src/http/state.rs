//! Defines the state of the handlers that read.

use std::sync::Arc;

use retro_core::time::Clock;
use retro_store::OperatorStore;

use crate::redact::SharedRedactFn;

/// State of the handlers that read.
#[derive(Clone)]
pub(crate) struct ApiState {
    pub(crate) store: Arc<dyn OperatorStore>,
    pub(crate) redact: SharedRedactFn,
    pub(crate) clock: Arc<dyn Clock>,
}
