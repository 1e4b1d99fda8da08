//! Tells cargo to rebuild if a migration file is added, which the macro that embeds the migrations cannot
//! detect.

fn main() {
    println!("cargo:rerun-if-changed=../../../migrations");
}
