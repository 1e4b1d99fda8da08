//! Names the places of runs in a file.

use retro_core::dead_letter::Rejection;

/// Adds the location of a run in its file, such as `line 3`, to the path of a rejection.
pub fn prefix_path(place: &str, rejection: Rejection) -> Rejection {
    let path = join_locations(place, rejection.path.as_deref().unwrap_or_default());
    Rejection { path: Some(path).filter(|path| !path.is_empty()), ..rejection }
}

/// Returns the location of something inside of another; either may be empty.
pub(crate) fn join_locations(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", place) | (place, "") => place.to_owned(),
        (outer, inner) => format!("{outer}: {inner}"),
    }
}
