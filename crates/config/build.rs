//! The catalogue's files are embedded; a file that is new in one of the folders must rebuild the crate too, which the
//! embedding macro alone does not see to.
#![allow(clippy::print_stdout, reason = "this is how a build script speaks to Cargo")]

fn main() {
    for folder in ["parts", "parts/cards", "setups", "controllers", "hosts", "hosts/cards"] {
        println!("cargo::rerun-if-changed=data/{folder}");
    }
}
