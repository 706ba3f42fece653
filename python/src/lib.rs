//! Native module of the Python package: thin functions over `floatgate_lab` and `floatgate_image`.
//!
//! Each function takes plain values, works without the interpreter's lock, and returns the JSON that the command
//! prints. The package `floatgate` in the adjacent folder converts it to typed objects.

mod advice;
mod arguments;
mod buffer;
mod bus;
mod cancel;
mod devices;
mod failure;
mod image;
mod image_write;
mod overrides;
mod speed;
mod studies;
mod sweep;

use floatgate_config::Library;
use std::sync::LazyLock;

/// Allocator, the same as in the command. The module may be loaded when the static block for thread-local variables is
/// full, so it uses the feature `local_dynamic_tls`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Built-in catalogue. It is shared by all calls, because the chip database of the drivers is built only once for it.
fn library() -> &'static Library {
    static LIBRARY: LazyLock<Library> = LazyLock::new(Library::built_in);
    &LIBRARY
}

#[pyo3::pymodule(gil_used = false)]
mod _floatgate {
    #[pymodule_export]
    use crate::bus::{NativeNandBus, NativeSpiBus};
    #[pymodule_export]
    use crate::devices::{NativeCard, NativeMtd};
    #[pymodule_export]
    use crate::image::NativeImage;
    #[pymodule_export]
    use crate::image_write::{build_image, edit_image};
    #[pymodule_export]
    use crate::overrides::{one_override, overrides};
    #[pymodule_export]
    use crate::speed::{NativeSpeed, speed};
    #[pymodule_export]
    use crate::studies::{
        advise_ecc, advise_on, card_speed, compare_filesystems, compare_papers, cut_power, fit_results, live,
        parts, probe_card, probe_device, result_schema, run_study, setups, trace_operation, wear_out,
    };
    #[pymodule_export]
    use crate::sweep::{NativeSweep, measure_work};
}
