//! Enums of errors, each failure in one place.

/// Declares an enum of errors: each failure with its fields, its code and its message.
///
/// Code and message may use the fields. An error that `wraps` another has its code and message, and
/// is made from it by `?`.
#[macro_export]
macro_rules! errors {
    (
        $(#[$about:meta])*
        $visibility:vis enum $name:ident {
            $(
                $(#[$failure:meta])*
                $variant:ident $({ $($(#[$part:meta])* $field:ident: $kind:ty,)* })?
                    = $code:expr => $message:literal $(, $value:expr)*;
            )*
        }
        $(wraps {
            $(#[$cause:meta])*
            $wrapped:ident($inner:ty)
        })?
    ) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        $visibility enum $name {
            $($(#[$failure])* $variant $({ $($(#[$part])* $field: $kind,)* })?,)*
            $($(#[$cause])* $wrapped($inner),)?
        }

        impl $name {
            /// A stable name for the failure, for mapping it in other languages.
            #[allow(unused_variables)]
            pub const fn code(&self) -> &'static str {
                match self {
                    $($name::$variant { $($($field,)*)? } => $code,)*
                    $($name::$wrapped(error) => error.code(),)?
                }
            }
        }

        impl std::fmt::Display for $name {
            #[allow(unused_variables)]
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($name::$variant { $($($field,)*)? } => {
                        write!(formatter, $message $(, $value)*)
                    })*
                    $($name::$wrapped(error) => error.fmt(formatter),)?
                }
            }
        }

        $(impl From<$inner> for $name {
            fn from(error: $inner) -> Self {
                $name::$wrapped(error)
            }
        })?
    };
}
