//! Addresses to look up: inside functions, as a profile's are.

use object::{Object, ObjectSymbol, SymbolKind};

/// `count` seeded addresses inside the functions of the symbol table, larger functions more often.
pub fn seeded(binary: &str, count: usize) -> Vec<u64> {
    let bytes = std::fs::read(binary).expect("a readable binary");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let mut functions: Vec<(u64, u64)> = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
        .map(|symbol| (symbol.address(), symbol.size()))
        .collect();
    functions.sort_unstable();
    functions.dedup();
    let total: u64 = functions.iter().map(|(_, size)| size).sum();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..count).map(|_| at(&functions, next() % total)).collect()
}

/// The address `offset` bytes into the functions laid end to end.
fn at(functions: &[(u64, u64)], mut offset: u64) -> u64 {
    for (start, size) in functions {
        if offset < *size {
            return start + offset;
        }
        offset -= size;
    }
    unreachable!("the offset is below the sum of the sizes")
}
