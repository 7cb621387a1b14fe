//! What every memory around another one hands on unchanged.

/// The methods of [`Memory`](crate::Memory) that have nothing to do with the pool's bytes, each answered by the memory in
/// this field: state, waiting, transactions and speculations (but `end_speculation`, whose place in the source counts),
/// the program's own memory, time.
macro_rules! forward {
    ($inner:tt) => {
        fn limit(&self) -> u64 {
            self.$inner.limit()
        }

        fn last_level_cache(&self) -> u64 {
            self.$inner.last_level_cache()
        }

        fn grow(&self, len: u64) -> std::io::Result<()> {
            self.$inner.grow(len)
        }

        fn check_fence(&self) -> std::io::Result<()> {
            self.$inner.check_fence()
        }

        #[inline(always)]
        fn is_usable(&self) -> bool {
            self.$inner.is_usable()
        }

        #[inline(always)]
        fn is_forked(&self) -> bool {
            self.$inner.is_forked()
        }

        fn look(&self) -> std::io::Result<()> {
            self.$inner.look()
        }

        #[track_caller]
        fn pause(&self, turn: u32) {
            self.$inner.pause(turn);
        }

        #[track_caller]
        fn work(&self, cycles: u32) {
            self.$inner.work(cycles);
        }

        #[inline(always)]
        fn tx_begin(&self) -> Result<(), $crate::HardwareAbort> {
            self.$inner.tx_begin()
        }

        #[inline(always)]
        fn tx_commit(&self) -> Result<$crate::HardwareTicket, $crate::HardwareAbort> {
            self.$inner.tx_commit()
        }

        #[inline(always)]
        fn tx_abort(&self) -> bool {
            self.$inner.tx_abort()
        }

        #[inline(always)]
        fn tx_flush(&self) {
            self.$inner.tx_flush();
        }

        #[inline(always)]
        fn tx_durable(&self) -> $crate::HardwareTicket {
            self.$inner.tx_durable()
        }

        #[inline(always)]
        fn speculation(&self) -> $crate::Speculation {
            self.$inner.speculation()
        }

        #[inline(always)]
        fn accepts_unsafe(&self) -> bool {
            self.$inner.accepts_unsafe()
        }

        #[inline(always)]
        fn speculate(&self) -> Result<(), $crate::HardwareAbort> {
            self.$inner.speculate()
        }

        #[inline(always)]
        fn stop_speculating(&self, code: u8) {
            self.$inner.stop_speculating(code);
        }

        #[inline(always)]
        fn lost(&self) -> Option<$crate::HardwareAbort> {
            self.$inner.lost()
        }

        #[inline(always)]
        fn object(&self, bytes: u64) -> $crate::Object {
            self.$inner.object(bytes)
        }

        #[inline(always)]
        fn words_object(
            &self,
            words: &std::sync::Arc<[$crate::atomics::AtomicU64]>,
        ) -> $crate::Object {
            self.$inner.words_object(words)
        }

        #[inline(always)]
        fn traces_own(&self) -> bool {
            self.$inner.traces_own()
        }

        #[inline(always)]
        fn touch(&self, object: $crate::Object, at: u64, len: u64, access: $crate::Touch) {
            self.$inner.touch(object, at, len, access);
        }

        #[inline(always)]
        fn touching(
            &self,
            object: $crate::Object,
            at: u64,
            len: u64,
            access: $crate::Touch,
            step: &mut dyn FnMut(),
        ) -> bool {
            self.$inner.touching(object, at, len, access, step)
        }

        fn now(&self) -> u64 {
            self.$inner.now()
        }
    };
}

pub(crate) use forward;
