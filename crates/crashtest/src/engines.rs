//! The families of all engines.

use crate::engine::{AnyFamily, Family, Listed};
use crate::seq::Seq;
use perdura::EngineKind;
use perdura_memory::AnyMemory;

/// The tester's own engine: a sequential program, which keeps neither power cuts nor threads apart.
pub const UNSYNCHRONISED: &str = "seq";

struct Sequential;

impl Family for Sequential {
    type Engine = Seq<AnyMemory>;
    const NAME: &'static str = UNSYNCHRONISED;
}

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

        /// The engine of this name, whether consistent after a crash or not; the tester's own too.
        pub(crate) fn family(name: &str) -> Option<&'static dyn AnyFamily> {
            match name {
                UNSYNCHRONISED => Some(Sequential::value()),
                $($name => Some($family::value()),)*
                _ => None,
            }
        }
    };
}
perdura_engine::engines!(families! {});
