// Data of the server for a component: loading, ready or refused.

import { useCallback, useEffect, useState } from "react";
import { get, keyOf, type Query } from "./client";

export type Loaded<T> =
  | { readonly state: "loading"; readonly data: T | null }
  | { readonly state: "ready"; readonly data: T }
  | { readonly state: "error"; readonly error: Error };

/** Get an answer; `null` as the path asks for nothing. While it loads, the last one stays. */
export function useApi<T>(
  path: string | null,
  query: Query = {},
): Loaded<T> & { readonly reload: () => void } {
  const key = path === null ? null : keyOf(path, query);
  const [found, setFound] = useState<{ key: string | null; loaded: Loaded<T> }>({
    key: null,
    loaded: { state: "loading", data: null },
  });
  const [round, setRound] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key stands for path and query.
  useEffect(() => {
    if (path === null) return;
    const leave = new AbortController();
    setFound((before) => ({
      key,
      loaded: {
        state: "loading",
        data: before.loaded.state === "error" ? null : before.loaded.data,
      },
    }));
    get<T>(path, query, leave.signal).then(
      (data) => {
        if (!leave.signal.aborted) setFound({ key, loaded: { state: "ready", data } });
      },
      (error: Error) => {
        if (!leave.signal.aborted) setFound({ key, loaded: { state: "error", error } });
      },
    );
    return () => leave.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((value) => value + 1), []);
  return { ...found.loaded, reload };
}
