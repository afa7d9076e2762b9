//! The block manager in cases small enough to follow by hand.

use assay_kv_cache::{BlockCopy, BlockManager, KvError, KvOptions, Result};

fn new_manager(blocks: usize, block_tokens: usize) -> Result<BlockManager> {
    BlockManager::new(KvOptions { blocks, block_tokens, prefix_caching: true })
}

/// Opens a sequence for the prompt and commits all of it.
fn fill(manager: &mut BlockManager, prompt: &[u32]) -> Result<u64> {
    let opened = manager.open(prompt, prompt.len())?;
    manager.commit(opened.sequence, &prompt[opened.cached_tokens..])?;
    Ok(opened.sequence)
}

#[test]
fn prompt_with_a_cached_prefix_reuses_full_blocks() -> Result<()> {
    let mut manager = new_manager(8, 4)?;
    let first = fill(&mut manager, &[1, 2, 3, 4, 5, 6, 7, 8, 9])?;
    for (prompt, expected) in [
        (vec![1, 2, 3, 4, 5, 6, 7, 8, 9], 8),
        // The last token is always computed, so a prompt of two full blocks finds only one.
        (vec![1, 2, 3, 4, 5, 6, 7, 8], 4),
        (vec![1, 2, 3, 4, 0, 6, 7, 8, 9], 4),
        (vec![5, 6, 7, 8, 9], 0),
        (vec![1, 2, 3], 0),
        (vec![], 0),
    ] {
        assert_eq!(manager.lookup(&prompt), expected, "{prompt:?}");
    }
    let second = manager.open(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 9)?;
    assert_eq!(manager.block_table(second.sequence)?[..2], manager.block_table(first)?[..2]);
    assert_ne!(manager.block_table(second.sequence)?[2], manager.block_table(first)?[2]);
    let counts = manager.statistics();
    assert_eq!((counts.hit_tokens, counts.queried_tokens), (8, 18));
    Ok(())
}

#[test]
fn least_recently_used_chain_is_evicted_first_from_its_end() -> Result<()> {
    let mut manager = new_manager(6, 2)?;
    let old = fill(&mut manager, &[1, 1, 1, 1])?;
    let new = fill(&mut manager, &[2, 2, 2, 2])?;
    manager.close(old)?;
    manager.close(new)?;
    // The older chain was used again since, so the other one is the least recently used.
    let again = manager.open(&[1, 1, 1, 1, 0], 4)?;
    assert_eq!(again.cached_tokens, 4);
    manager.close(again.sequence)?;
    let filler = fill(&mut manager, &[3, 3, 3, 3, 3, 3])?;
    assert_eq!(manager.lookup(&[2, 2, 2, 2, 0]), 2, "its end was evicted, its beginning was not");
    assert_eq!(manager.lookup(&[1, 1, 1, 1, 0]), 4);
    assert_eq!(manager.statistics().evictions, 1);
    manager.close(filler)
}

#[test]
fn equal_blocks_are_deduplicated() -> Result<()> {
    let mut manager = new_manager(6, 2)?;
    let first = manager.open(&[1, 2, 3, 4], 4)?.sequence;
    let second = manager.open(&[1, 2, 3, 4], 4)?.sequence;
    assert_ne!(manager.block_table(first)?, manager.block_table(second)?);
    manager.commit(first, &[1, 2, 3, 4])?;
    manager.commit(second, &[1, 2, 3, 4])?;
    assert_eq!(manager.block_table(first)?, manager.block_table(second)?);
    assert_eq!(manager.statistics().used, 2);
    assert_eq!(manager.statistics().duplicates, 2);
    manager.verify()
}

#[test]
fn fork_copies_only_the_block_it_writes_to() -> Result<()> {
    let mut manager = new_manager(6, 2)?;
    let parent = fill(&mut manager, &[1, 2, 3])?;
    let child = manager.fork(parent)?;
    assert_eq!(manager.block_table(parent)?, manager.block_table(child)?);
    let refused = manager.commit(child, &[4]);
    assert!(matches!(refused, Err(KvError::NotReserved { reserved: 3, .. })), "{refused:?}");
    let shared = manager.block_table(parent)?[1];
    let copy = manager.reserve(child, 1)?;
    let own = manager.block_table(child)?[1];
    assert_eq!(copy, Some(BlockCopy { from: shared, to: own }));
    assert_eq!(manager.reserve(parent, 1)?, None, "the parent holds the only reference now");
    manager.commit(child, &[4])?;
    manager.commit(parent, &[5])?;
    assert_eq!(manager.statistics().copies, 1);
    manager.verify()
}

#[test]
fn failed_allocation_changes_nothing() -> Result<()> {
    let mut manager = new_manager(3, 2)?;
    let sequence = fill(&mut manager, &[1, 2, 3])?;
    let before = manager.statistics();
    for result in [
        manager.reserve(sequence, 4).map(|_| ()),
        manager.open(&[7; 5], 5).map(|_| ()),
        manager.open(&[1, 2, 9, 9, 9], 7).map(|_| ()),
    ] {
        assert!(matches!(result, Err(KvError::OutOfBlocks { .. })), "{result:?}");
    }
    assert_eq!(manager.statistics(), before);
    assert_eq!(
        manager.reserve(9, 1).map_err(|error| error.to_string()),
        Err("KV cache: expected an open sequence, got 9, which is not".to_owned())
    );
    manager.verify()
}

#[test]
fn invalid_options_are_rejected() {
    for (blocks, block_tokens, name) in [
        (0, 16, "blocks"),
        (16, 0, "block_tokens"),
        (1 << 30, 16, "blocks"),
        (usize::MAX, 16, "blocks"),
    ] {
        let refused = new_manager(blocks, block_tokens).map(|_| ());
        assert!(
            matches!(refused, Err(KvError::InvalidOption { name: got, .. }) if got == name),
            "{blocks} {block_tokens}: {refused:?}"
        );
    }
}
