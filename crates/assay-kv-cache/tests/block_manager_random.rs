//! Random use of the block manager, checked against a model of every slot's content.

use assay_kv_cache::{BlockManager, CachedBlock, KvError, KvOptions, SequenceId, StepLayout};
use proptest::prelude::*;

const BLOCKS: usize = 12;
const BLOCK_TOKENS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Open { prompt: Vec<u32>, first: usize },
    Append { which: usize, tokens: Vec<u32> },
    ReserveOnly { which: usize, tokens: usize },
    Fork { which: usize },
    Close { which: usize },
    Clear,
    Migrate,
}

fn tokens(most: usize) -> impl Strategy<Value = Vec<u32>> {
    // Few tokens, so that prompts often begin alike.
    prop::collection::vec(0_u32..2, 1..=most)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (tokens(14), 1_usize..14).prop_map(|(prompt, first)| Step::Open { prompt, first }),
        8 => (any::<usize>(), tokens(7)).prop_map(|(which, tokens)| Step::Append { which, tokens }),
        2 => (any::<usize>(), 0_usize..9)
            .prop_map(|(which, tokens)| Step::ReserveOnly { which, tokens }),
        2 => any::<usize>().prop_map(|which| Step::Fork { which }),
        4 => any::<usize>().prop_map(|which| Step::Close { which }),
        1 => Just(Step::Clear),
        1 => Just(Step::Migrate),
    ]
}

/// A block manager, and for each slot the tokens that its keys and values depend on.
struct World {
    manager: BlockManager,
    slots: Vec<Vec<u32>>,
    live: Vec<(SequenceId, Vec<u32>)>,
}

fn new_manager(prefix_caching: bool) -> BlockManager {
    let options = KvOptions { blocks: BLOCKS, block_tokens: BLOCK_TOKENS, prefix_caching };
    BlockManager::new(options).expect("the options are valid")
}

impl World {
    fn new(prefix_caching: bool) -> Self {
        World {
            manager: new_manager(prefix_caching),
            slots: vec![Vec::new(); BLOCKS * BLOCK_TOKENS],
            live: Vec::new(),
        }
    }

    /// Writes the new tokens to their slots, as a kernel does.
    fn write(&mut self, sequence: SequenceId, all: &[u32], count: usize) -> Result<(), KvError> {
        let layout = StepLayout::packed(16, 2, BLOCKS);
        let mut out = vec![7_i32; 37 + 2 * BLOCKS];
        self.manager.write_step(&[(sequence, count)], &layout, &mut out)?;
        for row in 0..16 {
            let (position, slot) = (out[row] as usize, out[16 + row]);
            if row >= count {
                assert_eq!(slot, -1, "padding");
                continue;
            }
            self.slots[slot as usize] = all[..=position].to_vec();
        }
        assert_eq!(&out[32..35], &[0, count as i32, count as i32]);
        assert_eq!(&out[35..37], &[all.len() as i32, 0]);
        Ok(())
    }

    /// Appends tokens; returns false, with nothing changed, if there are too few blocks.
    fn append(&mut self, which: usize, tokens: &[u32]) -> Result<bool, KvError> {
        let sequence = self.live[which].0;
        let before = self.manager.statistics();
        match self.manager.reserve(sequence, tokens.len()) {
            Ok(copy) => {
                if let Some(copy) = copy {
                    for offset in 0..BLOCK_TOKENS {
                        let from = copy.from as usize * BLOCK_TOKENS + offset;
                        let to = copy.to as usize * BLOCK_TOKENS + offset;
                        self.slots[to] = self.slots[from].clone();
                    }
                }
            }
            Err(KvError::OutOfBlocks { .. }) => {
                assert_eq!(self.manager.statistics(), before);
                return Ok(false);
            }
            Err(other) => return Err(other),
        }
        let all = [self.live[which].1.as_slice(), tokens].concat();
        self.write(sequence, &all, tokens.len())?;
        self.manager.commit(sequence, tokens)?;
        self.live[which].1 = all;
        Ok(true)
    }

    fn run(&mut self, step: &Step) -> Result<(), KvError> {
        let chosen = |which: usize, world: &World| which % world.live.len().max(1);
        match step {
            Step::Open { prompt, first } => {
                let cached = self.manager.lookup(prompt);
                assert!(cached < prompt.len());
                let end = prompt.len().min(cached + first);
                match self.manager.open(prompt, end) {
                    Ok(opened) => {
                        assert_eq!(opened.cached_tokens, cached);
                        self.live.push((opened.sequence, prompt[..cached].to_vec()));
                        let rest = prompt[cached..end].to_vec();
                        let last = self.live.len() - 1;
                        assert!(self.append(last, &rest)?, "the slots are reserved");
                    }
                    Err(KvError::OutOfBlocks { needed, available }) => assert!(needed > available),
                    Err(other) => return Err(other),
                }
            }
            _ if self.live.is_empty() => {}
            Step::Append { which, tokens } => {
                self.append(chosen(*which, self), tokens)?;
            }
            Step::ReserveOnly { which, tokens } => {
                let which = chosen(*which, self);
                let appended = self.append(which, &[])?;
                assert!(appended);
                let sequence = self.live[which].0;
                // A reservation may copy on write, and a skipped copy would lose tokens.
                if let Ok(Some(copy)) = self.manager.reserve(sequence, *tokens) {
                    for offset in 0..BLOCK_TOKENS {
                        let from = copy.from as usize * BLOCK_TOKENS + offset;
                        self.slots[copy.to as usize * BLOCK_TOKENS + offset] =
                            self.slots[from].clone();
                    }
                }
            }
            Step::Fork { which } => {
                let (sequence, tokens) = self.live[chosen(*which, self)].clone();
                self.live.push((self.manager.fork(sequence)?, tokens));
            }
            Step::Close { which } => {
                let (sequence, _) = self.live.remove(chosen(*which, self));
                self.manager.close(sequence)?;
                assert!(self.manager.close(sequence).is_err());
            }
            Step::Clear => {
                self.manager.clear_cached();
                assert_eq!(self.manager.statistics().cached, 0);
            }
            Step::Migrate => self.migrate()?,
        }
        Ok(())
    }

    /// Moves the prefix cache into a new manager, as a restart does.
    fn migrate(&mut self) -> Result<(), KvError> {
        let cached = self.manager.cached_blocks();
        let mut fresh = World::new(true);
        let taken = fresh.manager.adopt(&cached)?;
        for (entry, to) in cached.iter().zip(&taken) {
            let to = to.expect("a cache as large has room for all") as usize;
            for offset in 0..BLOCK_TOKENS {
                fresh.slots[to * BLOCK_TOKENS + offset] =
                    self.slots[entry.block as usize * BLOCK_TOKENS + offset].clone();
            }
        }
        let prompts: Vec<Vec<u32>> = self.live.iter().map(|(_, tokens)| tokens.clone()).collect();
        for (sequence, _) in std::mem::take(&mut self.live) {
            self.manager.close(sequence)?;
        }
        for mut prompt in prompts {
            prompt.push(9);
            let expected = self.manager.lookup(&prompt);
            assert_eq!(fresh.manager.lookup(&prompt), expected);
            let opened = fresh.manager.open(&prompt, expected)?;
            fresh.live.push((opened.sequence, prompt[..expected].to_vec()));
        }
        fresh.check()?;
        *self = fresh;
        Ok(())
    }

    /// Every sequence reads back exactly its own tokens, and the invariants hold.
    fn check(&self) -> Result<(), KvError> {
        self.manager.verify()?;
        for (sequence, tokens) in &self.live {
            assert_eq!(self.manager.length(*sequence)?, tokens.len());
            let table = self.manager.block_table(*sequence)?;
            for position in 0..tokens.len() {
                let slot = table[position / BLOCK_TOKENS] as usize * BLOCK_TOKENS
                    + position % BLOCK_TOKENS;
                assert_eq!(self.slots[slot], tokens[..=position]);
            }
        }
        let counts = self.manager.statistics();
        assert_eq!(counts.used + counts.free + counts.cached, BLOCKS as u64);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn blocks_are_neither_leaked_nor_shared_wrongly(
        prefix_caching in prop::bool::weighted(0.8),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = World::new(prefix_caching);
        for step in &steps {
            if matches!(step, Step::Migrate) && !prefix_caching {
                continue;
            }
            world.run(step)?;
            world.check()?;
        }
        for (sequence, _) in std::mem::take(&mut world.live) {
            world.manager.close(sequence)?;
        }
        prop_assert_eq!(world.manager.statistics().used, 0);
        world.manager.clear_cached();
        prop_assert_eq!(world.manager.statistics().free, BLOCKS as u64);
        world.manager.verify()?;
    }

    #[test]
    fn adopt_rejects_invalid_chains_and_stays_consistent(
        entries in prop::collection::vec((prop::option::of(0_usize..8), tokens(4)), 0..20),
    ) {
        let cached: Vec<CachedBlock> = entries
            .into_iter()
            .enumerate()
            .map(|(block, (parent, tokens))| CachedBlock { block: block as u32, parent, tokens })
            .collect();
        let mut manager = new_manager(true);
        let sound = cached.iter().enumerate().all(|(index, entry)| {
            entry.tokens.len() == BLOCK_TOKENS && entry.parent.is_none_or(|parent| parent < index)
        });
        prop_assert_eq!(manager.adopt(&cached).is_ok(), sound);
        manager.verify()?;
    }
}
