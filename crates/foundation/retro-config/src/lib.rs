#![doc = include_str!("../README.md")]

pub mod config;
mod defaults;
pub mod document;
mod embedder;
mod github;
pub mod keys;
pub mod layers;
mod model;
mod model_protocol;
mod model_use;
mod nats;
mod nats_tls;
pub mod pipeline;
pub mod pipeline_files;
pub mod policy_set;
pub mod policy_source;
mod problem;
pub mod review_pipeline;
pub mod secret;
mod secret_file;
mod validation;

pub use config::Config;
pub use embedder::EmbedderConfig;
pub use layers::{LoadedConfig, Origin, load_config};
pub use model::{ModelConfig, ModelSource};
pub use model_protocol::ModelProtocol;
pub use model_use::ModelUse;
pub use nats_tls::NatsTls;
pub use pipeline::Pipeline;
pub use pipeline_files::{ExplainedPrompt, PipelineFiles};
pub use policy_set::{ExplainedValue, PolicySet};
pub use policy_source::{PolicySource, ReloadResult};
pub use problem::Problems;
pub use review_pipeline::ReviewPipeline;
pub use secret::{Secret, mask_password};
