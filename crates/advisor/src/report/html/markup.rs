//! Writing HTML so that escaping cannot be forgotten: a value reaches the page only through [`put!`], which escapes
//! everything that is not [`Raw`].

use std::fmt::{self, Write as _};

use super::super::text::escape;

/// A page being written.
#[derive(Debug, Default)]
pub(super) struct Page(String);

/// Markup of ours. Only text of this program can be one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw(pub(super) &'static str);

/// What [`put!`] may write.
pub(super) trait Value {
    /// Appends the value in its escaped form.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// A value on its way into markup.
pub(super) struct Shown<'a, T: ?Sized>(pub(super) &'a T);

impl Page {
    /// Appends markup of ours.
    pub(super) fn raw(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    /// For [`put!`].
    pub(super) fn write(&mut self, markup: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.0.write_fmt(markup);
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

/// `put!(page, "markup {}", value)`: literal markup with escaped values.
macro_rules! put {
    ($page:expr, $markup:literal $(, $value:expr)* $(,)?) => {
        $page.write(format_args!($markup $(, $crate::report::html::markup::Shown(&$value))*))
    };
}
pub(super) use put;

impl<T: Value + ?Sized> fmt::Display for Shown<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show(f)
    }
}

impl Value for str {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(self))
    }
}

impl Value for String {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().show(f)
    }
}

impl Value for u64 {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Value for Raw {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<T: Value + ?Sized> Value for &T {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).show(f)
    }
}
