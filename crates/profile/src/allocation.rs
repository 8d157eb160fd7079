//! Frames that only pass a request for memory on: allocators, and the parts of standard libraries above them.
//!
//! Every stack of a heap profile ends in them, so they say nothing about the program. A heap profile lists them as its
//! `drop_frames`, and every reader then names the function that needed the memory.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::Profile;
use crate::dropped::matching_functions;

/// Functions of one module of a Rust library.
struct ModuleFunctions {
    module: &'static str,
    /// Their last names; empty for everything in the module.
    names: &'static [&'static str],
    /// Whether they are meant only for items whose copies run no code of the program.
    is_of_plain_items: bool,
}

const fn functions(module: &'static str, names: &'static [&'static str]) -> ModuleFunctions {
    ModuleFunctions { module, names, is_of_plain_items: false }
}

const fn of_plain_items(module: &'static str, names: &'static [&'static str]) -> ModuleFunctions {
    ModuleFunctions { module, names, is_of_plain_items: true }
}

/// What creates a `Box`, `Arc` or `Rc`.
const NEW: &[&str] = &[
    "new",
    "new_in",
    "new_uninit",
    "new_uninit_in",
    "new_uninit_slice",
    "new_uninit_slice_in",
    "new_zeroed",
    "new_zeroed_in",
    "try_new_uninit",
    "try_new_uninit_in",
    "pin",
    "box_new",
    "allocate_for_layout",
    "allocate_for_slice",
];

/// Every function of Rust's libraries that only passes a request on.
///
/// pprof removes a matching frame *and everything that it calls*, so no function here can call the program's code:
/// neither `Vec::extend`, which calls an iterator, nor `fmt::format`, which calls `Display`, nor `HashMap::insert`, which
/// calls `Hash`, nor `to_vec`, which calls `Clone` unless the items are plain.
const RUST: &[ModuleFunctions] = &[
    functions("alloc::alloc", &[]),
    functions("alloc::raw_vec", &[]),
    functions("std::alloc", &[]),
    functions("std::sys::alloc", &[]),
    functions("hashbrown::alloc", &[]),
    functions("hashbrown::raw::alloc", &[]),
    functions("alloc::boxed", NEW),
    functions("alloc::sync", NEW),
    functions("alloc::rc", NEW),
    functions(
        "alloc::vec",
        &[
            "with_capacity",
            "with_capacity_in",
            "try_with_capacity",
            "try_with_capacity_in",
            "reserve",
            "reserve_exact",
            "try_reserve",
            "try_reserve_exact",
            "push",
            "push_mut",
            "insert",
            "insert_mut",
            "append",
            "split_off",
            "shrink_to",
            "shrink_to_fit",
            "into_boxed_slice",
        ],
    ),
    of_plain_items("alloc::vec", &["from_elem", "clone", "extend_from_slice"]),
    of_plain_items("alloc::vec::spec_from_elem", &["from_elem"]),
    of_plain_items("alloc::slice", &["to_vec", "to_vec_in", "to_owned"]),
    of_plain_items("alloc::slice::hack", &["to_vec"]),
    functions(
        "alloc::string",
        &[
            "with_capacity",
            "reserve",
            "reserve_exact",
            "try_reserve",
            "push",
            "push_str",
            "insert",
            "insert_str",
            "shrink_to_fit",
            "into_boxed_str",
            "write_str",
            "write_char",
            "clone",
            "from",
        ],
    ),
    functions("alloc::str", &["to_owned", "to_lowercase", "to_uppercase", "repeat", "into_string"]),
    functions(
        "alloc::collections::vec_deque",
        &[
            "grow",
            "push_back",
            "push_front",
            "push_back_mut",
            "push_front_mut",
            "with_capacity",
            "with_capacity_in",
            "reserve",
        ],
    ),
    functions(
        "alloc::collections::btree::node",
        &["new", "new_leaf", "new_internal", "new_uninit_in", "from_new_internal"],
    ),
    functions(
        "hashbrown::raw",
        &[
            "new_uninitialized",
            "fallible_with_capacity",
            "prepare_resize",
            "with_capacity",
            "with_capacity_in",
            "try_with_capacity_in",
        ],
    ),
    functions("hashbrown::map", &["with_capacity", "with_capacity_and_hasher"]),
    functions("hashbrown::set", &["with_capacity", "with_capacity_and_hasher"]),
    functions("std::collections::hash::map", &["with_capacity", "with_capacity_and_hasher"]),
    functions("std::collections::hash::set", &["with_capacity", "with_capacity_and_hasher"]),
];

/// Types whose copies run no code of the program.
const PLAIN: &[&str] = &[
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64",
    "bool", "char",
];

/// What the table does not cover. `*` stands for anything, `~` for small letters, digits and underscores, `{a,b}` for either,
/// and `PLAIN` for any plain type.
const OTHERS: &[&str] = &[
    "{,__rustc::}__{rust,rdl,rg}_{alloc,alloc_zeroed,realloc,dealloc}",
    "__rustc[~]::__{rust,rdl,rg}_{alloc,alloc_zeroed,realloc,dealloc}",
    "<* as core::alloc::{,global::}{GlobalAlloc,Allocator}>::*",
    "<PLAIN as alloc::vec::spec_from_elem::SpecFromElem>::from_elem*",
    "<alloc::vec::Vec<PLAIN> as core::clone::Clone>::clone",
    "<alloc::vec::Vec<PLAIN>>::extend_from_slice",
    "<alloc::string::String as core::{clone::Clone,fmt::Write,convert::From<&str>,convert::From<&mut str>}>::~",
    "<str as alloc::{borrow::ToOwned,string::ToString,string::SpecToString}>::~",
    "{<str>,alloc::str::<impl str>}::{to_lowercase,to_uppercase,repeat,into_string}",
    "<[PLAIN] as alloc::borrow::ToOwned>::to_owned",
    "<[PLAIN] as alloc::borrow::ToOwned>::to_owned::*",
    "<[PLAIN]>::{to_vec,to_vec_in,into_vec,repeat}",
    "<[PLAIN]>::{to_vec,to_vec_in,into_vec,repeat}::*",
    "<PLAIN as *ConvertVec>::to_vec*",
    "operator new{,[]}",
    "{std,__gnu_cxx}::{,__}{new_allocator,allocator,allocator_traits}<*>::allocate",
    "std::_Vector_base<*>::_M_allocate",
    "std::{,__cxx11::}basic_string<*>::_M_create",
    "{_rjem_,je_,prof_backtrace}*",
    "{,_}mi_~alloc",
    "{,_}mi_~alloc_*",
    "{,_}mi_new",
    "{,_}mi_new_*",
    "{,__libc_}{malloc,calloc,realloc,memalign}",
    "{reallocarray,posix_memalign,aligned_alloc}",
];

/// Returns an expression for frames that only pass a request for memory on, as pprof's `drop_frames` take it: it has to
/// match the whole name.
pub fn allocation_frames() -> String {
    let plain = format!("(?:{})", PLAIN.join("|"));
    let others = others().map(|pattern| expression(&pattern));
    RUST.iter().map(|functions| functions.expression(&plain)).chain(others).collect::<Vec<_>>().join("|")
}

fn others() -> impl Iterator<Item = String> {
    let plain = format!("{{{}}}", PLAIN.join(","));
    OTHERS.iter().map(move |pattern| pattern.replace("PLAIN", &plain))
}

/// Returns the regular expression for a pattern of [`OTHERS`].
fn expression(pattern: &str) -> String {
    let mut text = String::new();
    let mut is_choice = false;
    for letter in pattern.chars() {
        match letter {
            '*' => text += ".*",
            '~' => text += "[a-z0-9_]*",
            '{' => text += "(?:",
            '}' => text.push(')'),
            ',' if is_choice => text.push('|'),
            letter => text += &escaped(letter.encode_utf8(&mut [0; 4])),
        }
        is_choice = letter == '{' || (is_choice && letter != '}');
    }
    text
}

/// Returns whether a pattern of [`OTHERS`] fits the whole name.
fn fits(pattern: &str, name: &str) -> bool {
    let Some(first) = pattern.chars().next() else { return name.is_empty() };
    let rest = &pattern[first.len_utf8()..];
    match first {
        '*' | '~' => {
            let is_end = |letter: char| first == '~' && !matches!(letter, 'a'..='z' | '0'..='9' | '_');
            let longest = name.find(is_end).unwrap_or(name.len());
            let mut ends = (0..=longest).filter(|end| name.is_char_boundary(*end));
            ends.any(|end| fits(rest, &name[end..]))
        }
        '{' => {
            let (choices, rest) = rest.split_once('}').unwrap_or((rest, ""));
            let mut left = choices.split(',').filter_map(|choice| name.strip_prefix(choice));
            left.any(|left| fits(rest, left))
        }
        letter => name.strip_prefix(letter).is_some_and(|left| fits(rest, left)),
    }
}

impl ModuleFunctions {
    /// The names come in three forms: `<alloc::vec::Vec<T>>::push`, `alloc::vec::Vec<T,A>::push` and, of a function whose
    /// path was made of its file, `alloc::vec::push<T>`.
    fn expression(&self, plain: &str) -> String {
        // Excludes ` as`: `<Vec<T> as Trait<U>>::push` is the program's own code.
        const INSIDE: &str = "(?:[^ ]| [^a]| a[^s])*";
        let Self { module, names, is_of_plain_items } = self;
        if names.is_empty() {
            return format!("<?{module}::.*");
        }
        let names = names.join("|");
        match is_of_plain_items {
            true => format!("{module}::(?:{names})(?:::)?<{plain}(?:, .*)?>"),
            false => {
                format!(r"<?{module}::(?:[A-Z][A-Za-z]*(?:<{INSIDE}>)?>?::)?(?:{names})(?:(?:::)?<.*>)?")
            }
        }
    }

    /// Returns whether [`expression`](Self::expression) matches the whole name.
    fn matches(&self, name: &str) -> bool {
        let Self { module, names, is_of_plain_items } = self;
        let name = if *is_of_plain_items { name } else { name.strip_prefix('<').unwrap_or(name) };
        let Some(rest) = name.strip_prefix(module).and_then(|rest| rest.strip_prefix("::")) else {
            return false;
        };
        if names.is_empty() {
            return true;
        }
        let is_named = |rest: &str| {
            let (last, arguments) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
            let has_arguments = arguments.ends_with('>');
            let last = if has_arguments { last.strip_suffix("::").unwrap_or(last) } else { last };
            let first = arguments.trim_start_matches('<').split([',', '>']).next().unwrap_or_default();
            let fits = if *is_of_plain_items {
                PLAIN.contains(&first)
            } else {
                arguments.is_empty() || has_arguments
            };
            names.contains(&last) && fits
        };
        let of_a_type = |(at, _): (usize, &str)| is_type(&rest[..at]) && is_named(&rest[at + 2..]);
        is_named(rest) || (!is_of_plain_items && rest.match_indices("::").any(of_a_type))
    }

    /// Returns whether a function of `module` with this last name is one of these.
    fn has(&self, module: &str, name: &str) -> bool {
        let (last, arguments) = name.split_once('<').unwrap_or((name, ""));
        if self.names.is_empty() {
            return module == self.module || module.starts_with(&format!("{}::", self.module));
        }
        let first = arguments.split([',', '>']).next().unwrap_or_default();
        let fits = !self.is_of_plain_items || PLAIN.contains(&first);
        module == self.module && self.names.contains(&last) && fits
    }
}

/// Returns whether the text is the name of a type without its module, with its arguments if it has some: `Vec<u8>>`.
fn is_type(text: &str) -> bool {
    let end = text.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (name, arguments) = text.split_at(end);
    let is_closed = arguments.starts_with('<') && arguments.ends_with('>');
    // `<Vec<T> as Trait<U>>::push` is the program's own code.
    let fits = matches!(arguments, "" | ">") || (is_closed && !arguments.contains(" as"));
    name.starts_with(|letter: char| letter.is_ascii_uppercase()) && fits
}

/// The most bytes of names that are added to the expression.
const LONGEST_NAMES: usize = 8 << 10;

impl Profile {
    /// Removes the frames that only pass a request for memory on, if the profile calls them uninteresting: does what
    /// `drop_uninteresting` does to a heap profile of flamelet, without regular expressions.
    pub fn drop_allocation_frames(&mut self) {
        let (pattern, base) = (self.string(self.header.drop_frames), allocation_frames());
        let Some((_, added)) = pattern.split_once(&base) else { return };
        let added: Vec<&str> = added.split('|').filter(|name| !name.is_empty()).collect();
        let others: Vec<String> = others().collect();
        let is_allocation = |name: &str| {
            RUST.iter().any(|functions| functions.matches(name))
                || others.iter().any(|pattern| fits(pattern, name))
                || added.contains(&escaped(name).as_str())
        };
        let functions = matching_functions(self, is_allocation);
        self.drop_below(&functions);
    }

    /// Completes the `drop_frames` of a heap profile with functions that have only their last name, as inlined ones do
    /// (`with_capacity<u8>`). `module_of` returns the module of such a function from its name and its file. A name is
    /// left out if another function, which must stay, has it too.
    ///
    /// Does nothing unless the profile's `drop_frames` contain [`allocation_frames`].
    pub fn complete_allocation_frames(&mut self, module_of: impl Fn(&str, &str) -> Option<String>) {
        let (pattern, base) = (self.string(self.header.drop_frames), allocation_frames());
        let Some(added) = pattern.split_once(&base).map(|(_, added)| added) else { return };
        let mut names: HashMap<&str, bool, FxBuildHasher> = HashMap::default();
        for function in &self.functions {
            let (name, file) = (self.string(function.name), self.string(function.filename));
            let module = module_of(name, file);
            let is_allocation =
                module.is_some_and(|module| RUST.iter().any(|functions| functions.has(&module, name)));
            let known = names.entry(before_parenthesis(name)).or_insert(true);
            *known &= is_allocation;
        }
        let names = names.into_iter().filter(|(_, is_allocation)| *is_allocation);
        let mut names: Vec<String> = names.map(|(name, _)| escaped(name)).collect();
        names.retain(|name| !name.is_empty() && !added.split('|').any(|known| known == name));
        names.sort_unstable();
        let mut completed = pattern.to_owned();
        let longest = pattern.len() - added.len() + LONGEST_NAMES;
        for name in names {
            if completed.len() + name.len() < longest {
                completed.push('|');
                completed.push_str(&name);
            }
        }
        self.header.drop_frames = self.intern(&completed);
    }
}

/// Returns the part of a name that pprof compares with `drop_frames`: it cuts argument lists off, and takes a tuple for
/// one.
fn before_parenthesis(name: &str) -> &str {
    name.split('(').next().unwrap_or(name)
}

/// Returns an expression that matches exactly `name`.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

#[cfg(all(test, feature = "filter"))]
mod tests {
    use regex::Regex;

    use super::*;
    use crate::ProfileBuilder;

    fn is_allocation(name: &str) -> bool {
        RUST.iter().any(|functions| functions.matches(name)) || others().any(|pattern| fits(&pattern, name))
    }

    #[test]
    fn what_passes_requests_on_is_dropped_and_what_calls_the_program_stays() {
        let expression = Regex::new(&format!("^(?:{})$", allocation_frames())).expect("valid");
        for name in [
            "alloc::alloc::alloc",
            "<alloc::alloc::Global>::alloc_impl",
            "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
            "alloc::alloc::exchange_malloc",
            "alloc::raw_vec::RawVec<T,A>::grow_one",
            "<alloc::raw_vec::RawVec<shop::Item>>::grow_one",
            "alloc::raw_vec::finish_grow",
            "__rust_alloc",
            "__rustc::__rust_realloc",
            "__rustc[0123456789abcdef]::__rdl_alloc",
            "std::sys::alloc::unix::<impl core::alloc::global::GlobalAlloc for std::alloc::System>::alloc",
            "<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc",
            "<shop::Counting as core::alloc::global::GlobalAlloc>::alloc",
            "<alloc::vec::Vec<u8>>::with_capacity",
            "<alloc::vec::Vec<alloc::string::String>>::push",
            "<alloc::vec::Vec<u8>>::try_with_capacity_in",
            "alloc::vec::Vec<T,A>::reserve",
            "alloc::vec::from_elem::<u8>",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem::<alloc::alloc::Global>",
            "<alloc::boxed::Box<shop::Cart>>::new",
            "alloc::boxed::Box<T>::new",
            "<alloc::sync::Arc<shop::Cart>>::new",
            "<alloc::string::String>::push_str",
            "<alloc::string::String as core::clone::Clone>::clone",
            "<alloc::string::String as core::fmt::Write>::write_str",
            "<alloc::string::String as core::convert::From<&str>>::from",
            "<str as alloc::borrow::ToOwned>::to_owned",
            "<[u8]>::to_vec",
            "<alloc::collections::vec_deque::VecDeque<shop::Job>>::grow",
            "<hashbrown::raw::RawTableInner>::new_uninitialized::<alloc::alloc::Global>",
            "operator new",
            "operator new[]",
            "_rjem_malloc",
            "malloc",
            "mi_heap_malloc_small",
            "_mi_malloc_generic",
            "mi_new",
            "<u8 as alloc::slice::hack::ConvertVec>::to_vec::<alloc::alloc::Global>",
            "__gnu_cxx::new_allocator<char>::allocate",
            "alloc::vec::push<u8>",
            "<alloc::vec::Vec<(u8, u8)>>::push",
        ] {
            assert!(expression.is_match(name), "{name} stays");
            assert!(is_allocation(name), "{name} stays without regular expressions");
        }
        for name in [
            "shop::handle",
            "shop::alloc::alloc",
            "<alloc::vec::Vec<shop::Item> as shop::Stack<u8>>::push",
            "<alloc::vec::Vec<T> as core::iter::traits::collect::Extend<T>>::extend",
            "<alloc::vec::Vec<shop::Item> as core::clone::Clone>::clone",
            "<alloc::boxed::Box<T> as core::ops::function::FnOnce<A>>::call_once",
            "<alloc::sync::Arc<shop::Cart>>::new_cyclic::<shop::main::{closure#0}>",
            "alloc::vec::from_elem::<shop::Cart>",
            "alloc::vec::from_elem",
            "alloc::fmt::format",
            "alloc::fmt::format::format_inner",
            "core::fmt::write",
            "<T as alloc::string::ToString>::to_string",
            "alloc::slice::<impl [T]>::to_vec",
            "hashbrown::raw::RawTable<T,A>::reserve_rehash",
            "std::thread::Builder::spawn",
            "free_list",
            "malloc_trim_loop",
            "mi_crate::pool::alloc",
            "alloc::vec::Vec<T> as core::ops::Deref>::push",
            "<alloc::vec::Vec<T>>::push_all",
        ] {
            assert!(!expression.is_match(name), "{name} is dropped");
            assert!(!is_allocation(name), "{name} is dropped without regular expressions");
        }
    }

    #[test]
    fn frames_are_dropped_as_with_regular_expressions() {
        let names = ["alloc::alloc::alloc", "reserve<(u8, u8)>", "shop::keep", "<alloc::vec::Vec<u8>>::push"];
        let mut builder = ProfileBuilder::new(&[("inuse_space", "bytes")]);
        builder.set_drop_frames(&format!("{}|reserve<", allocation_frames()));
        let frames = names.map(|name| {
            let function = builder.named_function(name, "");
            builder.frame(function, 1)
        });
        for stack in [&frames[..], &frames[..3], &frames[..2], &frames[2..]] {
            let stack = builder.stack(stack);
            builder.sample(stack, Default::default(), &[1]);
        }
        let profile = builder.finish();
        let (mut plainly, mut expected) = (profile.clone(), profile);
        plainly.drop_allocation_frames();
        expected.drop_uninteresting().expect("valid");
        let stacks = |profile: &crate::Profile| -> Vec<usize> {
            profile.samples().map(|sample| profile.stack(sample.stack).len()).collect()
        };
        assert_eq!(stacks(&plainly), stacks(&expected));
        // The outermost frame that needs memory stays, also below one that only passes requests on.
        assert_eq!(stacks(&plainly), [2, 1, 2, 2]);
    }

    #[test]
    fn last_names_are_added_unless_the_program_has_them_too() {
        let mut builder = ProfileBuilder::new(&[("inuse_space", "bytes")]);
        builder.set_drop_frames(&allocation_frames());
        for (name, file) in [
            ("with_capacity<u8>", "alloc::vec"),
            ("push<(u8, u8), alloc::alloc::Global>", "alloc::vec"),
            ("alloc", "alloc::alloc"),
            ("alloc", "shop::arena"),
            ("to_vec<shop::Cart>", "alloc::slice"),
            ("extend<u8>", "alloc::vec"),
        ] {
            builder.named_function(name, file);
        }
        let mut profile = builder.finish();
        for _ in 0..2 {
            profile.complete_allocation_frames(|_, file| Some(file.to_owned()));
            let expected = format!("{}|push<|with_capacity<u8>", allocation_frames());
            assert_eq!(profile.string(profile.header.drop_frames), expected);
        }
    }
}
