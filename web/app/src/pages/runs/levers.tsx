// Levers by what became of them: kept, undecided, rejected, not tried.

import type { ReactNode } from "react";
import { Card } from "../../components/card";
import { CopyCommand } from "../../components/copy";
import { Empty } from "../../components/states";
import { Tag, type Tone } from "../../components/tag";
import { ReportShown } from "./report-shown";
import type { Claim, RunDetails } from "./types";

const GROUPS: readonly (readonly [role: string, title: string, tone: Tone])[] = [
  ["kept", "Kept", "good"],
  ["undecided", "Undecided", "plain"],
  ["rejected", "Rejected", "bad"],
  ["failed", "Failed", "warn"],
];

/** What became of a trial; one that the data do not decide is never kept. */
function roleOf(claim: Claim): string {
  if (claim.details["failure"]) return "failed";
  if (claim.details["role"] === "kept") return "kept";
  return claim.verdict === "undecided" ? "undecided" : "rejected";
}

export function Levers({ run }: { readonly run: RunDetails }) {
  return (
    <ReportShown run={run}>
      {(report) => {
        const trials = report.claims.filter((one) => one.name.startsWith("experiment."));
        const { skipped, launch } = report.provenance.details;
        return (
          <div className="stack">
            {GROUPS.map(([role, title, tone]) => {
              const found = trials.filter((one) => roleOf(one) === role);
              if (!found.length && role !== "kept") return null;
              return (
                <Card key={role} title={title}>
                  {found.length ? (
                    <ul className="levers">
                      {found.map((one) => (
                        <Trial key={one.name} claim={one} tone={tone} />
                      ))}
                    </ul>
                  ) : (
                    <Empty title="Nothing was kept">
                      No lever cleared the threshold with confidence; the engine runs as it was
                      found.
                    </Empty>
                  )}
                </Card>
              );
            })}
            <Settings run={run} launch={launch} />
            {skipped.length > 0 && (
              <Card title="Not tried" about="Levers whose conditions do not hold here, and why.">
                <ul className="levers">
                  {skipped.map(([lever, reason]) => (
                    <li key={lever}>
                      <code>{lever}</code>
                      <span className="muted small">{reason}</span>
                    </li>
                  ))}
                </ul>
              </Card>
            )}
          </div>
        );
      }}
    </ReportShown>
  );
}

function Trial({ claim, tone }: { readonly claim: Claim; readonly tone: Tone }) {
  const reason = String(claim.details["failure"] || claim.details["reason"] || "");
  return (
    <li>
      <span>
        <code>{String(claim.details["candidate"] ?? claim.name)}</code>{" "}
        {claim.figure && <Tag tone={tone}>{claim.figure.value.toFixed(3)}x</Tag>}
      </span>
      <span className="muted small">{reason}</span>
    </li>
  );
}

function Settings(props: { readonly run: RunDetails; readonly launch: string | null }) {
  const { start, settings } = props.run;
  const changed = Object.keys(settings ?? {}).filter(
    (name) => String(start?.[name]) !== String(settings?.[name]),
  );
  const word = (value: unknown): ReactNode => <code>{JSON.stringify(value ?? null)}</code>;
  if (!changed.length && !props.launch) return null;
  return (
    <Card
      title="Settings"
      about={changed.length ? "What differs from the start." : "As at the start."}
    >
      <ul className="levers">
        {changed.map((name) => (
          <li key={name}>
            <code>{name}</code>
            <span>
              {word(start?.[name])} {"\u2192"} {word(settings?.[name])}
            </span>
          </li>
        ))}
      </ul>
      {props.launch && <CopyCommand command={props.launch} />}
    </Card>
  );
}
