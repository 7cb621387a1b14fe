//! The families of all engines.

use crate::engine::{AnyFamily, Family, Listed};
use perdura::EngineKind;
use perdura_memory::AnyMemory;

macro_rules! families {
    ({} $($(#[$doc:meta])* $family:ident $name:literal $engine:ident $made:tt;)*) => {
        $(
            $(#[$doc])*
            pub struct $family;

            impl Family for $family {
                type Engine = perdura_engine::$engine<AnyMemory>;

                fn value() -> &'static dyn AnyFamily {
                    &Listed(EngineKind::$family)
                }
            }
        )*

        /// The engine of this name, whether consistent after a crash or not.
        pub(crate) fn family(name: &str) -> Option<&'static dyn AnyFamily> {
            match name {
                $($name => Some($family::value()),)*
                _ => None,
            }
        }
    };
}
perdura_engine::engines!(families! {});
