// The token that the server wants with every request. It arrives in the fragment, which browsers
// send to nobody, and is kept for this origin (host and port) only. No cookie: other servers on
// the same host would receive it.

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
}

export function authorization(): Record<string, string> {
  return token === null ? {} : { Authorization: `Bearer ${token}` };
}
