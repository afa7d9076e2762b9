// The token that the server wants with every request. It arrives in the fragment, which browsers
// send to nobody, and is kept for this origin (host and port) only. No cookie: other servers on
// the same host would receive it.

import { useSyncExternalStore } from "react";
import { recall, remember } from "../shell/memory";

const KEY = "assay.token";
let token: string | null = null;

/** Take the token out of an address such as #token=abc&to=/runs, which it then leaves. */
export function startSession(): void {
  const found = /^#token=([^&]+)(?:&to=(.*))?$/.exec(location.hash);
  if (found?.[1]) {
    setToken(decodeURIComponent(found[1]));
    history.replaceState(null, "", `#${found[2] ?? "/"}`);
  } else token = recall(KEY);
}

export function setToken(value: string): void {
  token = value;
  remember(KEY, value);
  setRefused(false);
}

let isRefused = false;
const listeners = new Set<() => void>();

/** Say whether the server refuses the token, which every page then waits for. */
export function setRefused(value: boolean): void {
  if (isRefused === value) return;
  isRefused = value;
  for (const listener of listeners) listener();
}

export function useRefused(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => isRefused,
  );
}

export function authorization(): Record<string, string> {
  return token === null ? {} : { Authorization: `Bearer ${token}` };
}
