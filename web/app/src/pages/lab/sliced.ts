// Work of many points in slices of a few milliseconds, so that the page answers in between. No worker:
// pages that are opened from files cannot start one.

import { useEffect, useState } from "react";

const SLICE = 8;

export interface Sliced<T> {
  readonly result: T | undefined;
  /** Whether the result is of an earlier question. */
  readonly isStale: boolean;
}

/** The result of a generator, whose steps are taken while the page is idle. Pass a `useCallback`. */
export function useSliced<T>(start: () => Generator<void, T> | null): Sliced<T> {
  const [found, setFound] = useState<Sliced<T>>({ result: undefined, isStale: true });
  useEffect(() => {
    let timer = 0;
    const steps = start();
    if (steps === null) {
      setFound({ result: undefined, isStale: false });
      return;
    }
    setFound((before) => ({ ...before, isStale: true }));
    const slice = () => {
      const deadline = performance.now() + SLICE;
      while (performance.now() < deadline) {
        const { done, value } = steps.next();
        if (done) {
          setFound({ result: value as T, isStale: false });
          return;
        }
      }
      timer = window.setTimeout(slice, 0);
    };
    // A slider that moves asks anew many times; the work starts when it rests.
    timer = window.setTimeout(slice, 120);
    return () => window.clearTimeout(timer);
  }, [start]);
  return found;
}
