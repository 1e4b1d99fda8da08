//! The schemas by which answers of a model are read. They are generated from the types and no author changes them: the
//! program would not understand another answer.

use retro_core::pipeline::PipelineName;

/// Returns the schemas of a pipeline, by the names of their files below `schemas/`.
pub const fn schemas_of(pipeline: PipelineName) -> [(&'static str, &'static str); 1] {
    match pipeline {
        PipelineName::Retrospective => [(ANSWER_SCHEMA_FILE, ANSWER_SCHEMA)],
        PipelineName::Review => [(READINGS_SCHEMA_FILE, READINGS_SCHEMA)],
    }
}

/// Name of the file of the answer about one run, below `schemas/`.
const ANSWER_SCHEMA_FILE: &str = "submit_findings.json";

/// JSON Schema of the answer about one run, as `cargo xtask gen` writes it.
const ANSWER_SCHEMA: &str = include_str!("../../../../pipelines/retrospective/schemas/submit_findings.json");

/// Name of the file of the answer about the remarks of a review, below `schemas/`.
const READINGS_SCHEMA_FILE: &str = "submit_readings.json";

/// JSON Schema of the answer about the remarks of a review, as `cargo xtask gen` writes it.
const READINGS_SCHEMA: &str = include_str!("../../../../pipelines/review/schemas/submit_readings.json");
