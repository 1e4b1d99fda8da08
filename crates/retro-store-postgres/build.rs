//! A new migration file is a reason to compile again; the macro that embeds them cannot say so itself.

fn main() {
    println!("cargo:rerun-if-changed=../../migrations/postgres");
}
