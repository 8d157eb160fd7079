//! Reads and writes the code that blocks share.

use std::collections::BTreeMap;
use std::sync::Arc;

use flamelet_profile::budget::hash_entry;
use flamelet_profile::{Budget, Result};

use super::damaged::damaged;
use super::files::{NAMES, read_locations, read_stacks, write_locations, write_stacks};
use super::part::{CodeStack, stack_hash};
use super::tables::{CodeLocation, SharedCode};

pub(crate) const SHARED_NAMES: [&str; 2] = [NAMES[1], NAMES[2]];

/// Reads shared code from its files, in the order of [`SHARED_NAMES`]. What does not have the hash that it says it has is
/// refused: no manifest has checksums of these files.
pub(crate) fn read_shared([stacks, locations]: [Vec<u8>; 2], budget: &Budget) -> Result<SharedCode> {
    let mut loan = budget.lend(stacks.len() + locations.len())?;
    let stacks = read_stacks(stacks, budget, &mut loan)?;
    let locations = read_locations(locations, budget, &mut loan)?;
    loan.add(stacks.len() * hash_entry(48) + locations.len() * hash_entry(32))?;
    let is_true = stacks.iter().all(|(hash, list)| stack_hash(list.iter().rev().copied()) == *hash)
        && locations.iter().all(|(hash, location)| location.hash() == *hash);
    let code = SharedCode::new(stacks, locations);
    if is_true && code.is_whole() { Ok(code) } else { Err(damaged("code is not what its hash says")) }
}

/// Returns the files with these stacks, in the order of [`SHARED_NAMES`].
pub(crate) fn write_shared<'s>(
    stacks: impl Iterator<Item = &'s Arc<CodeStack>> + Clone,
) -> Result<[Vec<u8>; 2]> {
    let locations: BTreeMap<u128, Arc<CodeLocation>> =
        stacks.clone().flat_map(|stack| stack.locations.iter().cloned()).collect();
    let list = |stack: &Arc<CodeStack>| stack.locations.iter().map(|(hash, _)| *hash).collect();
    let mut lists: Vec<(u128, Vec<u128>)> = stacks.map(|stack| (stack.hash, list(stack))).collect();
    lists.sort_unstable_by_key(|(hash, _)| *hash);
    Ok([write_stacks(&lists)?, write_locations(&locations.into_iter().collect::<Vec<_>>())?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use flamelet_profile::Limits;

    fn stack(names: &[&str]) -> Arc<CodeStack> {
        let location = |name: &&str| CodeLocation { mapping: (*name).to_owned(), ..CodeLocation::default() };
        let locations: Box<[_]> = names.iter().map(location).map(|one| (one.hash(), Arc::new(one))).collect();
        Arc::new(CodeStack { hash: stack_hash(locations.iter().rev().map(|(hash, _)| *hash)), locations })
    }

    #[test]
    fn shared_code_is_read_as_it_was_written_and_not_if_it_lies() {
        let budget = Budget::new(Limits::SERVICE);
        let stacks = [stack(&["a", "main"]), stack(&["b", "main"]), stack(&[])];
        let files = write_shared(stacks.iter()).expect("written");
        let code = read_shared(files.clone(), &budget).expect("read");
        for stack in &stacks {
            let list = code.stack(stack.hash).expect("there");
            let names = list.iter().map(|hash| &code.location(*hash).expect("there").mapping);
            assert!(names.eq(stack.locations.iter().map(|(_, location)| &location.mapping)));
        }
        let lie = CodeStack { hash: stacks[0].hash, locations: stacks[1].locations.clone() };
        assert!(read_shared(write_shared([Arc::new(lie)].iter()).expect("written"), &budget).is_err());
        let (_, other) = (&files[1], write_shared([stack(&["c"])].iter()).expect("written"));
        assert!(read_shared([files[0].clone(), other[1].clone()], &budget).is_err(), "locations are missing");
    }
}
