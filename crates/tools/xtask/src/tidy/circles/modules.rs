//! Reads the modules of a crate, and finds which files use which.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, ImplItemFn, Item, ItemUse, UseTree, Visibility};

use crate::language::is_for_tests;
use crate::tidy::tree::{Crate, Source};

/// Path of a module in its crate; empty for the root.
type ModulePath = Vec<String>;

/// Files of a crate, each with the files that it uses and the names that it takes from them.
pub(super) type Uses<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<String>>>;

/// A module: a file, or an inline module of a file.
struct Module<'a> {
    /// Path of the file that contains the module.
    file: &'a str,
    /// Names of the items that the module defines.
    definitions: BTreeSet<String>,
    /// Names that a macro may define in the module.
    generated: BTreeSet<String>,
    code: Code,
}

/// The imports of a piece of code, and the paths that it names besides them.
#[derive(Default)]
struct Code {
    imports: Vec<Import>,
    paths: Vec<Vec<String>>,
}

/// An imported path.
struct Import {
    /// Name under which the path is imported; `None` imports everything below the path.
    name: Option<String>,
    path: Vec<String>,
    /// `true` if other modules can take the name from this one.
    is_public: bool,
}

/// The modules of a crate.
#[derive(Default)]
pub(super) struct Modules<'a>(BTreeMap<ModulePath, Module<'a>>);

impl<'a> Modules<'a> {
    /// Reads the modules of a crate's library, or of its program if it has no library.
    pub(super) fn read(krate: &'a Crate) -> Self {
        let has_library = krate.sources.iter().any(|source| source.path.ends_with("/src/lib.rs"));
        let mut modules = Self::default();
        for source in krate.sources.iter().filter(|source| !source.is_test()) {
            let Some(path) = module_path(source) else { continue };
            // A program beside a library is a crate of its own, and uses the library by its name.
            if has_library && source.path.ends_with("/src/main.rs") {
                continue;
            }
            // A file that cannot be parsed is a problem of the language check.
            if let Ok(file) = syn::parse_file(&source.text) {
                modules.add_module(&source.path, path, &file.items);
            }
        }
        modules
    }

    fn add_module(&mut self, file: &'a str, path: ModulePath, items: &[Item]) {
        let mut definitions = BTreeSet::new();
        let mut generated = BTreeSet::new();
        let mut code = Code::default();
        for item in items.iter().filter(|item| !is_for_tests(item_attributes(item))) {
            if let Item::Mod(inner) = item {
                let inner_path = path.iter().cloned().chain([inner.ident.to_string()]).collect();
                if let Some((_, items)) = &inner.content {
                    self.add_module(file, inner_path, items);
                }
                continue;
            }
            definitions.extend(defined_name(item).map(Ident::to_string));
            if let Item::Macro(item) = item {
                collect_generated(item.mac.tokens.clone(), item.ident.is_none(), &mut generated);
            }
            code.visit_item(item);
        }
        self.0.insert(path, Module { file, definitions, generated, code });
    }

    /// Finds which files use which.
    pub(super) fn find_uses(&self) -> Uses<'a> {
        let mut uses = Uses::new();
        for (path, module) in &self.0 {
            // A re-export alone uses nothing; if the code names what it re-exports, it names it by a path.
            let imports =
                module.code.imports.iter().filter(|import| !import.is_public && import.name.is_some());
            for named in imports.map(|import| &import.path).chain(&module.code.paths) {
                let Some(file) = self.find_definition(path, named, &mut BTreeSet::new()) else { continue };
                if let Some(name) = named.last().filter(|_| file != module.file) {
                    uses.entry(module.file).or_default().entry(file).or_default().insert(name.clone());
                }
            }
        }
        uses
    }

    /// Returns the file that defines what `named` names in the module `from`; `None` if no file of this crate
    /// does. `tried` contains the names that are being looked up, by module.
    fn find_definition(
        &self,
        from: &[String],
        named: &[String],
        tried: &mut BTreeSet<(ModulePath, String)>,
    ) -> Option<&'a str> {
        let (path, rest) = self.enter_modules(from, named);
        let (name, after) = rest.split_first()?;
        let module = self.0.get(&path)?;
        if module.definitions.contains(name) {
            return Some(module.file);
        }
        // Modules may import each other's names, and an import may have the name of a foreign crate.
        if tried.insert((path.clone(), name.clone())) {
            // A name that is imported by itself takes precedence over one behind a glob.
            let by_name = module.code.imports.iter().filter(|import| import.name.is_some());
            let by_glob = module.code.imports.iter().filter(|import| import.name.is_none());
            for import in by_name.chain(by_glob) {
                let below = match &import.name {
                    Some(imported) if imported == name => after,
                    Some(_) => continue,
                    None => rest,
                };
                let target: Vec<String> = import.path.iter().chain(below).cloned().collect();
                if let Some(file) = self.find_definition(&path, &target, tried) {
                    return Some(file);
                }
            }
        }
        module.generated.contains(name).then_some(module.file)
    }

    /// Follows a path through the modules of the crate. Returns the last module and the rest of the path, of
    /// which at least the last name is left.
    fn enter_modules<'p>(&self, from: &[String], named: &'p [String]) -> (ModulePath, &'p [String]) {
        let (mut path, mut rest) = (from.to_vec(), named);
        while let [name, after @ ..] = rest {
            if after.is_empty() {
                break;
            }
            match name.as_str() {
                "crate" => path.clear(),
                "self" => {}
                "super" => {
                    path.pop();
                }
                _ => {
                    path.push(name.clone());
                    if !self.0.contains_key(&path) {
                        path.pop();
                        break;
                    }
                }
            }
            rest = after;
        }
        (path, rest)
    }
}

/// Returns the path of the module that a file contains; `None` for a file outside `src`.
fn module_path(source: &Source) -> Option<ModulePath> {
    let (_, below) = source.path.split_once("/src/")?;
    let mut path: ModulePath = below.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|name| ["lib", "main", "mod"].contains(&name.as_str())) {
        path.pop();
    }
    Some(path)
}

impl<'ast> Visit<'ast> for Code {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(item_attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        self.add_imports(&item.tree, &[], is_public);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        // The paths in a `macro_rules!` belong to the places that call the macro.
        if item.ident.is_none() {
            visit::visit_item_macro(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        // Generic arguments contain paths, too.
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        collect_paths(call.tokens.clone(), &mut self.paths);
    }
}

impl Code {
    fn add_imports(&mut self, tree: &UseTree, above: &[String], is_public: bool) {
        let below = |name: &Ident| above.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(tree) => self.add_imports(&tree.tree, &below(&tree.ident), is_public),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_imports(tree, above, is_public));
            }
            UseTree::Glob(_) => self.imports.push(Import { name: None, path: above.to_vec(), is_public }),
            // `a::{self}` imports `a`.
            UseTree::Name(one) if one.ident == "self" => {
                let name = above.last().cloned();
                self.imports.extend(name.map(|name| Import {
                    name: Some(name),
                    path: above.to_vec(),
                    is_public,
                }));
            }
            UseTree::Name(one) => {
                let name = Some(one.ident.to_string());
                self.imports.push(Import { name, path: below(&one.ident), is_public });
            }
            UseTree::Rename(one) => {
                let path = if one.ident == "self" { above.to_vec() } else { below(&one.ident) };
                self.imports.push(Import { name: Some(one.rename.to_string()), path, is_public });
            }
        }
    }
}

/// Returns the name that an item defines in its module.
fn defined_name(item: &Item) -> Option<&Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Macro(item) => item.ident.as_ref(),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Collects the names that a macro may define: those after a keyword such as `struct`, and in a call every
/// name.
fn collect_generated(tokens: TokenStream, is_call: bool, names: &mut BTreeSet<String>) {
    let mut is_defined = false;
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                let name = name.to_string();
                let is_keyword = matches!(
                    name.as_str(),
                    "const" | "enum" | "fn" | "static" | "struct" | "trait" | "type" | "union"
                );
                if is_call || is_defined {
                    names.insert(name);
                }
                is_defined = is_keyword;
            }
            TokenTree::Group(group) => collect_generated(group.stream(), is_call, names),
            TokenTree::Punct(_) | TokenTree::Literal(_) => is_defined = false,
        }
    }
}

/// Collects the paths in the tokens of a macro call, which need not be Rust.
fn collect_paths(tokens: TokenStream, paths: &mut Vec<Vec<String>>) {
    let mut path = Vec::new();
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                if colons != 2 {
                    paths.push(std::mem::take(&mut path));
                }
                path.push(name.to_string());
                colons = 0;
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
            TokenTree::Group(group) => {
                colons = 0;
                paths.push(std::mem::take(&mut path));
                collect_paths(group.stream(), paths);
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {
                colons = 0;
                paths.push(std::mem::take(&mut path));
            }
        }
    }
    paths.push(path);
}
