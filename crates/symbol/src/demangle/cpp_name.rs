//! The names of C++ functions without the arguments of functions and templates: `rocksdb::DBImpl::Write`. A service names the
//! C++ libraries that are linked into it by this; a whole demangler would be a tenth of all that flamelet adds to it. The
//! mangled name stays in the profile, for readers that show all of it.
//!
//! The grammar is that of the Itanium C++ ABI. What is rare (expressions, `decltype`) is not understood, and such a name is
//! left as it is.

/// Deeper nesting is not followed.
const DEEPEST: usize = 64;

/// Returns the name of a mangled function; `None` if it is not one, or not a usual one.
pub fn cpp_name(symbol: &str) -> Option<String> {
    let mangled = symbol.strip_prefix("_Z").or_else(|| symbol.strip_prefix("__Z"))?;
    let mut parser = Parser { rest: mangled.as_bytes(), name: String::new(), is_skipping: false, depth: 0 };
    parser.name()?;
    Some(parser.name).filter(|name| !name.is_empty())
}

struct Parser<'a> {
    rest: &'a [u8],
    name: String,
    /// What is being read is no part of the name.
    is_skipping: bool,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> u8 {
        self.rest.first().copied().unwrap_or(0)
    }

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == byte;
        if is_next {
            self.rest = &self.rest[1..];
        }
        is_next
    }

    fn skip_while(&mut self, is_part: impl Fn(u8) -> bool) {
        let end = self.rest.iter().position(|&byte| !is_part(byte)).unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
    }

    /// Calls `parse` one level deeper.
    fn deeper(&mut self, parse: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.depth += 1;
        let parsed = if self.depth > DEEPEST { None } else { parse(self) };
        self.depth -= 1;
        parsed
    }

    /// Calls `parse`, and forgets the names that it finds.
    fn unnamed(&mut self, parse: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let before = (std::mem::take(&mut self.name), std::mem::replace(&mut self.is_skipping, true));
        let parsed = self.deeper(parse);
        (self.name, self.is_skipping) = before;
        parsed
    }

    fn until_end(&mut self, mut parse: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        while !self.eat(b'E') {
            parse(self)?;
        }
        Some(())
    }

    /// Adds a part of the name.
    fn push(&mut self, part: &str) -> Option<()> {
        if self.name.len() + part.len() > super::LONGEST_NAME {
            return None;
        }
        if !self.name.is_empty() {
            self.name.push_str("::");
        }
        self.name.push_str(part);
        Some(())
    }

    fn name(&mut self) -> Option<()> {
        match self.peek() {
            b'N' => self.nested(),
            b'Z' => self.local(),
            b'S' => {
                let is_std = self.rest.starts_with(b"St");
                self.substitution()?;
                if is_std { self.unqualified() } else { Some(()) }
            }
            _ => self.unqualified(),
        }?;
        self.arguments()
    }

    /// `N`, qualifiers, the parts of the name, `E`.
    fn nested(&mut self) -> Option<()> {
        self.next()?;
        self.skip_while(|byte| b"rVKRO".contains(&byte));
        self.until_end(|parser| match parser.peek() {
            b'S' => parser.substitution(),
            b'T' if parser.is_skipping => parser.skip_numbered(),
            b'I' => parser.arguments(),
            _ => parser.unqualified(),
        })
    }

    /// `Z`, a function with its parameters, `E`, and what is inside it.
    fn local(&mut self) -> Option<()> {
        self.next()?;
        self.deeper(Self::name)?;
        self.until_end(Self::skip_type)?;
        match self.peek() {
            b's' => Some(()),
            b'd' => None,
            _ => self.deeper(Self::name),
        }
    }

    /// A name of the standard library. Others that were mentioned before are not kept.
    fn substitution(&mut self) -> Option<()> {
        if self.is_skipping && !self.rest.get(1)?.is_ascii_lowercase() {
            return self.skip_numbered();
        }
        self.next()?;
        let name = match self.next()? {
            b't' => "std",
            b'a' => "std::allocator",
            b'b' => "std::basic_string",
            b's' => "std::string",
            b'i' => "std::istream",
            b'o' => "std::ostream",
            b'd' => "std::iostream",
            _ => return None,
        };
        self.push(name)
    }

    fn unqualified(&mut self) -> Option<()> {
        self.eat(b'L');
        match (self.peek(), self.rest.get(1).copied().unwrap_or(0)) {
            (b'0'..=b'9', _) => {
                let part = self.source_name()?;
                self.push(if part.starts_with("_GLOBAL__N") { "(anonymous namespace)" } else { part })?;
            }
            (b'C', b'1'..=b'5') | (b'D', b'0'..=b'5') => {
                let is_destructor = self.next()? == b'D';
                self.next()?;
                let class = self.name.rsplit("::").next().filter(|class| !class.is_empty())?.to_owned();
                self.push(&if is_destructor { format!("~{class}") } else { class })?;
            }
            (b'U', b'l') => {
                self.rest = &self.rest[2..];
                self.until_end(Self::skip_type)?;
                self.skip_while(|byte| byte.is_ascii_digit());
                self.eat(b'_').then_some(())?;
                self.push("{lambda}")?;
            }
            (b'a'..=b'z', _) => self.operator()?,
            _ => return None,
        }
        while self.eat(b'B') {
            self.source_name()?;
        }
        Some(())
    }

    /// A length and as many letters.
    fn source_name(&mut self) -> Option<&'a str> {
        let mut length = 0usize;
        while self.peek().is_ascii_digit() {
            length = length.checked_mul(10)?.checked_add(usize::from(self.next()? - b'0'))?;
        }
        let (name, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        std::str::from_utf8(name).ok().filter(|name| !name.is_empty())
    }

    fn operator(&mut self) -> Option<()> {
        let code = [self.next()?, self.next()?];
        if &code == b"cv" {
            self.skip_type()?;
            return self.push("operator");
        }
        const OPERATORS: &str = "nwnew nanew[] dldelete dadelete[] plO+ miO- mlO* dvO/ rmO% anO& orO| eoO^ aSO= pLO+= mIO-= mLO*= \
                                 dVO/= rMO%= aNO&= oRO|= eOO^= lsO<< rsO>> lSO<<= rSO>>= eqO== neO!= ltO< gtO> leO<= geO>= \
                                 ssO<=> ntO! aaO&& ooO|| ppO++ mmO-- cmO, pmO->* ptO-> clO() ixO[] psO+ ngO- adO& deO* coO~";
        let code = std::str::from_utf8(&code).ok()?;
        let text = OPERATORS.split_ascii_whitespace().find_map(|entry| entry.strip_prefix(code))?;
        match text.strip_prefix('O') {
            Some(sign) => self.push(&format!("operator{sign}")),
            None => self.push(&format!("operator {text}")),
        }
    }

    /// Skips the arguments of a template, if there are any.
    fn arguments(&mut self) -> Option<()> {
        if !self.eat(b'I') {
            return Some(());
        }
        self.unnamed(|parser| parser.until_end(Self::argument))
    }

    fn argument(&mut self) -> Option<()> {
        match self.peek() {
            b'L' => {
                self.next()?;
                if self.rest.starts_with(b"_Z") {
                    return None;
                }
                self.skip_type()?;
                self.skip_while(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'n'));
                self.eat(b'E').then_some(())
            }
            b'J' | b'I' => {
                self.next()?;
                self.deeper(|parser| parser.until_end(Self::argument))
            }
            _ => self.skip_type(),
        }
    }

    fn skip_type(&mut self) -> Option<()> {
        self.unnamed(Self::any_type)
    }

    fn any_type(&mut self) -> Option<()> {
        let is_builtin = |byte: u8| b"vwbcahstijlmxynofdegz".contains(&byte);
        match self.peek() {
            byte if is_builtin(byte) => self.next().map(drop),
            b'r' | b'V' | b'K' | b'P' | b'R' | b'O' => {
                self.next()?;
                self.skip_type()
            }
            b'F' => {
                self.next()?;
                self.eat(b'Y');
                self.until_end(|parser| match parser.rest {
                    [b'R' | b'O', b'E', ..] => parser.next().map(drop),
                    _ => parser.skip_type(),
                })
            }
            b'A' => {
                self.next()?;
                self.skip_while(|byte| byte.is_ascii_digit());
                self.eat(b'_').then_some(())?;
                self.skip_type()
            }
            b'M' => {
                self.next()?;
                self.skip_type()?;
                self.skip_type()
            }
            b'D' => {
                self.next()?;
                match self.next()? {
                    b'p' | b'o' => self.skip_type(),
                    b'a' | b'c' | b'd' | b'e' | b'f' | b'h' | b'i' | b'n' | b's' | b'u' => Some(()),
                    _ => None,
                }
            }
            b'T' => self.skip_numbered(),
            b'S' if !self.rest.get(1)?.is_ascii_lowercase() => self.skip_numbered(),
            b'N' | b'Z' | b'S' | b'0'..=b'9' => self.name(),
            _ => None,
        }
    }

    /// Skips the number of something that was mentioned before, and its arguments.
    fn skip_numbered(&mut self) -> Option<()> {
        self.next()?;
        self.skip_while(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
        self.eat(b'_').then_some(())?;
        self.arguments()
    }
}

#[cfg(test)]
mod tests {
    use super::cpp_name;

    #[test]
    fn usual_names() {
        for (symbol, name) in [
            ("_ZN3foo3barEi", "foo::bar"),
            ("_Z3addii", "add"),
            ("_ZL3addii", "add"),
            ("_ZN7rocksdb6DBImpl5WriteERKNS_12WriteOptionsEPNS_10WriteBatchE", "rocksdb::DBImpl::Write"),
            ("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector::push_back"),
            ("_ZNSt3mapISsN3foo3BarESt4lessISsESaISt4pairIKSsS1_EEEixERS5_", "std::map::operator[]"),
            ("_ZSt4sortIPiEvT_S1_", "std::sort"),
            ("_ZNSs6appendEPKc", "std::string::append"),
            ("_ZN3FooC2ERKS_", "Foo::Foo"),
            ("_ZN3FooIiED0Ev", "Foo::~Foo"),
            ("_ZNK3FoocvbEv", "Foo::operator"),
            ("_Znwm", "operator new"),
            ("_ZdlPv", "operator delete"),
            ("_ZlsRSo3Foo", "operator<<"),
            ("_ZN12_GLOBAL__N_13runEv", "(anonymous namespace)::run"),
            ("_ZZN3foo3barEiENKUlvE_clEv", "foo::bar::{lambda}::operator()"),
            ("_ZN5boost3getILi0EJiRKSsEEEvRA5_KcMNS_1AEFvvE", "boost::get"),
            (
                "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6assignEPKc",
                "std::__cxx11::basic_string::assign",
            ),
        ] {
            assert_eq!(cpp_name(symbol).as_deref(), Some(name), "{symbol}");
        }
    }

    #[test]
    fn what_is_not_understood_is_left() {
        for symbol in [
            "",
            "_Z",
            "main",
            "_ZN",
            "_ZNEv",
            "_ZN3fo",
            "_ZN3fooDTclfp_EEv",
            "_ZTV3Foo",
            "_ZC1Ev",
            "_ZND0EvE",
            "_ZN99999999999999999999999fooEv",
        ] {
            assert_eq!(cpp_name(symbol), None, "{symbol}");
        }
        let deep = format!("_Z1fI{}iEvv", "P".repeat(100_000));
        assert_eq!(cpp_name(&deep), None);
        let long = format!("_ZN9000{}{}Ev", "a".repeat(9000), "C1".repeat(9000));
        assert_eq!(cpp_name(&long), None);
    }
}
