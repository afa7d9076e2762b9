// Addresses: #/page/segment/segment?name=value. Everything is in the fragment, so that the same
// links work from a server and from files.

import { useSyncExternalStore } from "react";

export interface Route {
  /** The path of a page, such as "lab"; "" is Home. */
  readonly page: string;
  readonly segments: readonly string[];
  readonly params: URLSearchParams;
}

export type Params = Readonly<Record<string, string | number | boolean | null | undefined>>;

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", ...segments] = path.split("/").map(decoded);
  return { page, segments: segments.filter(Boolean), params: new URLSearchParams(query) };
}

function queryOf(params: Params): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.append(name, String(value));
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

/** The address of a page: href("cone", ["econ.cost.per_token"], {depth: 2}). */
export function href(page: string, segments: readonly string[] = [], params: Params = {}): string {
  const path = [page, ...segments].map(encodeURIComponent).join("/");
  return `#/${path}${queryOf(params)}`;
}

export function go(address: string): void {
  location.hash = address;
}

/** Change the address without a step in the history, as while a slider moves. */
export function replace(address: string): void {
  history.replaceState(null, "", address);
  for (const listener of listeners) listener();
}

const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  addEventListener("hashchange", listener);
  return () => {
    listeners.delete(listener);
    removeEventListener("hashchange", listener);
  };
}

let last = { hash: "", route: parse("") };

function current(): Route {
  if (last.hash !== location.hash) last = { hash: location.hash, route: parse(location.hash) };
  return last.route;
}

export function useRoute(): Route {
  return useSyncExternalStore(subscribe, current);
}
