//! `cmdline` and `symbol`, which `go tool pprof` uses to name the addresses of a raw profile.

use super::answer::{self, Answer, Refusal};
use super::incoming::Incoming;
use super::plan::Plan;
use crate::Profiler;

/// The maximum number of addresses in one request.
const MOST_ADDRESSES: usize = 200_000;

/// Says that symbols are available; every answer begins with it.
pub(super) const HEADING: &str = "num_symbols: 1\n";

/// Returns the arguments of the process, separated by zero bytes, as Go does.
pub(super) fn cmdline() -> Answer {
    let arguments: Vec<_> = std::env::args_os().collect();
    let arguments: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_encoded_bytes()).collect();
    answer::inline(answer::TEXT, arguments.join(&0))
}

/// Reads addresses such as `0x4010+0x4020`, from the query of a GET or the body of a POST.
pub(super) fn plan(request: &Incoming<'_>) -> Result<Plan, Refusal> {
    let body = String::from_utf8_lossy(request.body);
    let is_post = request.parts.method == http::Method::POST;
    let list = if is_post { &*body } else { request.parts.uri.query().unwrap_or_default() };
    let addresses = list.split(['+', '&', '\n']).filter_map(parse);
    let addresses: Vec<u64> = addresses.take(MOST_ADDRESSES + 1).collect();
    if addresses.len() > MOST_ADDRESSES {
        return Err(Refusal::bad_parameter(format!("at most {MOST_ADDRESSES} addresses at a time")));
    }
    Ok(Plan::Names(addresses))
}

/// Returns a line for each address that has a name. The names are mangled: pprof demangles what it gets, and would
/// remove the `<…>` from names that are already demangled.
pub(super) fn names(profiler: &Profiler, addresses: &[u64]) -> String {
    let mut text = String::from(HEADING);
    for (address, frame) in addresses.iter().zip(profiler.symbols().frames(addresses)) {
        let Some(frame) = frame else { continue };
        let mangled = Some(&frame.system_name).filter(|name| !name.is_empty());
        text.push_str(&format!("{address:#x} {}\n", mangled.unwrap_or(&frame.name)));
    }
    text
}

fn parse(address: &str) -> Option<u64> {
    let digits = address.trim().strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok().filter(|&address| address != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hexadecimal_and_not_zero() {
        assert_eq!(parse("0x4010"), Some(0x4010));
        for wrong in ["", "0x", "0x0", "4010", "0xzz", "0x11111111111111111"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
