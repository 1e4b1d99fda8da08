//! Runs `retro pipeline test`.

use anyhow::bail;
use retro_config::{Config, Pipeline};
use retro_core::pipeline::PipelineName;

use crate::cases::{CaseResult, cases_folder, list_cases, play_case};
use crate::cli::{Output, TestArgs};
use crate::exit::Exit;
use crate::output;

/// Plays the cases of a pipeline and prints which hold.
pub(super) async fn test_pipeline(config: &Config, output: Output, args: &TestArgs) -> anyhow::Result<Exit> {
    let folder = args.folder.as_deref().or(config.pipelines.as_deref());
    let pipeline = Pipeline::read_folder(folder)?;
    let places = match (&args.cases, folder) {
        (Some(cases), _) => vec![cases.clone()],
        (None, Some(folder)) => PipelineName::ALL.iter().map(|one| folder.join(cases_folder(*one))).collect(),
        (None, None) => bail!("`pipelines` is not set; name a folder, or cases with --cases"),
    };
    let mut paths = Vec::new();
    for place in &places {
        paths.extend(if place.is_file() { vec![place.clone()] } else { list_cases(place)? });
    }
    let place = places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(" and ");
    if paths.is_empty() {
        bail!("there are no cases in {place}; a case is a TOML file, see pipelines/README.md");
    }
    let mut results = Vec::new();
    for path in &paths {
        results.push(play_case(path, &pipeline).await);
    }
    output::print_data(output, &results, || render(&results, &place))?;
    let holds = results.iter().all(|result| result.problems.is_empty());
    Ok(if holds { Exit::Done } else { Exit::ProblemFound })
}

fn render(results: &[CaseResult], place: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for result in results {
        let name = result.file.file_name().map_or_else(String::new, |name| name.display().to_string());
        let mark = if result.problems.is_empty() { "ok    " } else { "FAILED" };
        lines.push(format!("{mark} {name}: {}", result.story));
        lines.extend(result.problems.iter().map(|problem| format!("  {problem}")));
    }
    let failed = results.iter().filter(|result| !result.problems.is_empty()).count();
    lines.push(format!("{} cases in {}, {failed} failed", results.len(), place));
    lines.join("\n")
}
