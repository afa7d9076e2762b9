//! The KV cache's books in cases small enough to follow by hand.

use assay_kv_cache::{BlockCopy, KvCache, KvError, KvOptions, Result};

fn cache(blocks: usize, block_tokens: usize) -> Result<KvCache> {
    KvCache::new(KvOptions {
        blocks,
        block_tokens,
        prefix_caching: true,
    })
}

/// Opens a sequence for the prompt and commits all of it.
fn fill(cache: &mut KvCache, prompt: &[u32]) -> Result<u64> {
    let opened = cache.open(prompt, prompt.len())?;
    cache.commit(opened.sequence, &prompt[opened.cached_tokens..])?;
    Ok(opened.sequence)
}

#[test]
fn a_prompt_that_begins_alike_takes_whole_blocks_over() -> Result<()> {
    let mut cache = cache(8, 4)?;
    let first = fill(&mut cache, &[1, 2, 3, 4, 5, 6, 7, 8, 9])?;
    for (prompt, expected) in [
        (vec![1, 2, 3, 4, 5, 6, 7, 8, 9], 8),
        // The last token is always computed, so a prompt of two full blocks finds only one.
        (vec![1, 2, 3, 4, 5, 6, 7, 8], 4),
        (vec![1, 2, 3, 4, 0, 6, 7, 8, 9], 4),
        (vec![5, 6, 7, 8, 9], 0),
        (vec![1, 2, 3], 0),
        (vec![], 0),
    ] {
        assert_eq!(cache.lookup(&prompt), expected, "{prompt:?}");
    }
    let second = cache.open(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 9)?;
    assert_eq!(cache.table(second.sequence)?[..2], cache.table(first)?[..2]);
    assert_ne!(cache.table(second.sequence)?[2], cache.table(first)?[2]);
    let counts = cache.statistics();
    assert_eq!((counts.hit_tokens, counts.queried_tokens), (8, 18));
    Ok(())
}

#[test]
fn the_least_recently_used_chain_leaves_first_and_from_its_end() -> Result<()> {
    let mut cache = cache(6, 2)?;
    let old = fill(&mut cache, &[1, 1, 1, 1])?;
    let new = fill(&mut cache, &[2, 2, 2, 2])?;
    cache.close(old)?;
    cache.close(new)?;
    // The older chain was used again since, so the other one is the least recently used.
    let again = cache.open(&[1, 1, 1, 1, 0], 4)?;
    assert_eq!(again.cached_tokens, 4);
    cache.close(again.sequence)?;
    let filler = fill(&mut cache, &[3, 3, 3, 3, 3, 3])?;
    assert_eq!(
        cache.lookup(&[2, 2, 2, 2, 0]),
        2,
        "its end left, its beginning stayed"
    );
    assert_eq!(cache.lookup(&[1, 1, 1, 1, 0]), 4);
    assert_eq!(cache.statistics().evictions, 1);
    cache.close(filler)
}

#[test]
fn equal_blocks_become_one() -> Result<()> {
    let mut cache = cache(6, 2)?;
    let first = cache.open(&[1, 2, 3, 4], 4)?.sequence;
    let second = cache.open(&[1, 2, 3, 4], 4)?.sequence;
    assert_ne!(cache.table(first)?, cache.table(second)?);
    cache.commit(first, &[1, 2, 3, 4])?;
    cache.commit(second, &[1, 2, 3, 4])?;
    assert_eq!(cache.table(first)?, cache.table(second)?);
    assert_eq!(cache.statistics().used, 2);
    assert_eq!(cache.statistics().duplicates, 2);
    cache.verify()
}

#[test]
fn a_fork_copies_only_the_block_it_writes_to() -> Result<()> {
    let mut cache = cache(6, 2)?;
    let parent = fill(&mut cache, &[1, 2, 3])?;
    let child = cache.fork(parent)?;
    assert_eq!(cache.table(parent)?, cache.table(child)?);
    let refused = cache.commit(child, &[4]);
    assert!(
        matches!(refused, Err(KvError::NotReserved { room: 3, .. })),
        "{refused:?}"
    );
    let shared = cache.table(parent)?[1];
    let copy = cache.reserve(child, 1)?;
    let own = cache.table(child)?[1];
    assert_eq!(
        copy,
        Some(BlockCopy {
            from: shared,
            to: own
        })
    );
    assert_eq!(
        cache.reserve(parent, 1)?,
        None,
        "the parent is alone with it now"
    );
    cache.commit(child, &[4])?;
    cache.commit(parent, &[5])?;
    assert_eq!(cache.statistics().copies, 1);
    cache.verify()
}

#[test]
fn without_room_nothing_changes() -> Result<()> {
    let mut cache = cache(3, 2)?;
    let sequence = fill(&mut cache, &[1, 2, 3])?;
    let before = cache.statistics();
    for result in [
        cache.reserve(sequence, 4).map(|_| ()),
        cache.open(&[7; 5], 5).map(|_| ()),
        cache.open(&[1, 2, 9, 9, 9], 7).map(|_| ()),
    ] {
        assert!(
            matches!(result, Err(KvError::OutOfBlocks { .. })),
            "{result:?}"
        );
    }
    assert_eq!(cache.statistics(), before);
    assert_eq!(
        cache.reserve(9, 1).map_err(|error| error.to_string()),
        Err("KV cache: expected an open sequence, got 9, which is not".to_owned())
    );
    cache.verify()
}

#[test]
fn options_are_checked() {
    for (blocks, block_tokens, name) in [
        (0, 16, "blocks"),
        (16, 0, "block_tokens"),
        (1 << 30, 16, "blocks"),
        (usize::MAX, 16, "blocks"),
    ] {
        let refused = cache(blocks, block_tokens).map(|_| ());
        assert!(
            matches!(refused, Err(KvError::InvalidOption { name: got, .. }) if got == name),
            "{blocks} {block_tokens}: {refused:?}"
        );
    }
}
