//! The command exports the functions of `floatgate.h` to the programs in C that it loads.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=fg_*");
    }
}
