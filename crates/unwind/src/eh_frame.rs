//! Turns `.eh_frame` into rules: a small interpreter of call frame instructions that keeps only what unwinding needs
//! (the CFA, the frame pointer, the return address), which makes it fast.

use crate::arch::{Architecture, x86_64};
use crate::rule::{Base, MAX_OFFSET, Rule, Saved, SideCfa, SideRule};
use crate::table::{Table, TableBuilder};
use crate::text;
use gimli::{
    BaseAddresses, CallFrameInstruction, CieOrFde, CommonInformationEntry, EhFrame, EndianSlice,
    FrameDescriptionEntry, LittleEndian, UnwindSection,
};
use rustc_hash::FxHashMap;
use std::ops::Range;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;
type Cie<'a> = CommonInformationEntry<Bytes<'a>>;
type Instruction = CallFrameInstruction<usize>;

/// Returns the table of the section `bytes`, which the file places at `address`. Functions outside `text` were
/// discarded by the linker. Entries that cannot be read are left out: their code then has no rule.
pub(crate) fn table(
    architecture: Architecture,
    bytes: &[u8],
    address: u64,
    text: &[Range<u64>],
) -> Option<Table> {
    let mut builder = TableBuilder::new(architecture);
    add_rules(bytes, address, text, &mut builder);
    builder.finish()
}

pub(crate) fn add_rules(bytes: &[u8], address: u64, text: &[Range<u64>], builder: &mut TableBuilder) {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_vendor(builder.architecture().dwarf_vendor());
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut decoder = Decoder::new(&section, &bases, builder);
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Some(cie) = decoder.cie(partial.cie_offset().0) else { continue };
        let Ok(function) = partial.parse(|_, _, _| Ok(cie.entry.clone())) else { continue };
        if text::contains(text, function.initial_address()) {
            decoder.function(&function, cie.state);
        }
    }
}

/// Returns how many bytes of `bytes` the section really has: it ends with an empty entry.
pub(crate) fn section_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(length) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let length = u32::from_le_bytes(*length) as usize;
        let entry_end = at + 4 + length;
        if length == 0 || length >= 0xffff_fff0 || entry_end > bytes.len() {
            break;
        }
        at = entry_end;
    }
    at
}

/// The rules that hold at one place of a function.
#[derive(Clone, Copy, Debug)]
struct FrameRules {
    cfa: Cfa,
    frame_pointer: RegisterRule,
    return_address: RegisterRule,
}

#[derive(Clone, Copy, Debug)]
enum Cfa {
    Register(u16, i64),
    Deref(Base, i64),
    Plt(u8),
    Other,
}

#[derive(Clone, Copy, Debug)]
enum RegisterRule {
    Saved(Saved),
    Undefined,
    Other,
}

struct KnownCie<'a> {
    entry: Cie<'a>,
    state: FrameRules,
}

struct Decoder<'a> {
    architecture: Architecture,
    frame_pointer: u16,
    return_address: u16,
    section: &'a EhFrame<Bytes<'a>>,
    bases: &'a BaseAddresses,
    cies: FxHashMap<usize, Option<std::rc::Rc<KnownCie<'a>>>>,
    last_cie: Option<(usize, std::rc::Rc<KnownCie<'a>>)>,
    remembered: Vec<FrameRules>,
    builder: &'a mut TableBuilder,
}

impl<'a> Decoder<'a> {
    fn new(section: &'a EhFrame<Bytes<'a>>, bases: &'a BaseAddresses, builder: &'a mut TableBuilder) -> Self {
        let architecture = builder.architecture();
        let (frame_pointer, return_address) = architecture.dwarf_registers();
        Self {
            architecture,
            frame_pointer,
            return_address,
            section,
            bases,
            cies: FxHashMap::default(),
            last_cie: None,
            remembered: Vec::new(),
            builder,
        }
    }

    /// Returns the common entry at `offset`, with the state that it leaves.
    fn cie(&mut self, offset: usize) -> Option<std::rc::Rc<KnownCie<'a>>> {
        if let Some((last, cie)) = &self.last_cie
            && *last == offset
        {
            return Some(cie.clone());
        }
        let found = match self.cies.get(&offset) {
            Some(known) => known.clone(),
            None => {
                let made = self.read_cie(offset).map(std::rc::Rc::new);
                self.cies.insert(offset, made.clone());
                made
            }
        }?;
        self.last_cie = Some((offset, found.clone()));
        Some(found)
    }

    fn read_cie(&mut self, offset: usize) -> Option<KnownCie<'a>> {
        let entry = self.section.cie_from_offset(self.bases, offset.into()).ok()?;
        let same = RegisterRule::Saved(Saved::Same);
        let mut state = FrameRules { cfa: Cfa::Other, frame_pointer: same, return_address: same };
        let initial = state;
        let mut instructions = entry.instructions(self.section, self.bases);
        while let Some(instruction) = instructions.next().ok()? {
            self.apply(&instruction, &entry, &initial, &mut state);
        }
        Some(KnownCie { entry, state })
    }

    fn function(&mut self, function: &FrameDescriptionEntry<Bytes<'a>>, initial: FrameRules) {
        self.builder.function(function.initial_address(), function.end_address());
        if function.is_signal_trampoline() {
            self.builder.rule(0, Rule::Signal);
            return;
        }
        let cie = function.cie();
        let mut state = initial;
        let mut offset = 0u64;
        self.remembered.clear();
        let mut instructions = function.instructions(self.section, self.bases);
        loop {
            let instruction = match instructions.next() {
                Ok(Some(instruction)) => instruction,
                Ok(None) => break,
                // What follows cannot be read: no rule is better than the previous one, which ends here.
                Err(_) => return self.builder.rule(offset as u32, Rule::Unknown),
            };
            let next = match instruction {
                CallFrameInstruction::AdvanceLoc { delta } => {
                    offset + u64::from(delta) * cie.code_alignment_factor()
                }
                CallFrameInstruction::SetLoc { address } => {
                    address.saturating_sub(function.initial_address())
                }
                _ => {
                    self.apply(&instruction, cie, &initial, &mut state);
                    continue;
                }
            };
            if next >= function.len() || next < offset {
                break;
            }
            let rule = self.rule(&state);
            self.builder.rule(offset as u32, rule);
            offset = next;
        }
        let rule = self.rule(&state);
        self.builder.rule(offset as u32, rule);
    }

    fn apply(
        &mut self,
        instruction: &Instruction,
        cie: &Cie<'a>,
        initial: &FrameRules,
        state: &mut FrameRules,
    ) {
        use CallFrameInstruction as I;
        let factor = cie.data_alignment_factor();
        match *instruction {
            I::DefCfa { register, offset } => state.cfa = Cfa::Register(register.0, offset as i64),
            I::DefCfaSf { register, factored_offset } => {
                state.cfa = Cfa::Register(register.0, factored_offset.wrapping_mul(factor));
            }
            I::DefCfaRegister { register } => {
                if let Cfa::Register(_, offset) = state.cfa {
                    state.cfa = Cfa::Register(register.0, offset);
                }
            }
            I::DefCfaOffset { offset } => self.set_cfa_offset(state, offset as i64),
            I::DefCfaOffsetSf { factored_offset } => {
                self.set_cfa_offset(state, factored_offset.wrapping_mul(factor));
            }
            I::DefCfaExpression { expression } => {
                let bytes = expression.get(self.section).map(|expression| expression.0.slice());
                state.cfa = bytes.map_or(Cfa::Other, |bytes| self.cfa_expression(bytes));
            }
            I::RememberState => self.remembered.push(*state),
            I::RestoreState => {
                if let Some(remembered) = self.remembered.pop() {
                    *state = remembered;
                }
            }
            _ => self.apply_register(instruction, factor, initial, state),
        }
    }

    /// Applies instructions that say where one register was saved.
    fn apply_register(
        &self,
        instruction: &Instruction,
        factor: i64,
        initial: &FrameRules,
        state: &mut FrameRules,
    ) {
        use CallFrameInstruction as I;
        let at = |factored: i64| RegisterRule::Saved(Saved::AtCfa(factored.wrapping_mul(factor)));
        let (register, place) = match *instruction {
            I::Offset { register, factored_offset } => (register, at(factored_offset as i64)),
            I::OffsetExtendedSf { register, factored_offset } => (register, at(factored_offset)),
            I::Undefined { register } => (register, RegisterRule::Undefined),
            I::SameValue { register } => (register, RegisterRule::Saved(Saved::Same)),
            I::Restore { register } if register.0 == self.frame_pointer => (register, initial.frame_pointer),
            I::Restore { register } => (register, initial.return_address),
            I::Expression { register, expression } => {
                let bytes = expression.get(self.section).map(|expression| expression.0.slice());
                (register, bytes.map_or(RegisterRule::Other, |bytes| self.place_expression(bytes)))
            }
            I::ValOffset { register, .. }
            | I::ValOffsetSf { register, .. }
            | I::ValExpression { register, .. }
            | I::Register { dest_register: register, .. } => (register, RegisterRule::Other),
            _ => return,
        };
        if register.0 == self.frame_pointer {
            state.frame_pointer = place;
        } else if register.0 == self.return_address {
            state.return_address = place;
        }
    }

    fn set_cfa_offset(&self, state: &mut FrameRules, offset: i64) {
        if let Cfa::Register(register, _) = state.cfa {
            state.cfa = Cfa::Register(register, offset);
        }
    }

    fn cfa_expression(&self, expression: &[u8]) -> Cfa {
        const DEREF: u8 = 0x06;
        if self.architecture == Architecture::X86_64
            && let Some(threshold) = x86_64::plt_threshold(expression)
        {
            return Cfa::Plt(threshold);
        }
        match self.base_plus_offset(expression) {
            Some((base, offset, [DEREF])) => Cfa::Deref(base, offset),
            _ => Cfa::Other,
        }
    }

    fn place_expression(&self, expression: &[u8]) -> RegisterRule {
        match self.base_plus_offset(expression) {
            Some((Base::FramePointer, offset, [])) => RegisterRule::Saved(Saved::AtFramePointer(offset)),
            _ => RegisterRule::Other,
        }
    }

    /// Reads `DW_OP_breg<n> <offset>` and returns what follows it.
    fn base_plus_offset<'e>(&self, expression: &'e [u8]) -> Option<(Base, i64, &'e [u8])> {
        const BREG0: u8 = 0x70;
        let (&operation, rest) = expression.split_first()?;
        let register = operation.checked_sub(BREG0).filter(|&register| register < 32)?;
        let mut rest = EndianSlice::new(rest, LittleEndian);
        let offset = gimli::Reader::read_sleb128(&mut rest).ok()?;
        Some((self.architecture.base(u16::from(register))?, offset, rest.slice()))
    }

    fn rule(&mut self, state: &FrameRules) -> Rule {
        let return_address = match state.return_address {
            RegisterRule::Saved(saved) => saved,
            RegisterRule::Undefined => return Rule::Root,
            RegisterRule::Other => return Rule::Unknown,
        };
        let frame_pointer = match state.frame_pointer {
            RegisterRule::Saved(saved) => saved,
            RegisterRule::Undefined => Saved::Same,
            RegisterRule::Other => return Rule::Unknown,
        };
        let cfa = match state.cfa {
            Cfa::Register(register, offset) => match self.architecture.base(register) {
                Some(base) => SideCfa::Offset(base, offset),
                None => return Rule::Unknown,
            },
            Cfa::Deref(base, offset) => SideCfa::Deref(base, offset),
            Cfa::Plt(threshold) => return Rule::Plt { threshold },
            Cfa::Other => return Rule::Unknown,
        };
        if let SideCfa::Offset(base, offset) = cfa
            && (0..=i64::from(MAX_OFFSET)).contains(&offset)
            && offset % 8 == 0
            && let Some(saved) = self.architecture.packed(frame_pointer, return_address)
        {
            return Rule::Frame { base, offset: offset as u32, saved };
        }
        self.builder.side(SideRule { cfa, frame_pointer, return_address })
    }
}
