//! `Serialize` without `serde_derive`: services link what has it, and need not compile that crate.

/// Implements `Serialize` for a struct, as `derive` does: `serialize!(Type: field, field)`. `..field;` before the
/// others adds the entries of a struct (`flatten`); those after a `;` are left out when they are `None`.
macro_rules! serialize {
    ($Type:ident: $(..$flat:ident;)? $($field:ident),* $(; $($(#[$meta:meta])* $optional:ident),*)?) => {
        impl $Type {
            pub(crate) fn entries<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                let Self { $($flat,)? $($field,)* $($($(#[$meta])* $optional,)*)? } = self;
                $($flat.entries(map)?;)?
                $(map.serialize_entry(stringify!($field), $field)?;)*
                $($($(#[$meta])* if let Some(found) = $optional {
                    map.serialize_entry(stringify!($optional), found)?;
                })*)?
                Ok(())
            }
        }

        impl serde::Serialize for $Type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                self.entries(&mut map)?;
                serde::ser::SerializeMap::end(map)
            }
        }
    };
}
