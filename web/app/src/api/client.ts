// Requests to /api/v1, or, in an exported site, the same answers from files beside the page.

import type { Params } from "../shell/route";
import { authorization, setRefused } from "./session";
import { isStatic, staticAnswer } from "./static";

/** What the server says of a request that it refuses, as the command line would. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint: string | null = null,
  ) {
    super(message);
  }
}

export type Query =
  | Params
  | Readonly<Record<string, readonly string[] | string | number | boolean>>;

/** A request as text: the path and its parameters by name. It names the file of an export. */
export function keyOf(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const name of Object.keys(query).sort()) {
    const value = query[name];
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) params.append(name, String(one));
  }
  const text = params.toString();
  return path.split("/").map(encodeURIComponent).join("/") + (text ? `?${text}` : "");
}

async function request(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`api/v1/${path}`, {
      ...init,
      headers: { ...authorization(), ...init.headers },
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "the server does not answer", "assay ui starts it again");
  }
  if (response.ok) return response;
  if (response.status === 401) setRefused(true);
  const body = await response.json().catch(() => null);
  const { message, hint } = body?.error ?? {};
  throw new ApiError(response.status, message ?? `status ${response.status}`, hint ?? null);
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const key = keyOf(path, query);
  if (isStatic()) return (await staticAnswer(key)) as T;
  return (await request(key, signal ? { signal } : {})).json() as Promise<T>;
}

/** The bytes of an answer that is not JSON, such as the columns of a trace. */
export async function getBytes(
  path: string,
  query: Query = {},
  signal?: AbortSignal,
): Promise<ArrayBuffer> {
  return (await request(keyOf(path, query), signal ? { signal } : {})).arrayBuffer();
}

/** Ask the server to do something. An exported site has no server. */
export async function post<T>(path: string, body: unknown = {}, signal?: AbortSignal): Promise<T> {
  if (isStatic()) throw new ApiError(0, "an exported site cannot do this", "assay ui can");
  const response = await request(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });
  return response.json() as Promise<T>;
}

/** Hand the server bytes, such as a recording. */
export async function postBytes(
  path: string,
  body: ArrayBuffer | Uint8Array<ArrayBuffer>,
  type: string,
): Promise<Response> {
  if (isStatic()) throw new ApiError(0, "an exported site cannot do this", "assay ui can");
  return request(path, { method: "POST", headers: { "Content-Type": type }, body });
}

/** Server-sent events, read by fetch because EventSource cannot send the token. */
export async function listen(
  path: string,
  heard: (event: string, data: unknown) => void,
  signal: AbortSignal,
): Promise<void> {
  const response = await request(path, { signal, headers: { Accept: "text/event-stream" } });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const messages = (rest + value).split("\n\n");
    rest = messages.pop() ?? "";
    for (const message of messages) {
      const event = /^event: (.*)$/m.exec(message)?.[1] ?? "message";
      const data = /^data: (.*)$/m.exec(message)?.[1];
      if (data !== undefined) heard(event, JSON.parse(data));
    }
  }
}
