//! Makes cargo rebuild when a migration file is added; the macro that embeds the migrations cannot do so itself.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations/sqlite");
}
