//! From a type's definition to its `impl Persist`.

use crate::itself;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, LitStr, Result};

/// The attributes `#[persist(..)]` of a type.
#[derive(Default)]
struct Attributes {
    /// A name in place of the one made from the definition.
    name: Option<LitStr>,
    /// Whether each field gets a constant.
    fields: bool,
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = attributes(input)?;
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new(
            parameter.span(),
            "a type with parameters cannot derive Persist: define a struct for each type that is stored (a `macro_rules!` can), or use a tuple, which takes any storable types",
        ));
    }
    let body = match &input.data {
        Data::Struct(data) => structure(input, &data.fields),
        Data::Enum(data) => enumeration(input, data, &attributes)?,
        Data::Union(_) => {
            return Err(Error::new(input.ident.span(), "a union cannot derive Persist"));
        }
    };
    let Body { kind, bytes, store, load } = body;
    let own = &input.ident;
    let name = match &attributes.name {
        Some(name) => quote!(::perdura::persist::TypeName::new(#name)),
        None => kind,
    };
    let constants = match (&input.data, attributes.fields) {
        (Data::Struct(data), true) => constants(own, &data.fields)?,
        _ => TokenStream::new(),
    };
    Ok(quote! {
        #[automatically_derived]
        impl ::perdura::persist::Persist for #own {
            type Bytes = [u8; #bytes];
            const TYPE_NAME: ::perdura::persist::TypeName = #name;

            #[inline]
            fn to_stored(self) -> Self::Bytes {
                let mut bytes = [0; #bytes];
                let mut to = ::perdura::persist::Writer::new(&mut bytes);
                #store
                bytes
            }

            #[inline]
            fn from_stored(bytes: &Self::Bytes) -> ::core::option::Option<Self> {
                let mut from = ::perdura::persist::Reader::new(bytes);
                #load
            }
        }
        #constants
    })
}

fn attributes(input: &DeriveInput) -> Result<Attributes> {
    let mut found = Attributes::default();
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("persist")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                found.name = Some(meta.value()?.parse()?);
                Ok(())
            } else if meta.path.is_ident("fields") {
                found.fields = true;
                Ok(())
            } else {
                Err(meta.error("expected `name = \"..\"` or `fields`"))
            }
        })?;
    }
    Ok(found)
}

/// The parts of an implementation of `Persist`.
struct Body {
    /// The type's name, as an expression.
    kind: TokenStream,
    /// Bytes that a value takes.
    bytes: TokenStream,
    /// Statements that write `self` to `to`.
    store: TokenStream,
    /// An expression that reads an `Option<Self>` from `from`.
    load: TokenStream,
}

fn structure(input: &DeriveInput, fields: &Fields) -> Body {
    let own = &input.ident;
    let Parts { pattern, kind, bytes, store, load } = parts(own, own, &quote!(#own), fields);
    let store = quote!(let #pattern = self; #store);
    Body { kind, bytes, store, load: quote!(::core::option::Option::Some(#load)) }
}

fn enumeration(input: &DeriveInput, data: &syn::DataEnum, attributes: &Attributes) -> Result<Body> {
    let own = &input.ident;
    let count = data.variants.len();
    if count == 0 || count > 256 {
        return Err(Error::new(own.span(), "an enum that derives Persist has 1 to 256 variants"));
    }
    if attributes.fields {
        return Err(Error::new(
            own.span(),
            "`fields` is for structs: where an enum's fields are depends on the variant",
        ));
    }
    let (mut names, mut kinds, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut stores, mut loads) = (Vec::new(), Vec::new());
    for (index, variant) in data.variants.iter().enumerate() {
        let ident = &variant.ident;
        let Parts { pattern, kind, bytes, store, load } =
            parts(own, ident, &quote!(#own::#ident), &variant.fields);
        let number = Literal::u8_suffixed(index as u8);
        names.push(ident.to_string());
        kinds.push(kind);
        sizes.push(bytes);
        stores.push(quote!(#pattern => { to.put(#number); #store }));
        loads.push(quote!(#number => ::core::option::Option::Some(#load)));
    }
    let name = own.to_string();
    Ok(Body {
        kind: quote!(::perdura::persist::TypeName::choice(#name, &[#(#names),*], &[#(#kinds),*])),
        bytes: quote!(1 + ::perdura::persist::largest(&[#(#sizes),*])),
        store: quote!(match self { #(#stores)* }),
        load: quote! {
            match from.take::<u8>()? {
                #(#loads,)*
                _ => ::core::option::Option::None,
            }
        },
    })
}

/// The parts of a struct, or of a variant.
struct Parts {
    /// A pattern that binds the fields.
    pattern: TokenStream,
    kind: TokenStream,
    bytes: TokenStream,
    store: TokenStream,
    load: TokenStream,
}

fn parts(own: &Ident, ident: &Ident, path: &TokenStream, fields: &Fields) -> Parts {
    let bound: Vec<_> = (0..fields.len()).map(|index| format_ident!("field_{index}")).collect();
    let members: Vec<_> = fields.members().collect();
    let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
    let named: Vec<_> = types.iter().map(|of| itself::without(of, own)).collect();
    let (name, names) = (ident.to_string(), fields.iter().map(field_name).enumerate());
    let names = names.map(|(index, name)| name.unwrap_or_else(|| index.to_string()));
    Parts {
        pattern: quote!(#path { #(#members: #bound),* }),
        kind: quote! {
            ::perdura::persist::TypeName::record(
                #name,
                &[#(#names),*],
                &[#(<#named as ::perdura::persist::Persist>::TYPE_NAME),*],
            )
        },
        bytes: quote!((0 #(+ ::perdura::persist::size::<#types>())*)),
        store: quote!(#(to.put(#bound);)*),
        load: quote!(#path { #(#members: from.take::<#types>()?),* }),
    }
}

fn field_name(field: &Field) -> Option<String> {
    field.ident.as_ref().map(Ident::to_string)
}

/// A constant for each field of a struct, by which a pointer to it is found.
fn constants(own: &Ident, fields: &Fields) -> Result<TokenStream> {
    let Fields::Named(fields) = fields else {
        return Err(Error::new(own.span(), "`fields` is for structs whose fields have names"));
    };
    let (mut before, mut all) = (quote!(0), Vec::new());
    for field in &fields.named {
        let (of, seen) = (&field.ty, &field.vis);
        let name = field_name(field).unwrap_or_default();
        let constant = Ident::new(&name.trim_start_matches("r#").to_uppercase(), field.span());
        let documentation = format!("The field `{name}`.");
        all.push(quote! {
            #[doc = #documentation]
            #[allow(dead_code)]
            #seen const #constant: ::perdura::persist::Member<#own, #of> =
                ::perdura::persist::Member::at((#before) as u64);
        });
        before = quote!(#before + ::perdura::persist::size::<#of>());
    }
    Ok(quote!(impl #own { #(#all)* }))
}
