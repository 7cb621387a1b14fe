//! `#[derive(Persist)]`, which the crate `perdura` exports: how a struct or an enum of plain fields is kept in a pool.
//! `perdura::Persist` documents the result and the attributes.

#![forbid(unsafe_code)]

mod expand;
mod itself;

use proc_macro::TokenStream;

/// See `perdura::Persist`.
#[proc_macro_derive(Persist, attributes(persist))]
pub fn persist(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::expand(&input).unwrap_or_else(|error| error.into_compile_error()).into()
}
