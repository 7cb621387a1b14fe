//! What exploring a case needs of an engine, behind one face: so the explorer is compiled once for
//! each structure, and not again for each engine.

use crate::engines::Family;
use crate::life::{Life, Lived, Stopped, Watch, first_image, recover_alone};
use crate::verify::{Expect, Found, verify};
use crate::{Case, Subject, Trial};
use perdura_machine::{Event, Sites};
use std::marker::PhantomData;
use std::sync::Arc;

/// An engine under the structure `S`; each method does what the function of its name does.
pub(crate) trait EngineUnder<S: Subject> {
    /// Its name.
    fn name(&self) -> &'static str;

    fn first_image(&self, subject: &S, case: &Case, bytes: u64) -> Result<Vec<u64>, String>;

    fn live(
        &self,
        life: &Life<'_, S>,
        watch: Watch<'_>,
        omit: Option<Event>,
    ) -> Result<Lived<S::Op>, Stopped>;

    fn recover_alone(&self, case: &Case, image: Vec<u64>) -> Result<Sites, String>;

    fn verify(
        &self,
        subject: &S,
        trial: &Arc<Trial>,
        expect: &Expect<'_, S::Model>,
        seed: u64,
    ) -> Result<Found, String>;
}

/// The engine of the family `F`.
pub(crate) struct Of<F>(PhantomData<fn() -> F>);

impl<F> Of<F> {
    pub(crate) const ENGINE: Self = Of(PhantomData);
}

impl<F: Family, S: Subject> EngineUnder<S> for Of<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn first_image(&self, subject: &S, case: &Case, bytes: u64) -> Result<Vec<u64>, String> {
        first_image::<F, S>(subject, case, bytes)
    }

    fn live(
        &self,
        life: &Life<'_, S>,
        watch: Watch<'_>,
        omit: Option<Event>,
    ) -> Result<Lived<S::Op>, Stopped> {
        life.live::<F>(Some(watch), omit)
    }

    fn recover_alone(&self, case: &Case, image: Vec<u64>) -> Result<Sites, String> {
        recover_alone::<F>(case, image)
    }

    fn verify(
        &self,
        subject: &S,
        trial: &Arc<Trial>,
        expect: &Expect<'_, S::Model>,
        seed: u64,
    ) -> Result<Found, String> {
        verify::<F, S>(subject, trial, expect, seed)
    }
}
