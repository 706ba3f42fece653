//! Soname of the shared library: the version of the interface, FG_ABI_VERSION of the header.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfloatgate.so.1");
    }
}
