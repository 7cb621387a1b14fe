//! Engine families: the same engine, on the machine's memory to run the program, and on another one to recover its
//! images.

use crate::Subject;
use crate::engine::{AnyFamily, Of};
use crate::runner::{On, Runner};
use perdura::{Engine, Memory};
use perdura_memory::Ram;

/// An engine, for any memory.
pub trait Family: Sync + 'static {
    /// Its name.
    const NAME: &'static str;

    /// Whether transactions that are not waited for share a group: its cases draw their [`Answers`](crate::Answers).
    const GROUPS: bool = false;

    /// Whether write-backs are skipped: losses that the pool reports are no failure.
    const SKIPS: bool = false;

    /// Whether a power cut leaves all commits up to some ticket: see [`Engine::IN_ORDER`].
    const IN_ORDER: bool = true;

    /// The engine on the memory `M`.
    type On<M: Memory + 'static>: Engine<M>;
}

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
            }
        )*

        /// The engine of this name, whether consistent after a crash or not.
        pub(crate) fn family(name: &str) -> Option<&'static dyn AnyFamily> {
            match name {
                $($name => Some(&Of::<$family>::ENGINE),)*
                _ => None,
            }
        }
    };
}
perdura_engine::engines!(families! {});

macro_rules! consistent {
    ({} $($(#[$doc:meta])* $family:ident $name:literal $engine:ident $made:tt;)*) => {
        /// The names of the engines.
        pub const ENGINES: [&str; [$($name),*].len()] = [$($name),*];

        /// A structure on the engine of this name.
        pub(crate) fn on_engine<'a, S: Subject + Send + 'a>(
            name: &str,
            subject: S,
        ) -> Option<Box<dyn Runner + 'a>> {
            match name {
                $($name => Some(Box::new(On::<$family, S>::new(subject))),)*
                _ => None,
            }
        }
    };
}
perdura_engine::crash_consistent_engines!(consistent! {});
