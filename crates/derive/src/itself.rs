//! A type that contains pointers to its own kind: its name cannot contain itself.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::quote;
use syn::Type;

/// The type of a field of `own`, with a placeholder for `own` itself, for use in its name.
pub(crate) fn without(of: &Type, own: &Ident) -> TokenStream {
    replace(quote!(#of), own)
}

fn replace(tokens: TokenStream, own: &Ident) -> TokenStream {
    let each = |token| match token {
        TokenTree::Ident(ident) if ident == *own || ident == "Self" => {
            quote!(::perdura::persist::Itself)
        }
        TokenTree::Group(group) => {
            let inner = replace(group.stream(), own);
            TokenTree::Group(proc_macro2::Group::new(group.delimiter(), inner)).into()
        }
        other => other.into(),
    };
    tokens.into_iter().map(each).collect()
}
