// Servers of this machine: what each does now beside the floor of the model that it serves.

import { Card } from "../../components/card";
import { Term } from "../../components/term";
import { digits, shown } from "../../design/quantity";

export interface Served {
  readonly url: string;
  readonly server: string;
  readonly model: string | null;
  readonly device: string | null;
  readonly requests: number;
  readonly sequences: number;
  readonly context: number | null;
  readonly tokens_per_second: number | null;
  readonly step_seconds: number | null;
  readonly floor: {
    readonly context: number;
    readonly step_ns: number;
    readonly expected_ns: number;
    readonly lo_ns: number;
    readonly hi_ns: number;
    readonly tokens_per_second: number | null;
    readonly expected_tokens_per_second: number;
  } | null;
  readonly gap: string | null;
}

/** Below this share of a request the server is idle: there is nothing to compare. */
const BUSY = 0.1;

export function ServedNow({ served }: { readonly served: readonly Served[] }) {
  if (served.length === 0) return null;
  return (
    <Card
      title="Served now"
      about={
        <>
          Tokens a second of each server on this machine, beside the most that the{" "}
          <Term>floor</Term> of its model allows with as many requests. Means of five seconds.
        </>
      }
    >
      <ul className="served">
        {served.map((one) => (
          <Server key={one.url} one={one} />
        ))}
      </ul>
    </Card>
  );
}

function Server({ one }: { readonly one: Served }) {
  const { floor } = one;
  const isBusy = one.requests >= BUSY;
  const most = floor?.tokens_per_second ?? null;
  const rate = one.tokens_per_second;
  return (
    <li>
      <div className="served-head">
        <strong>{one.model ?? one.url}</strong>
        <span className="muted small">
          {[one.server, one.device, one.url].filter(Boolean).join(" \u00b7 ")}
        </span>
      </div>
      {isBusy && rate !== null && (
        <p className="served-rate number">
          <span className="served-number">{digits(rate, 3)}</span> tokens/s
          {most !== null && (
            <span className="muted">
              {" "}
              of at most {digits(most, 3)}: {digits((100 * rate) / most, 2)} %
            </span>
          )}
        </p>
      )}
      {isBusy && rate !== null && most !== null && floor !== null && (
        <div className="served-bar" aria-hidden="true">
          <span className="served-observed" style={{ width: share(rate / most) }} />
          <span
            className="served-expected"
            style={{ left: share(floor.expected_tokens_per_second / most) }}
          />
        </div>
      )}
      <p className="small muted">{about(one, isBusy)}</p>
    </li>
  );
}

function share(of: number): string {
  return `${Math.min(100 * of, 100)}%`;
}

function about(one: Served, isBusy: boolean): string {
  const { floor } = one;
  const time = (ns: number) => shown({ value: ns / 1e9, unit: "s" });
  const said: string[] = [];
  if (isBusy) {
    said.push(`${digits(one.requests, 2)} ${one.requests === 1 ? "request" : "requests"}`);
    if (one.step_seconds !== null) said.push(`${time(1e9 * one.step_seconds)} a token`);
  } else said.push("serves nothing now");
  if (floor !== null) {
    const requests = one.sequences === 1 ? "1 request" : `${one.sequences} requests`;
    const context =
      one.context === null
        ? "an empty KV cache, since none has finished"
        : `${digits(floor.context, 4)} tokens of context`;
    const rate = digits(floor.expected_tokens_per_second, 3);
    said.push(
      `floor ${time(floor.step_ns)}, predicted ${time(floor.expected_ns)} (${time(floor.lo_ns)} to ${time(floor.hi_ns)}) or ${rate} tokens/s, for ${requests} with ${context}`,
    );
  }
  if (one.gap !== null) said.push(one.gap);
  return said.join("; ");
}
