//! Directives that are declared in one place: [`settings!`](crate::settings!) makes everything about a list of them.
//!
//! A directive is *plain* when its value is computed from its own arguments alone: a flag, a size, a time, a number, one
//! of several names. Each entry of a list declares one:
//!
//! ```
//! use std::time::Duration;
//! use tidegate_conf::{Contexts, optional, setting, settings};
//!
//! settings! {
//!     /// Settings for requests.
//!     pub struct PageSettings;
//!     /// The same as written in one block.
//!     pub struct PageConf;
//!
//!     /// Longest time for a page.
//!     page_timeout: Duration =
//!         setting("page_timeout", Contexts::HTTP_SERVER, "60s", |args| args.milliseconds(0)),
//!     /// Most pages of a book; no limit without this directive.
//!     page_max: Option<u64> =
//!         optional("page_max", Contexts::SERVER, |args| args.number(0, 1..=99).map(Some)),
//! }
//!
//! let (mut server, mut http) = (PageConf::default(), PageConf::default());
//! http.page_timeout = Some(Duration::from_secs(5));
//! server.page_max = Some(Some(7));
//! server.inherit(&http);
//! let PageSettings { page_timeout, page_max } = server.settings();
//! assert_eq!((page_timeout, page_max), (Duration::from_secs(5), Some(7)));
//! assert_eq!(PageSettings::default().page_timeout, Duration::from_secs(60));
//! assert_eq!(PageConf::rows::<PageConf>().map(|row| row.name), ["page_timeout", "page_max"]);
//! ```
//!
//! # The grammar of a list
//!
//! ```text
//! settings! {
//!     /// documentation          any attributes of the struct
//!     pub struct SETTINGS;       with defaults applied: one field of TYPE for each entry
//!     /// documentation
//!     pub struct CONF;           as written in one block: `Option<TYPE>`, `None` is "not set"
//!
//!     /// DESCRIPTION            in the manual, and of the field; several lines are joined
//!     NAME: TYPE = DECLARATION,  any number of entries
//! }
//! ```
//!
//! `DECLARATION` is a constant [`Setting<TYPE>`](Setting), made by [`setting`], [`optional`] or [`no_effect`] and
//! changed by [`Setting::arguments`] or [`Setting::adding_up`]. It contains the directive's name, which is also `NAME`: a search for
//! the name finds the declaration and each use. Anything else does not compile:
//!
//! ```compile_fail
//! tidegate_conf::settings! {
//!     /// Settings.
//!     pub struct PageSettings;
//!     /// As written.
//!     pub struct PageConf;
//!     /// Whether there are pages.
//!     pages: bool = tidegate_conf::setting("page", tidegate_conf::Contexts::MAIN, "on", |args| args.flag(0)),
//! }
//! ```
//!
//! # The parts made from it
//!
//! | item | contents |
//! |---|---|
//! | `SETTINGS` | the values, as plain fields |
//! | `SETTINGS::default()` | the defaults: the setter's result for the default's text |
//! | `CONF` | the values as written |
//! | `CONF::rows()` | the rows of the directives, for a module whose settings contain a `CONF` ([`AsMut`]) |
//! | `CONF::inherit(outer)` | takes over values that are not set |
//! | `CONF::settings()` | the values, with defaults for those that are not set |

use crate::args::{Args, once};
use crate::contexts::Contexts;
use crate::diagnostic::Diagnostic;
use crate::loader::FsLoader;
use crate::parser::Parser;
use crate::registry::{Arity, Directive, row};

#[cfg(test)]
mod tests;

/// Computes the value of a directive from its arguments.
pub type Setter<T> = fn(&Args<'_>) -> Result<T, Diagnostic>;

/// The declaration of a plain directive with a value of type `T`; see [`settings!`](crate::settings!).
pub struct Setting<T> {
    name: &'static str,
    contexts: Contexts,
    arguments: Arity,
    default: &'static str,
    /// The value of a directive that is not written, where `default` is empty.
    unset: Option<fn() -> T>,
    has_effect: bool,
    set: Setter<T>,
    /// How a second directive in a block is added to the first; `None` where it is an error.
    add: Option<fn(T, T) -> T>,
}

/// Declares a directive of one argument. `set` computes its value, and that of the text `default`.
pub const fn setting<T>(
    name: &'static str,
    contexts: Contexts,
    default: &'static str,
    set: Setter<T>,
) -> Setting<T> {
    let (unset, add) = (None, None);
    Setting { name, contexts, arguments: Arity::ONE, default, unset, has_effect: true, set, add }
}

/// Declares a directive of one argument and without a default: its value is `None` when it is not written.
pub const fn optional<T>(
    name: &'static str,
    contexts: Contexts,
    set: Setter<Option<T>>,
) -> Setting<Option<T>> {
    Setting { unset: Some(|| None), ..setting(name, contexts, "", set) }
}

/// Declares a directive of one argument that is accepted without effect; `check` checks its arguments.
pub const fn no_effect(
    name: &'static str,
    contexts: Contexts,
    default: &'static str,
    check: Setter<NoEffect>,
) -> Setting<NoEffect> {
    Setting {
        unset: Some(|| NoEffect),
        has_effect: false,
        ..setting(name, contexts, default, check)
    }
}

impl<T> Setting<T> {
    /// Changes the number of arguments.
    pub const fn arguments(self, arguments: Arity) -> Setting<T> {
        Setting { arguments, ..self }
    }

    /// Allows several directives in a block; `add` computes their common value.
    pub const fn adding_up(self, add: fn(T, T) -> T) -> Setting<T> {
        Setting { add: Some(add), ..self }
    }

    /// Checks that the field has the name of the directive.
    ///
    /// # Panics
    /// At compile time and with `message`, if the names differ.
    #[doc(hidden)]
    pub const fn in_field(self, field: &str, message: &str) -> Setting<T> {
        if !is_field_of(self.name, field) {
            panic!("{}", message);
        }
        self
    }

    #[doc(hidden)]
    pub const fn row<C>(
        &self,
        doc: &'static str,
        set: fn(&mut C, &Args<'_>) -> Result<(), Diagnostic>,
    ) -> Directive<C> {
        let doc = doc.trim_ascii_start();
        let row = row(self.name, self.contexts, self.arguments, self.default, doc, set);
        if self.has_effect { row } else { row.without_effect() }
    }

    /// Sets a field by the directive's arguments.
    #[doc(hidden)]
    pub fn apply(&self, field: &mut Option<T>, args: &Args<'_>) -> Result<(), Diagnostic> {
        let value = (self.set)(args)?;
        match (self.add, field.take()) {
            (Some(add), Some(first)) => {
                *field = Some(add(first, value));
                Ok(())
            }
            (_, first) => {
                *field = first;
                once(field, value, args)
            }
        }
    }

    /// Computes the value of a directive that is not written.
    ///
    /// # Panics
    /// When the default's text is not a value of the directive.
    #[doc(hidden)]
    pub fn default_value(&self) -> T {
        match (self.unset, self.value_of(self.default)) {
            (Some(unset), _) => unset(),
            (None, Ok(value)) => value,
            // cannot fail: the text is a constant, and each start of the program reads it
            (None, Err(message)) => {
                panic!("default `{}` of `{}`: {message}", self.default, self.name)
            }
        }
    }

    /// Computes the value of arguments as written.
    fn value_of(&self, arguments: &str) -> Result<T, String> {
        let text = format!("{} {arguments};", self.name);
        let statements = Parser::new(&FsLoader, "/").parse_fragment("default", text.as_bytes());
        match &statements[..] {
            [statement] if self.arguments.allows(statement.args.len()) => {
                let context = self.contexts.iter().next().unwrap_or(Contexts::empty());
                (self.set)(&Args::new(statement, context)).map_err(|found| found.message)
            }
            _ => Err("wrong number of arguments".to_owned()),
        }
    }
}

/// The value of a directive that is accepted without effect: its arguments are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEffect;

impl NoEffect {
    /// Drops a value that has no effect.
    ///
    /// # Errors
    /// Those of the value.
    pub fn of<T>(value: Result<T, Diagnostic>) -> Result<NoEffect, Diagnostic> {
        value.map(|_| NoEffect)
    }
}

/// Returns whether a field has this name, at compile time. The field of a name that is a keyword begins with `r#`.
const fn is_field_of(name: &str, field: &str) -> bool {
    let (name, field) = (name.as_bytes(), field.as_bytes());
    let field = if let [b'r', b'#', keyword @ ..] = field { keyword } else { field };
    let mut index = 0;
    while index < name.len() && index < field.len() && name[index] == field[index] {
        index += 1;
    }
    index == name.len() && index == field.len()
}

/// Makes the settings of a list of plain directives: see the grammar and an example in `settings.rs` of this crate.
#[macro_export]
macro_rules! settings {
    (
        $(#[$settings_attribute:meta])*
        $vis:vis struct $settings:ident;
        $(#[$conf_attribute:meta])*
        $conf_vis:vis struct $conf:ident;
        $($(#[doc = $doc:literal])+ $name:ident: $type:ty = $declaration:expr,)+
    ) => {
        $(#[$settings_attribute])*
        #[derive(Clone, Debug)]
        $vis struct $settings {
            $($(#[doc = $doc])+ $vis $name: $type,)+
        }

        $(#[$conf_attribute])*
        #[derive(Clone, Debug, Default)]
        $conf_vis struct $conf {
            $($(#[doc = $doc])+ $conf_vis $name: Option<$type>,)+
        }

        // The declarations are constants of this block, so that several lists can be in one module.
        const _: () = {
            struct Declarations {
                $($name: $crate::Setting<$type>,)+
            }
            const LIST: Declarations = Declarations {
                $($name: $crate::Setting::in_field(
                    $declaration,
                    stringify!($name),
                    concat!("the directive of the field `", stringify!($name), "` has another name"),
                ),)+
            };
            const COUNT: usize = [$(stringify!($name)),+].len();

            impl $settings {
                fn defaults() -> &'static $settings {
                    static DEFAULTS: std::sync::LazyLock<$settings> =
                        std::sync::LazyLock::new(|| $settings { $($name: LIST.$name.default_value(),)+ });
                    &DEFAULTS
                }
            }

            impl Default for $settings {
                fn default() -> $settings {
                    $settings::defaults().clone()
                }
            }

            impl $conf {
                /// Returns the rows of the directives, for a module whose settings contain these.
                $conf_vis const fn rows<C: AsMut<$conf>>() -> [$crate::Directive<C>; COUNT] {
                    [$(LIST.$name.row(concat!($($doc),+), |conf, args| {
                        LIST.$name.apply(&mut conf.as_mut().$name, args)
                    }),)+]
                }

                /// Takes over the outer block's values that are not set here.
                $conf_vis fn inherit(&mut self, outer: &$conf) {
                    $(if self.$name.is_none() {
                        self.$name = outer.$name.clone();
                    })+
                }

                /// Returns the values, with defaults for those that are not set.
                $conf_vis fn settings(&self) -> $settings {
                    let default = $settings::defaults();
                    $settings { $($name: self.$name.as_ref().unwrap_or(&default.$name).clone(),)+ }
                }
            }

            impl AsMut<$conf> for $conf {
                fn as_mut(&mut self) -> &mut $conf {
                    self
                }
            }
        };
    };
}
