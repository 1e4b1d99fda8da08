//! Parses the sources and lists their definitions and doc comments as plain data.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, Lit, Meta, Visibility};

use crate::tidy::tree::{Source, Tree};

/// Definitions and doc comments of the workspace, without those of its tests.
#[derive(Default)]
pub(crate) struct Syntax {
    pub(crate) definitions: Vec<Definition>,
    pub(crate) docs: Vec<Doc>,
    /// Number of files with non-test code.
    pub(crate) files: usize,
    /// Number of lines in the non-test part of these files.
    pub(crate) lines: usize,
    /// Number of lines that are plain `//` comments.
    pub(crate) comment_lines: usize,
    /// Descriptions of the files that cannot be parsed, one sentence per file.
    pub(crate) unreadable: Vec<String>,
}

/// A named definition in the sources.
pub(crate) struct Definition {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) line: usize,
}

/// Kind of a definition. The measurement distinguishes only functions from other items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A free function or a method.
    Function,
    /// Any other named item: a type, trait, constant, static, module, macro, field or variant.
    Other,
}

/// A doc comment and the item that it documents.
pub(crate) struct Doc {
    /// Name of the documented item, or the path of the file if the comment documents a module.
    pub(crate) item: String,
    /// Text of the comment, joined into one line.
    pub(crate) text: String,
    pub(crate) path: String,
    pub(crate) line: usize,
    /// `true` if the item is visible outside its module.
    pub(crate) public: bool,
}

impl Syntax {
    /// Parses every source file of the workspace except tests.
    pub(crate) fn read(tree: &Tree) -> Self {
        let mut syntax = Self::default();
        for source in tree.crates.iter().flat_map(|krate| &krate.sources) {
            if source.path.contains("/src/") && !source.is_test() {
                syntax.add(source);
            }
        }
        syntax
    }

    fn add(&mut self, source: &Source) {
        let file = match syn::parse_file(&source.text) {
            Ok(file) => file,
            Err(error) => {
                let line = line_of(error.span());
                self.unreadable.push(format!("{}:{line} is not Rust: {error}", source.path));
                return;
            }
        };
        let lines = source.production_text();
        self.files += 1;
        self.lines += lines.len();
        let is_plain = |line: &&&str| {
            let line = line.trim_start();
            line.starts_with("//") && !line.starts_with("///") && !line.starts_with("//!")
        };
        self.comment_lines += lines.iter().filter(is_plain).count();
        let mut visitor = Visitor { path: &source.path, in_variant: false, syntax: self };
        visitor.document(&source.path, &file.attrs, true);
        visitor.visit_file(&file);
    }
}

struct Visitor<'a> {
    path: &'a str,
    /// `true` while the fields of an enum variant are visited, which are as visible as their enum.
    in_variant: bool,
    syntax: &'a mut Syntax,
}

impl Visitor<'_> {
    fn define(&mut self, kind: Kind, name: &syn::Ident) {
        let (name, line) = (name.to_string(), line_of(name.span()));
        self.syntax.definitions.push(Definition { kind, name, path: self.path.to_owned(), line });
    }

    fn document(&mut self, item: &str, attributes: &[Attribute], public: bool) {
        let lines: Vec<_> = attributes.iter().filter_map(doc_line).collect();
        let text = lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            return;
        }
        let is_doc = |attribute: &&Attribute| attribute.path().is_ident("doc");
        let line = attributes.iter().find(is_doc).map_or(0, |attribute| line_of(attribute.span()));
        self.syntax.docs.push(Doc { item: item.to_owned(), text, path: self.path.to_owned(), line, public });
    }

    fn add(&mut self, kind: Kind, name: &syn::Ident, attributes: &[Attribute], public: bool) {
        self.define(kind, name);
        self.document(&name.to_string(), attributes, public);
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item;
        let (kind, name, attributes, visibility) = match item {
            Item::Fn(item) => (Kind::Function, Some(&item.sig.ident), &item.attrs, Some(&item.vis)),
            Item::Struct(item) => (Kind::Other, Some(&item.ident), &item.attrs, Some(&item.vis)),
            Item::Enum(item) => (Kind::Other, Some(&item.ident), &item.attrs, Some(&item.vis)),
            Item::Trait(item) => (Kind::Other, Some(&item.ident), &item.attrs, Some(&item.vis)),
            Item::Type(item) => (Kind::Other, Some(&item.ident), &item.attrs, Some(&item.vis)),
            Item::Const(item) => (Kind::Other, Some(&item.ident), &item.attrs, Some(&item.vis)),
            Item::Static(item) => (Kind::Other, Some(&item.ident), &item.attrs, Some(&item.vis)),
            Item::Mod(item) => (Kind::Other, Some(&item.ident), &item.attrs, Some(&item.vis)),
            Item::Macro(item) => (Kind::Other, item.ident.as_ref(), &item.attrs, None),
            Item::Impl(item) => (Kind::Other, None, &item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if is_for_tests(attributes) {
            return;
        }
        if let Some(name) = name {
            self.add(kind, name, attributes, visibility.is_some_and(is_public));
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            self.add(Kind::Function, &item.sig.ident, &item.attrs, is_public(&item.vis));
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.add(Kind::Other, &item.ident, &item.attrs, is_public(&item.vis));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.add(Kind::Function, &item.sig.ident, &item.attrs, true);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.add(Kind::Other, &variant.ident, &variant.attrs, true);
        self.in_variant = true;
        visit::visit_variant(self, variant);
        self.in_variant = false;
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            let public = self.in_variant || is_public(&field.vis);
            self.add(Kind::Other, name, &field.attrs, public);
        }
    }
}

fn line_of(span: proc_macro2::Span) -> usize {
    span.start().line
}

/// Returns the text of a `///` or `//!` line, or `None` for any other attribute.
fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(value) = &attribute.meta else { return None };
    match &value.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if value.path.is_ident("doc") => Some(text.value()),
        _ => None,
    }
}

/// Returns `true` if attributes say that an item is compiled only for tests.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            // Code under `cfg(not(test))` belongs to the program.
            let condition = list.tokens.to_string();
            condition.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
                && !condition.contains("not")
        }
        meta => meta.path().segments.last().is_some_and(|segment| segment.ident == "test"),
    })
}

fn is_public(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}
