//! The families of all engines.

use crate::engine::{AnyFamily, Family, Of};
use perdura::{Engine, Memory};
use perdura_memory::Ram;

macro_rules! families {
    ({} $($(#[$doc:meta])* $family:ident $name:literal $engine:ident $made:tt;)*) => {
        $(
            $(#[$doc])*
            pub struct $family;

            impl Family for $family {
                const NAME: &'static str = $name;
                const GROUPS: bool = <perdura_engine::$engine<Ram> as Engine<Ram>>::NEEDS_FLUSHER;
                const SKIPS: bool = <perdura_engine::$engine<Ram> as Engine<Ram>>::SKIPS;
                const IN_ORDER: bool = <perdura_engine::$engine<Ram> as Engine<Ram>>::IN_ORDER;
                type On<M: Memory + 'static> = perdura_engine::$engine<M>;

                // What the trait has, but not generic: this alone makes it code of this crate.
                #[inline(never)]
                fn value() -> &'static dyn AnyFamily {
                    &Of::<$family>::ENGINE
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
