//! Enums whose variants have names.

/// Declares an enum, each variant with its name; `ALL`, `name`, `of_name` and `Display` follow.
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        $visibility:vis enum $enum:ident { $($(#[$meaning:meta])* $variant:ident = $name:literal,)+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        $visibility enum $enum { $($(#[$meaning])* $variant,)+ }

        impl $enum {
            /// Every one, in order.
            pub const ALL: [$enum; [$($name),+].len()] = [$($enum::$variant),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $($enum::$variant => $name,)+ }
            }

            /// The one of a name.
            pub fn of_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.name())
            }
        }
    };
}
